// Runs of the numerics bench as the command line asks for them: which variants, which seeds, and
// means with confidence over the seeds. What a variant is lies in model/numerics/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/numerics/bench.h"

namespace moetwin {

constexpr uint64_t kMaxNumericsSeeds = 1000;

/// The contract, then the others of `names` in their order; no names: all variants. Throws
/// InputError for a name that is none.
std::vector<const numerics::Variant*> choose_variants(const std::vector<std::string>& names);

struct NumericsOptions {
  uint64_t seeds = 1;
  uint32_t threads = 0;
  uint64_t memory_limit = UINT64_MAX;
  bool show_progress = true;
};

struct NumericsRuns {
  Case c;
  std::vector<const numerics::Variant*> variants;
  std::vector<std::vector<numerics::VariantResult>> seeds;  ///< [seeds][variants]
  uint64_t tokens = 0;                                      ///< of the first seed
  uint64_t rows = 0;
  double seconds = 0;
};

/// The last launch of `c`, with the seeds of data and routing raised by 0, 1, ... Throws InputError
/// for several seeds where the values come from a file, and for a case over the memory limit.
NumericsRuns run_numerics(const Case& c, const std::vector<const numerics::Variant*>& variants,
                          const NumericsOptions& options);

/// The problem of the last launch and what its tensors before quantisation are made from, if any.
struct NumericsProblem {
  Problem problem;
  std::optional<UnquantisedSpecs> unquantised;
};
NumericsProblem numerics_problem(const Case& c);

/// A mean over seeds and half the width of its 95 % confidence interval (Student's t; 0 for one).
struct SeedMean {
  double mean = 0;
  double half_width = 0;
};
SeedMean seed_mean(const NumericsRuns& runs, size_t variant,
                   const std::function<double(const numerics::VariantResult&)>& value);

}  // namespace moetwin
