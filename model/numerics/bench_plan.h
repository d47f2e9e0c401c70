// What a list of variants has in common, so that each input, reference and expert network is
// computed once. Pure bookkeeping.
#pragma once

#include <cstddef>
#include <vector>

#include "model/numerics/variant.h"

namespace moetwin::numerics {

/// The rules of both inputs, by their places in a BenchPlan.
struct InputRules {
  size_t x = 0;
  size_t weights = 0;
  friend bool operator==(const InputRules&, const InputRules&) = default;
};

/// A reference that repeats a requantisation.
struct RequantisedReference {
  size_t input = 0;
  RowRule l1;
  bool weighted = true;  ///< the routing weight is in before
  friend bool operator==(const RequantisedReference&, const RequantisedReference&) = default;
};

/// Distinct rules, each with its place among the distinct rules it builds on.
struct BenchPlan {
  explicit BenchPlan(const std::vector<const Variant*>& variants);

  std::vector<RowRule> x;
  std::vector<WeightRule> weights;
  std::vector<InputRules> inputs;
  std::vector<RequantisedReference> requantised;
  std::vector<FfnRules> ffns;

  std::vector<size_t> ffn_of_variant;
  std::vector<size_t> input_of_ffn;
  std::vector<size_t> requantised_of_ffn;
};

}  // namespace moetwin::numerics
