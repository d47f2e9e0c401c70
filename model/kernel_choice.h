// Which tile, stages and ring a launch takes on a card, by what was measured (docs/measurements.md,
// "The kernel's speed"). Every choice gives the same bits; this one is fast.
#pragma once

#include <cstdint>

#include "common/kernel_options.h"
#include "common/shape.h"

namespace moetwin {

/// Options with `sms` SMs a rank. They fit the shape.
KernelOptions choose_kernel(const Shape& shape, uint32_t sms);

}  // namespace moetwin
