// The tensor-core step for operands of either FP8 format: NUMERICS 2a with each format's own
// significands and exponents. The rule of alignment and of cutting was measured for E4M3 only; that
// E5M2 follows it is an assumption. Between two E4M3 operands it gives what tile_steps() gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/numerics/variant.h"

namespace moetwin::numerics {

/// One operand: row or column i is codes[i * pitch ...].
struct WideOperand {
  CodeFormat format;
  const uint8_t* codes;
  size_t pitch;
  uint32_t count;
};

/// As tile_steps() of model/tensor_core.h: acc [a.count, b.count], dense, after `steps` chained
/// steps from +0. An infinity code counts as NaN.
void wide_tile_steps(const WideOperand& a, const WideOperand& b, uint32_t steps, float* acc);

}  // namespace moetwin::numerics
