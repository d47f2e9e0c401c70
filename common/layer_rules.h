// The rules of the layer as the role programs call them: which lanes look at which slots
// (routing.h) and what is rounded how (epilogue_math.h). A machine that wants a rule to be wrong
// offers rules() of its own; no other has that, so this costs nothing.
#pragma once

#include "common/epilogue_math.h"
#include "common/machine.h"
#include "common/routing.h"

namespace moetwin {

struct LayerRules {
  MOETWIN_HD static uint32_t tokens_per_warp(uint32_t topk) {
    return moetwin::tokens_per_warp(topk);
  }
  MOETWIN_HD static float activate(float gate, float up, float limit, float weight) {
    return moetwin::activate(gate, up, limit, weight);
  }
  MOETWIN_HD static float amax_step(float amax, float value) {
    return moetwin::amax_step(amax, value);
  }
  MOETWIN_HD static GroupScale group_scale(float amax) { return moetwin::group_scale(amax); }
  /// S8 for two neighbouring elements, the first in the low byte.
  MOETWIN_HD static uint16_t requantise_pair(float low, float high, float inverse) {
    return encode_e4m3x2(mul_rn(low, inverse), mul_rn(high, inverse));
  }
  MOETWIN_HD static float combine_step(float sum, uint16_t output_bf16) {
    return moetwin::combine_step(sum, output_bf16);
  }
};

template <class M>
MOETWIN_ROLE auto rules_of(M& m) {
  if constexpr (requires { m.rules(); })
    return m.rules();
  else
    return LayerRules{};
}

}  // namespace moetwin
