#include "tests/gpu_check/full_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "common/check.h"
#include "common/kernel_plan.h"
#include "common/number_formats.h"
#include "common/slot_table.h"
#include "model/compare.h"
#include "model/naive.h"
#include "tests/gpu_check/plain_layer.h"

namespace moetwin {
namespace {

constexpr uint32_t kSampledRows = 64;
/// One step of BF16, relative to its value.
constexpr double kBf16Step = 1.0 / 256;
/// What the 13 bits that the tensor core keeps of a sum may cost, relative to the largest of its
/// row or group: the plain kernels add in float.
constexpr double kTensorCoreError = 1.0 / 2048;

/// Weights made once for all runs of a shape.
class HeldWeights : public WeightSource {
 public:
  HeldWeights(const WeightSource& source, uint32_t experts) : experts_(experts) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t expert = 0; expert < int64_t{experts}; ++expert)
      experts_[static_cast<size_t>(expert)] = source.expert(static_cast<uint32_t>(expert));
  }
  std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const override {
    return experts_[expert];
  }

 private:
  std::vector<std::shared_ptr<const ExpertWeights>> experts_;
};

/// Tokens spread over a launch, with at least kSampledRows rows where it has so many.
std::vector<uint32_t> sampled_tokens(const Problem& problem) {
  const uint32_t tokens = problem.ranks.front().num_tokens;
  const uint32_t topk = problem.shape.topk;
  const uint32_t wanted = std::min(tokens, (kSampledRows + topk - 1) / topk);
  std::vector<uint32_t> sample;
  for (uint32_t i = 0; i < wanted; ++i)
    sample.push_back(static_cast<uint32_t>(uint64_t{i} * (tokens - 1) / std::max(1u, wanted - 1)));
  return sample;
}

template <class T>
void take(const std::vector<T>& from, size_t row, size_t width, std::vector<T>& to) {
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(row * width),
            from.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
}

/// The launch that brings these tokens alone. A token's bits do not depend on the others.
Problem problem_of(const Problem& whole, const std::vector<uint32_t>& sample) {
  Problem part = whole;
  const RankInput& from = whole.ranks.front();
  RankInput& to = part.ranks.front();
  to = {};
  to.num_tokens = static_cast<uint32_t>(sample.size());
  for (const uint32_t token : sample) {
    take(from.x_codes, token, whole.shape.hidden, to.x_codes);
    take(from.x_scales, token, whole.shape.hidden_blocks(), to.x_scales);
    take(from.topk_idx, token, whole.shape.topk, to.topk_idx);
    take(from.topk_weights, token, whole.shape.topk, to.topk_weights);
  }
  return part;
}

/// What `expected`, the result of the sampled tokens, is in the whole result.
LayerResult result_of(const LayerResult& whole, const LayerResult& expected,
                      const std::vector<uint32_t>& sample) {
  const Shape& s = whole.shape;
  LayerResult part;
  part.shape = s;
  part.tokens = expected.tokens;
  part.slots = expected.slots;  // of a sample the slot table says nothing
  for (const uint32_t token : sample) take(whole.y, token, s.hidden, part.y);
  size_t at = 0;
  for (size_t row = 0; row < whole.rows.size() && at < expected.rows.size(); ++row) {
    const uint32_t place = expected.rows[at].token;
    if (whole.rows[row].token != sample[place] || whole.rows[row].k != expected.rows[at].k)
      continue;
    part.rows.push_back(whole.rows[row]);
    part.rows.back().token = place;
    take(whole.l1_codes, row, s.intermediate, part.l1_codes);
    take(whole.l1_scales, row, s.linear1_scale_groups(), part.l1_scales);
    take(whole.l2, row, s.hidden, part.l2);
    ++at;
  }
  return part;
}

struct Distance {
  double relative_rms = 0;
  double largest = 0;    ///< of |y - reference|, over what rounding may cost there
  uint64_t too_far = 0;  ///< values that are off by more
};

/// The distance between a BF16 value and the next larger one.
double bf16_step(uint16_t code) {
  return std::ldexp(1.0, std::max((code >> 7 & 0xFF) - 127, -126) - 7);
}

double largest_of(const std::vector<uint16_t>& values, size_t first, size_t count) {
  double largest = 0;
  for (size_t i = first; i < first + count; ++i)
    largest = std::max(largest, std::abs(double{decode_bf16(values[i])}));
  return largest;
}

/// `result` has its rows in (token, k) order.
Distance distance(const LayerResult& result, const std::vector<uint16_t>& reference) {
  Distance d;
  const size_t hidden = result.shape.hidden;
  double squares = 0;
  double reference_squares = 0;
  size_t row = 0;
  for (size_t token = 0; token < result.y.size() / hidden; ++token) {
    const size_t first_row = row;
    double sums = 0;
    for (; row < result.rows.size() && result.rows[row].token == token; ++row)
      sums += kTensorCoreError * largest_of(result.l2, row * hidden, hidden);
    for (size_t column = 0; column < hidden; ++column) {
      const uint16_t value = result.y[token * hidden + column];
      const double right = decode_bf16(reference[token * hidden + column]);
      const double off = decode_bf16(value) - right;
      double steps = sums + bf16_step(value);
      for (size_t r = first_row; r < row; ++r) steps += bf16_step(result.l2[r * hidden + column]);
      squares += off * off;
      reference_squares += right * right;
      d.largest = std::max(d.largest, std::abs(off) / steps);
      d.too_far += !(std::abs(off) <= steps);
    }
  }
  d.relative_rms = std::sqrt(squares / reference_squares);
  return d;
}

std::vector<float> linear1_values(const LayerResult& result) {
  std::vector<float> values(result.l1_codes.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = decode_e4m3(result.l1_codes[i]) * result.l1_scales[i / kLinear1ScaleGroup];
  return values;
}

struct Linear1Distance {
  uint64_t values = 0;
  uint64_t other_step = 0;  ///< not the same value
  uint64_t too_far = 0;     ///< by more than a step
};

Linear1Distance linear1_distance(const std::vector<float>& left, const std::vector<float>& right) {
  Linear1Distance d;
  d.values = left.size();
  for (size_t group = 0; group < left.size(); group += kLinear1ScaleGroup) {
    float most = 0;
    for (size_t i = group; i < group + kLinear1ScaleGroup; ++i)
      most = std::max(most, std::abs(right[i]));
    for (size_t i = group; i < group + kLinear1ScaleGroup; ++i) {
      const float off = std::abs(left[i] - right[i]);
      const float step = std::max(std::abs(left[i]), std::abs(right[i])) / 8;
      d.other_step += off != 0;
      d.too_far += !(off <= step + kTensorCoreError * most);
    }
  }
  return d;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Whether this size is right; prints its line.
bool check_size(GpuSession& session, const std::string& text, const Case& c,
                const Problem& problem) {
  const auto start = std::chrono::steady_clock::now();
  const GpuLaunch launch = session.launch(problem, c.kernel);
  for (const Finding& finding : launch.findings) fmt::print("{}: {}\n", text, finding.text);
  if (!launch.finished || !launch.findings.empty()) return false;
  const std::vector<uint32_t> sample = sampled_tokens(problem);
  const LayerResult expected = run_naive(problem_of(problem, sample));
  const LayerResult part = result_of(launch.result, expected, sample);
  const Comparison comparison = compare_results(part, expected);
  const bool equal = part.rows.size() == expected.rows.size() && comparison.equal();
  if (!equal) fmt::print("{}: {}\n", text, describe(comparison, "gpu", "naive"));
  const std::vector<float> l1 = linear1_values(launch.result);
  const PlainResult plain = plain_layer(problem);
  const Linear1Distance l1_off = linear1_distance(l1, plain.l1);
  const Distance end_to_end = distance(launch.result, plain.y);
  const Distance from_l1 = distance(launch.result, plain_layer(problem, &l1).y);
  const bool close =
      l1_off.too_far == 0 && from_l1.too_far == 0 && from_l1.relative_rms <= kBf16Step;
  fmt::print(
      "{}: {} of {} rows sampled {}; plain kernels: Linear1 {} of {} values in another step, {} "
      "further; y from the same Linear1: relative RMS {:.2e}, largest {:.2f} of the rounding, {} "
      "beyond it {}; end to end: RMS {:.2e}; {:.1f} s\n",
      text, expected.rows.size(), launch.result.rows.size(), equal ? "equal" : "DIFFER",
      l1_off.other_step, l1_off.values, l1_off.too_far, from_l1.relative_rms, from_l1.largest,
      from_l1.too_far, close ? "(close)" : "(TOO FAR)", end_to_end.relative_rms,
      seconds_since(start));
  std::fflush(stdout);
  return equal && close;
}

}  // namespace

Case full_size_case(const std::string& text, const FullSizeOptions& options) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  Case c;
  if (name == "flash" || name == "flash4")
    c.shape = {name == "flash" ? 1u : 4u, 32, 6, 4096, 2048, 0};
  else if (name == "v3")
    c.shape = {1, 32, 8, 7168, 2048, 0};
  else
    throw InputError("size '" + text + "' is not flash:TOKENS, flash4:TOKENS or v3:TOKENS");
  c.shape.max_tokens_per_rank =
      colon == std::string::npos ? 1 : static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  c.tokens.assign(c.shape.ranks, c.shape.max_tokens_per_rank);
  c.clamp = 10;
  c.routing.masked = options.masked;
  c.kernel.block_m = options.block_m;
  c.kernel.block_n = options.block_n;
  c.kernel.sms_per_rank = options.sms / c.shape.ranks;
  c.kernel.ring_blocks = options.ring_blocks;
  c.kernel.experts_per_wave = options.experts_per_wave;
  c.kernel.scheduler = options.wave ? SchedulerPolicy::Wave : SchedulerPolicy::Ring;
  c.kernel.stages = options.stages != 0 ? options.stages : kMaxStages;
  if (options.stages == 0)
    while (c.kernel.stages > 1 && make_plan(c.shape, c.kernel, false, true).error)
      --c.kernel.stages;
  set_launches(c, 1);
  return c;
}

uint64_t check_full_sizes(GpuSession& session, const std::vector<std::string>& sizes,
                          const FullSizeOptions& options) {
  uint64_t wrong = 0;
  Shape last{};
  std::shared_ptr<const WeightSource> weights;
  for (const std::string& text : sizes) {
    const Case c = full_size_case(text, options);
    if (c.shape.ranks != 1) throw InputError("size '" + text + "' has more than one rank");
    WeightCache cache;
    Problem problem = make_problem(c, 0, cache);
    if (!weights || c.shape.hidden != last.hidden) {
      weights.reset();
      weights = std::make_shared<HeldWeights>(*problem.weights, c.shape.experts);
    }
    last = c.shape;
    problem.weights = weights;
    wrong += !check_size(session, text, c, problem);
  }
  return wrong;
}

}  // namespace moetwin
