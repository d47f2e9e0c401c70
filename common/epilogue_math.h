// The element-wise arithmetic of the layer, one function a rule: steps S2 to S11 of NUMERICS.md
// without the tensor core itself. Both machines and the naive path call these and nothing else, but
// for promote(), whose two operations the card writes in an order of its own (cuda/sm90_rows.h): so
// every rounding between an accumulator and y is decided here. It knows no tiles and no memory.
#pragma once

#include <cstdint>

#include "common/float_ops.h"
#include "common/host_device.h"
#include "common/number_formats.h"

namespace moetwin {

/// -log2(e), rounded to binary32.
constexpr float kMinusLog2e = float_of_bits(0xBFB8AA3Bu);
/// 1/448 rounded to binary32 (S7's c448).
constexpr float kInverseE4m3Max = float_of_bits(0x3B124925u);

/// S2 and S9: adds one scale block's accumulator to the running result. The scales' product is
/// rounded by itself, the rest is one fma.
MOETWIN_HD float promote(float final, float accumulator, float activation_scale,
                         float weight_scale) {
  return fma_rn(mul_rn(activation_scale, weight_scale), accumulator, final);
}

/// S3 for the gate; `limit` is positive, infinity means no clamp. A NaN becomes the limit.
MOETWIN_HD float clamp_gate(float gate, float limit) {
  if (bits_of_float(limit) == kFloatInfinityBits) return gate;
  return gate < limit ? gate : limit;
}

/// S3 for the up value, clamped on both sides; a NaN becomes the limit.
MOETWIN_HD float clamp_up(float up, float limit) {
  if (bits_of_float(limit) == kFloatInfinityBits) return up;
  const float raised = up < -limit ? -limit : up;
  return raised < limit ? raised : limit;
}

/// S4: gate * sigmoid(gate) * up with the special function unit's exponential and reciprocal.
MOETWIN_HD float swiglu(float gate, float up) {
  const float exponential = ex2_approx(mul_rn(gate, kMinusLog2e));
  const float sigmoid = rcp_approx(add_rn(1.0f, exponential));
  return mul_rn(mul_rn(gate, sigmoid), up);
}

/// S5: the routing weight, applied once and before quantisation.
MOETWIN_HD float apply_routing_weight(float value, float weight) { return mul_rn(value, weight); }

/// S3 to S5 for one element: from Linear1's gate and up to the value that is quantised.
MOETWIN_HD float activate(float gate, float up, float limit, float weight) {
  return apply_routing_weight(swiglu(clamp_gate(gate, limit), clamp_up(up, limit)), weight);
}

/// S6: the running maximum of |w| over a group of 64 columns; starts at +0 and never takes a NaN,
/// so the order of the columns does not matter.
MOETWIN_HD float amax_step(float amax, float value) {
  const float candidate = magnitude(value);
  return amax < candidate ? candidate : amax;
}

/// A power-of-two scale and the factor that quantises by it.
struct GroupScale {
  float scale;    ///< sf, stored with the codes
  float inverse;  ///< multiplies a value before it is encoded
};

/// S7: the smallest power of two at or above amax/448, by exponent arithmetic that wraps around:
/// amax = 0 gives {+0, 2^127}, amax = infinity gives {+infinity, -infinity}.
MOETWIN_HD GroupScale group_scale(float amax) {
  const uint32_t bits = bits_of_float(mul_rn(amax, kInverseE4m3Max));
  const uint32_t biased =
      ((bits >> kFloatMantissaBits) & 0xFF) + ((bits & kFloatMantissaMask) != 0 ? 1 : 0);
  return {float_of_bits(biased << kFloatMantissaBits),
          float_of_bits((2 * kFloatBias - biased) << kFloatMantissaBits)};
}

/// S8: one element's code.
MOETWIN_HD uint8_t requantise(float value, float inverse) {
  return encode_e4m3(mul_rn(value, inverse));
}

/// S10: one element of a Linear2 output row.
MOETWIN_HD uint16_t output_element(float final) { return encode_bf16(final); }

/// S11: one routed slot added to a token's sum, which starts at +0; slots in ascending k.
MOETWIN_HD float combine_step(float sum, uint16_t output_bf16) {
  return add_rn(sum, decode_bf16(output_bf16));
}

/// S11: the element of y.
MOETWIN_HD uint16_t combine_result(float sum) { return encode_bf16(sum); }

}  // namespace moetwin
