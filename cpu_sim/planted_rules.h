// Rules of the layer (common/layer_rules.h) that are wrong, each as some fused kernel once had it.
// Only planted faults use them; the machine that runs one is planted_machine.h, the sums over K are
// planted_promotion.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/layer_rules.h"

namespace moetwin {

enum class LayerFault : uint8_t {
  None,
  LaneMapRoundedUp,    ///< ceil(32 / K) tokens a warp
  MaskedByFactor,      ///< masked slots are combined, times zero
  AmaxOverTile,        ///< one amax for all rows of a tile
  MantissaInScale,     ///< the exponent is rounded up, the mantissa stays
  RoundedLogarithm,    ///< 2^ceil(log2 s) with the logarithm in binary32
  ClampAfterRounding,  ///< no scale below 2^-126, after rounding to a power of two
  InverseOverflows,    ///< codes are made with the power of two at or below 448 / amax
  NanInAmax,           ///< a NaN is taken into amax
  NanLost,             ///< a NaN becomes a code of zero
  Bf16Sum,             ///< the running sum of the combine is rounded to BF16
  WeightTwice,
  WeightLeftOut,
  PromotedOnce,     ///< one promotion for all of K, with the last block's scales
  HalfAccumulator,  ///< accumulators in binary16
  Linear1Unfused,   ///< Linear1 is promoted by a product and a sum
  Linear2Unfused,   ///< every other row of Linear2 is promoted by a product and a sum
};

constexpr bool is_promotion_fault(LayerFault fault) { return fault >= LayerFault::PromotedOnce; }

class PlantedRules {
 public:
  /// `factor` multiplies what the combine adds under MaskedByFactor.
  PlantedRules(LayerFault fault, const float* factor) : fault_(fault), factor_(factor) {}

  uint32_t tokens_per_warp(uint32_t topk) const {
    if (is(LayerFault::LaneMapRoundedUp)) return (kWarpLanes + topk - 1) / topk;
    return right_.tokens_per_warp(topk);
  }
  float activate(float gate, float up, float limit, float weight) const {
    if (is(LayerFault::WeightLeftOut)) weight = 1.0f;
    const float value = right_.activate(gate, up, limit, weight);
    return is(LayerFault::WeightTwice) ? mul_rn(value, weight) : value;
  }
  float amax_step(float amax, float value) const {
    if (is(LayerFault::NanInAmax) && (std::isnan(amax) || std::isnan(value)))
      return std::numeric_limits<float>::infinity();
    return right_.amax_step(amax, value);
  }
  GroupScale group_scale(float amax) const {
    GroupScale scale = right_.group_scale(amax);
    const float wanted = mul_rn(amax, kInverseE4m3Max);
    if (is(LayerFault::MantissaInScale))
      scale.scale =
          float_of_bits(bits_of_float(scale.scale) | (bits_of_float(wanted) & kFloatMantissaMask));
    if (is(LayerFault::RoundedLogarithm) && amax > 0)
      scale = power_of_two(static_cast<int32_t>(
          std::ceil(static_cast<float>(std::log2(static_cast<double>(wanted))))));
    if (is(LayerFault::ClampAfterRounding))
      scale.scale = std::max(scale.scale, std::numeric_limits<float>::min());
    if (is(LayerFault::InverseOverflows))
      scale.inverse = float_of_bits(bits_of_float(div_rn(kE4m3Max, amax)) & ~kFloatMantissaMask);
    return scale;
  }
  uint16_t requantise_pair(float low, float high, float inverse) const {
    if (is(LayerFault::NanLost)) {
      if (std::isnan(low)) low = 0.0f;
      if (std::isnan(high)) high = 0.0f;
    }
    return right_.requantise_pair(low, high, inverse);
  }
  float combine_step(float sum, uint16_t output_bf16) const {
    if (is(LayerFault::MaskedByFactor)) return sum + *factor_ * decode_bf16(output_bf16);
    const float right = right_.combine_step(sum, output_bf16);
    return is(LayerFault::Bf16Sum) ? decode_bf16(encode_bf16(right)) : right;
  }

 private:
  bool is(LayerFault fault) const { return fault_ == fault; }
  static GroupScale power_of_two(int32_t exponent) {
    const auto biased = static_cast<uint32_t>(exponent + kFloatBias);
    return {float_of_bits(biased << kFloatMantissaBits),
            float_of_bits((2 * kFloatBias - biased) << kFloatMantissaBits)};
  }

  LayerFault fault_;
  const float* factor_;
  LayerRules right_;
};

}  // namespace moetwin
