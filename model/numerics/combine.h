// From a token's rows to its y under the rule of a variant. With the contract's rule it is S11.
#pragma once

#include <cstdint>
#include <vector>

#include "model/numerics/variant.h"

namespace moetwin::numerics {

/// One routed slot of a token, in order of k.
struct CombineSlot {
  uint32_t expert = 0;            ///< global id
  uint32_t expert_rank = 0;       ///< where it lives
  float weight = 1;               ///< applied here if not 1: a variant's weight place
  const uint16_t* row = nullptr;  ///< [hidden] BF16
};

/// y [hidden] of one token; no slots give +0.
void combine_token(const CombineRule& rule, const std::vector<CombineSlot>& slots, uint32_t hidden,
                   uint16_t* y);

}  // namespace moetwin::numerics
