#include "model/numerics/bench_plan.h"

#include <algorithm>

namespace moetwin::numerics {
namespace {

/// The place of `value` in `list`, added where it is not there.
template <typename T>
size_t place_of(const T& value, std::vector<T>& list) {
  const auto found = std::find(list.begin(), list.end(), value);
  if (found != list.end()) return static_cast<size_t>(found - list.begin());
  list.push_back(value);
  return list.size() - 1;
}

}  // namespace

BenchPlan::BenchPlan(const std::vector<const Variant*>& variants) {
  for (const Variant* variant : variants) {
    const FfnRules& rules = variant->ffn;
    ffn_of_variant.push_back(place_of(rules, ffns));
    if (ffn_of_variant.back() < input_of_ffn.size()) continue;
    const InputRules input = {place_of(rules.x, x), place_of(rules.weights, weights)};
    input_of_ffn.push_back(place_of(input, inputs));
    const bool weighted = rules.weight_place == WeightPlace::BeforeQuantisation;
    requantised_of_ffn.push_back(
        place_of(RequantisedReference{input_of_ffn.back(), rules.l1, weighted}, requantised));
  }
}

}  // namespace moetwin::numerics
