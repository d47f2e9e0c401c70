// What may be chosen differently in the layer's arithmetic, as plain data: how tensors become codes
// and scales, how products are summed, where the routing weight goes, how slots are combined. A
// variant is one such description with a name; the one named `contract` is the arithmetic that both
// machines compute. It computes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/shape.h"

namespace moetwin::numerics {

/// A group or span that takes in the whole depth of a product.
constexpr uint32_t kWhole = 0;

enum class CodeFormat : uint8_t { E4m3, E5m2 };

/// How a scale follows from the largest magnitude `a` of a group and the format's largest value m.
enum class ScaleRule : uint8_t {
  Plain,              ///< a / m
  PowerOfTwoUp,       ///< the smallest power of two at or above a / m
  PowerOfTwoNearest,  ///< the power of two nearest to a / m; values may saturate
};

/// How rows of activations become codes.
struct RowRule {
  CodeFormat format = CodeFormat::E4m3;
  ScaleRule scale = ScaleRule::Plain;
  float floor = 1e-4f;           ///< amax is raised to it; 0: not
  uint32_t group = kScaleBlock;  ///< channels of a row that share a scale, or kWhole
  friend bool operator==(const RowRule&, const RowRule&) = default;
};

/// How weights become codes: one scale for 128 rows times `columns`.
struct WeightRule {
  CodeFormat format = CodeFormat::E4m3;
  ScaleRule scale = ScaleRule::Plain;
  float floor = 1e-4f;
  uint32_t columns = kScaleBlock;
  bool through_mxfp4 = false;  ///< values are first rounded to E2M1, a power-of-two scale per 32
  friend bool operator==(const WeightRule&, const WeightRule&) = default;
};

/// Where the products of one span are summed.
enum class Accumulator : uint8_t {
  TensorCore,         ///< chained steps from +0 (NUMERICS 2a), promoted after every span
  TensorCoreFp16,     ///< the same, every step's result rounded to FP16
  Exact,              ///< no rounding inside a span
  ReuseRescale,       ///< kept over all of K: divided by a span's scales before, multiplied after
  ReuseRescaleRatio,  ///< kept over all of K: multiplied by the ratio of scales between spans
};

/// What a span's sum is added to.
enum class RunningSum : uint8_t { Fp32, Bf16, Fp16 };

struct SumRule {
  Accumulator accumulator = Accumulator::TensorCore;
  uint32_t linear1_span = kScaleBlock;  ///< channels between two promotions, or kWhole
  uint32_t linear2_span = kLinear1ScaleGroup;
  RunningSum running = RunningSum::Fp32;
  bool fused = true;  ///< promotion is one fma; else product and sum are rounded each
  friend bool operator==(const SumRule&, const SumRule&) = default;
};

/// Where the routing weight is applied.
enum class WeightPlace : uint8_t { BeforeQuantisation, BeforeScatter, AtCombine };

/// In which order a token's slots are added.
enum class CombineOrder : uint8_t {
  Slot,
  Expert,    ///< ascending expert id
  Rank,      ///< each expert rank adds its slots and sends one BF16 row; those ascending
  Pairwise,  ///< neighbours first
};

struct CombineRule {
  CombineOrder order = CombineOrder::Slot;
  bool bf16_sum = false;  ///< the sum is rounded to BF16 after every slot
  bool fp8_rows = false;  ///< rows travel as E4M3 with a scale per 128 channels
  friend bool operator==(const CombineRule&, const CombineRule&) = default;
};

/// Everything between the unquantised tensors and a token's rows.
struct FfnRules {
  RowRule x;
  WeightRule weights;
  SumRule sum;
  bool bf16_linear1 = false;  ///< gate and up are rounded to BF16
  bool exact_swiglu = false;  ///< correctly rounded exponential and quotient for ex2 and rcp
  WeightPlace weight_place = WeightPlace::BeforeQuantisation;
  RowRule l1 = {CodeFormat::E4m3, ScaleRule::PowerOfTwoUp, 0.0f, kLinear1ScaleGroup};
  friend bool operator==(const FfnRules&, const FfnRules&) = default;
};

/// One choice of arithmetic for the whole layer.
struct Variant {
  std::string name;     ///< stable, lower case
  std::string summary;  ///< half a line: what is different from the contract
  FfnRules ffn;
  CombineRule combine;
};

/// Every variant; the first is the contract, the defaults of all rules.
const std::vector<Variant>& all_variants();

/// Null where there is none of that name.
const Variant* find_variant(std::string_view name);

/// Groups of `group` channels (kWhole: all) that `depth` channels have; the last may be shorter.
inline uint64_t groups_of(uint64_t depth, uint32_t group) {
  return group == kWhole ? 1 : (depth + group - 1) / group;
}

/// The group that a channel lies in.
inline uint64_t group_at(uint64_t channel, uint32_t group) {
  return group == kWhole ? 0 : channel / group;
}

}  // namespace moetwin::numerics
