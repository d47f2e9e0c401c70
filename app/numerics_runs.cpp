#include "app/numerics_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "app/progress.h"
#include "common/check.h"
#include "model/data.h"
#include "model/memory_estimate.h"

namespace moetwin {
namespace {

using numerics::Variant;
using numerics::VariantResult;

/// 97.5 % quantile of Student's t with n degrees of freedom; the normal one's beyond the table.
double student_t(size_t n) {
  constexpr double kQuantiles[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                   2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                   2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                   2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
  return n <= std::size(kQuantiles) ? kQuantiles[n - 1] : 1.960;
}

/// The case with the seeds of its last launch raised.
Case with_seed(Case c, uint64_t seed) {
  c.data.seed += seed;
  c.launches.back().data.seed += seed;
  c.launches.back().routing.seed += seed;
  return c;
}

uint64_t routed_rows(const Problem& problem) {
  uint64_t rows = 0;
  for (const RankInput& input : problem.ranks)
    rows += static_cast<uint64_t>(
        std::count_if(input.topk_idx.begin(), input.topk_idx.end(),
                      [](int32_t expert) { return expert != kMaskedExpert; }));
  return rows;
}

}  // namespace

std::vector<const Variant*> choose_variants(const std::vector<std::string>& names) {
  std::vector<const Variant*> variants;
  if (names.empty()) {
    for (const Variant& variant : numerics::all_variants()) variants.push_back(&variant);
    return variants;
  }
  variants.push_back(numerics::find_variant("contract"));
  for (const std::string& name : names) {
    const Variant* variant = numerics::find_variant(name);
    if (variant == nullptr)
      throw InputError(
          fmt::format("--variant: '{}' is no variant (moetwin numerics --help lists them)", name));
    if (std::find(variants.begin(), variants.end(), variant) == variants.end())
      variants.push_back(variant);
  }
  return variants;
}

NumericsProblem numerics_problem(const Case& c) {
  NumericsProblem made;
  WeightCache cache;
  made.problem = make_problem(c, c.launches.size() - 1, cache);
  const DataSpec& x = c.launches.back().data;
  if (has_unquantised(x) && has_unquantised(c.data)) made.unquantised = {x, c.data};
  return made;
}

NumericsRuns run_numerics(const Case& c, const std::vector<const Variant*>& variants,
                          const NumericsOptions& options) {
  if (options.seeds > 1 && c.data.kind == DataKind::File)
    throw InputError(
        fmt::format("--seeds: {}, but the values come from a data file, which has no seed; the "
                    "limit is 1",
                    options.seeds));
  NumericsRuns runs;
  runs.c = c;
  runs.variants = variants;
  const Problem routed = make_routed_problem(c, c.launches.size() - 1);
  for (const RankInput& input : routed.ranks) runs.tokens += input.num_tokens;
  runs.rows = routed_rows(routed);
  MemoryNeed need = estimate_memory(c);
  need.bytes += numerics::bench_bytes(routed.shape, runs.tokens, runs.rows, variants);
  refuse_over_limit(need, options.memory_limit);

  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<Progress> progress;
  if (options.show_progress)
    progress =
        std::make_unique<Progress>("numerics", numerics::bench_tasks(routed) * options.seeds);
  for (uint64_t seed = 0; seed < options.seeds; ++seed) {
    const NumericsProblem made = numerics_problem(with_seed(c, seed));
    const auto advanced = [&progress] {
      if (progress) progress->advance();
    };
    runs.seeds.push_back(
        run_bench(made.problem, made.unquantised, variants, {options.threads, advanced}));
  }
  runs.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return runs;
}

SeedMean seed_mean(const NumericsRuns& runs, size_t variant,
                   const std::function<double(const VariantResult&)>& value) {
  const size_t n = runs.seeds.size();
  SeedMean mean;
  for (const auto& seed : runs.seeds) mean.mean += value(seed[variant]) / static_cast<double>(n);
  if (n == 1) return mean;
  double squares = 0;
  for (const auto& seed : runs.seeds) squares += std::pow(value(seed[variant]) - mean.mean, 2);
  const auto count = static_cast<double>(n);
  mean.half_width = student_t(n - 1) * std::sqrt(squares / (count - 1) / count);
  return mean;
}

}  // namespace moetwin
