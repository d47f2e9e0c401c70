#include "app/numerics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "app/run_report.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;
using numerics::BenchStage;
using numerics::CodeCounts;
using numerics::VariantResult;
using numerics::YComparison;

/// Variants that each get a table of their own on a screen, at most; also tokens and experts shown.
constexpr size_t kDetailed = 3;
constexpr size_t kWorst = 8;
constexpr size_t kNearest = 5;

const ErrorSums& y_of(const VariantResult& r) { return r.stage(BenchStage::Y); }

/// NaN where no element was finite, so that such a result never looks exact.
double value_or_nan(const ErrorSums& sums, double value) {
  return sums.finite() == 0 && sums.non_finite_result() > 0
             ? std::numeric_limits<double>::quiet_NaN()
             : value;
}
double rms_of(const ErrorSums& sums) { return value_or_nan(sums, sums.relative_rms()); }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string short_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.3e}", value) : std::string("-");
}

Json counts_json(const CodeCounts& x, const CodeCounts& weights, const CodeCounts& l1,
                 uint64_t CodeCounts::*part) {
  return {{"x", x.*part}, {"weights", weights.*part}, {"l1", l1.*part}};
}

struct Place {
  uint32_t rank = 0;
  uint64_t token = 0;
};

Place place_of_token(const Case& c, uint64_t token) {
  Place place;
  const std::vector<uint32_t>& tokens = c.launches.back().tokens;
  while (token >= tokens[place.rank]) token -= tokens[place.rank++];
  place.token = token;
  return place;
}

/// Places of the largest values, descending.
std::vector<size_t> worst_of(const std::vector<double>& values, size_t count) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(at), values.end());
  return values[at];
}

Json tokens_json(const Case& c, const VariantResult& r) {
  Json worst = Json::array();
  for (const size_t token : worst_of(r.token_rms, kWorst)) {
    const Place place = place_of_token(c, token);
    worst.push_back({{"rank", place.rank},
                     {"token", place.token},
                     {"relative_rms", number(r.token_rms[token])}});
  }
  return {{"median", number(quantile(r.token_rms, 0.5))},
          {"p99", number(quantile(r.token_rms, 0.99))},
          {"worst", worst}};
}

Json experts_json(const VariantResult& r) {
  Json experts = Json::array();
  for (const numerics::ExpertError& e : r.experts)
    experts.push_back(
        {{"expert", e.expert}, {"rows", e.rows}, {"relative_rms", number(e.relative_rms)}});
  return experts;
}

/// Errors of each stage; those of the inputs are null where nothing is before quantisation.
Json stages_json(const VariantResult& r) {
  Json stages = Json::object();
  for (size_t s = 0; s < numerics::kBenchStages; ++s) {
    const auto stage = static_cast<BenchStage>(s);
    const bool missing = stage <= BenchStage::W2 && !r.total;
    const ErrorSums& sums = r.stage(stage);
    stages[bench_stage_name(stage)] = missing
                                          ? Json(nullptr)
                                          : Json({{"relative_rms", number(rms_of(sums))},
                                                  {"bias", number(value_or_nan(sums, sums.bias()))},
                                                  {"non_finite", sums.non_finite_result()}});
  }
  return stages;
}

Json worst_json(const Case& c, const ErrorSums& y) {
  const uint64_t hidden = c.launches.back().shape.hidden;
  if (y.finite() == 0) return nullptr;
  const Place place = place_of_token(c, y.worst_place() / hidden);
  return {{"rank", place.rank}, {"token", place.token}, {"column", y.worst_place() % hidden}};
}

Json variant_json(const NumericsRuns& runs, size_t i) {
  const VariantResult& r = runs.seeds[0][i];
  const auto mean = [&](const std::function<double(const VariantResult&)>& value) {
    return seed_mean(runs, i, value);
  };
  const SeedMean rms = mean([](const VariantResult& v) { return rms_of(y_of(v)); });
  const SeedMean requantised = mean([](const VariantResult& v) { return rms_of(v.requantised); });
  Json total = nullptr;
  Json total_width = nullptr;
  if (r.total) {
    const SeedMean m = mean([](const VariantResult& v) { return rms_of(*v.total); });
    total = number(m.mean);
    total_width = number(m.half_width);
  }
  const auto of_y = [&](double (ErrorSums::*value)() const) {
    return number(mean([value](const VariantResult& v) {
                    return value_or_nan(y_of(v), (y_of(v).*value)());
                  }).mean);
  };
  return {{"name", r.variant->name},
          {"summary", r.variant->summary},
          {"relative_rms", number(rms.mean)},
          {"relative_rms_ci95", number(rms.half_width)},
          {"relative_rms_requantised", number(requantised.mean)},
          {"relative_rms_requantised_ci95", number(requantised.half_width)},
          {"relative_rms_total", total},
          {"relative_rms_total_ci95", total_width},
          {"calc_diff", of_y(&ErrorSums::calc_diff)},
          {"bias", of_y(&ErrorSums::bias)},
          {"cosine", of_y(&ErrorSums::cosine)},
          {"max_abs", of_y(&ErrorSums::max_abs)},
          {"worst", worst_json(runs.c, y_of(r))},
          {"non_finite", y_of(r).non_finite_result()},
          {"differs_from_contract", numerics::differing_elements(r.y, runs.seeds[0][0].y)},
          {"saturated", counts_json(r.x, r.weights, r.l1, &CodeCounts::saturated)},
          {"flushed", counts_json(r.x, r.weights, r.l1, &CodeCounts::flushed)},
          {"non_finite_codes", counts_json(r.x, r.weights, r.l1, &CodeCounts::non_finite)},
          {"stages", stages_json(r)},
          {"tokens", tokens_json(runs.c, r)},
          {"experts", experts_json(r)}};
}

std::string matches_text(const NumericsY& y) {
  std::string names;
  for (const YComparison& c : y.comparisons) {
    if (c.differing != 0) break;
    names += (names.empty() ? "" : ", ") + c.variant->name + " (" + c.variant->summary + ")";
  }
  return names;
}

std::string y_text(const NumericsY& y) {
  if (y.explained()) return fmt::format("{}: matches: {}\n", y.path, matches_text(y));
  std::string text = fmt::format("{}: matches no variant; the nearest are\n", y.path);
  for (size_t i = 0; i < std::min(kNearest, y.comparisons.size()); ++i) {
    const YComparison& c = y.comparisons[i];
    text += fmt::format("  {:<20} {} elements differ, relative RMS {}\n", c.variant->name,
                        c.differing, short_number(c.relative_rms));
  }
  return text;
}

std::string variant_line(const NumericsRuns& runs, size_t i) {
  const VariantResult& r = runs.seeds[0][i];
  const auto mean = [&](const std::function<double(const VariantResult&)>& value) {
    const SeedMean m = seed_mean(runs, i, value);
    if (runs.seeds.size() == 1 || !std::isfinite(m.mean)) return short_number(m.mean);
    return fmt::format("{:.3e} ±{:.1e}", m.mean, m.half_width);
  };
  const int width = runs.seeds.size() == 1 ? 10 : 19;
  const auto y = [](double (ErrorSums::*value)() const) {
    return [value](const VariantResult& v) { return value_or_nan(y_of(v), (y_of(v).*value)()); };
  };
  return fmt::format(
      "{:<20} {:>{}} {:>{}} {:>{}} {:>10} {:>10} {:>9} {:>7} {:>9} {:>8}\n", r.variant->name,
      mean([](const VariantResult& v) { return rms_of(y_of(v)); }), width,
      mean([](const VariantResult& v) { return rms_of(v.requantised); }), width,
      r.total ? mean([](const VariantResult& v) { return rms_of(*v.total); }) : "-", width,
      short_number(seed_mean(runs, i, y(&ErrorSums::calc_diff)).mean),
      short_number(seed_mean(runs, i, y(&ErrorSums::bias)).mean),
      numerics::differing_elements(r.y, runs.seeds[0][0].y), y_of(r).non_finite_result(),
      r.x.saturated + r.weights.saturated + r.l1.saturated, r.l1.flushed);
}

std::string variant_details(const NumericsRuns& runs, size_t i) {
  const VariantResult& r = runs.seeds[0][i];
  std::string text = fmt::format("\n{}: {}\n", r.variant->name, r.variant->summary);
  text += "  stage        relative RMS        bias  non-finite\n";
  for (size_t s = 0; s < numerics::kBenchStages; ++s) {
    const auto stage = static_cast<BenchStage>(s);
    if (stage <= BenchStage::W2 && !r.total) continue;
    const ErrorSums& sums = r.stage(stage);
    text += fmt::format("  {:<12} {:>12} {:>11} {:>11}\n", bench_stage_name(stage),
                        short_number(rms_of(sums)), short_number(value_or_nan(sums, sums.bias())),
                        sums.non_finite_result());
  }
  text +=
      fmt::format("  tokens: median {}, 99 % {}; worst", short_number(quantile(r.token_rms, .5)),
                  short_number(quantile(r.token_rms, .99)));
  for (const size_t token : worst_of(r.token_rms, kDetailed)) {
    const Place place = place_of_token(runs.c, token);
    text += fmt::format(" {}:{} {}", place.rank, place.token, short_number(r.token_rms[token]));
  }
  std::vector<double> experts;
  for (const numerics::ExpertError& e : r.experts) experts.push_back(e.relative_rms);
  text += "\n  experts: worst";
  for (const size_t e : worst_of(experts, kDetailed))
    text += fmt::format(" {} ({} rows) {}", r.experts[e].expert, r.experts[e].rows,
                        short_number(experts[e]));
  return text + "\n";
}

}  // namespace

std::string numerics_screen(const NumericsRuns& runs, const std::vector<NumericsY>& ys) {
  std::string text = case_lines(runs.c, true);
  text +=
      fmt::format("numerics   {} tokens, {} rows, {} variants, {} seeds in {:.1f} s\n\n",
                  runs.tokens, runs.rows, runs.variants.size(), runs.seeds.size(), runs.seconds);
  const int width = runs.seeds.size() == 1 ? 10 : 19;
  text += fmt::format("{:<20} {:>{}} {:>{}} {:>{}} {:>10} {:>10} {:>9} {:>7} {:>9} {:>8}\n",
                      "error of y against:", "same codes", width, "requant.", width, "unquant.",
                      width, "calc_diff", "bias", "differing", "not fin", "saturated", "flushed");
  for (size_t i = 0; i < runs.variants.size(); ++i) text += variant_line(runs, i);
  if (runs.variants.size() <= kDetailed)
    for (size_t i = 0; i < runs.variants.size(); ++i) text += variant_details(runs, i);
  if (!ys.empty()) text += "\n";
  for (const NumericsY& y : ys) text += y_text(y);
  return text;
}

Json numerics_json(const NumericsRuns& runs, const std::vector<NumericsY>& ys) {
  Json variants = Json::array();
  for (size_t i = 0; i < runs.variants.size(); ++i) variants.push_back(variant_json(runs, i));
  Json given = Json::array();
  for (const NumericsY& y : ys) {
    Json matches = Json::array();
    Json nearest = Json::array();
    for (size_t i = 0; i < y.comparisons.size(); ++i) {
      const YComparison& c = y.comparisons[i];
      if (c.differing == 0) matches.push_back(c.variant->name);
      if (i < kNearest)
        nearest.push_back({{"name", c.variant->name},
                           {"differing", c.differing},
                           {"relative_rms", number(c.relative_rms)}});
    }
    given.push_back({{"file", y.path}, {"matches", matches}, {"nearest", nearest}});
  }
  return {{"tokens", runs.tokens},   {"rows", runs.rows},    {"seeds", runs.seeds.size()},
          {"seconds", runs.seconds}, {"variants", variants}, {"y", given}};
}

}  // namespace moetwin
