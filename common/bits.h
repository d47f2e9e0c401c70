// Bit counting with the same result on host and device.
#pragma once

#include <cstdint>

#include "common/host_device.h"

#if !MOETWIN_DEVICE_CODE
#include <bit>
#endif

namespace moetwin {

MOETWIN_HD uint32_t popcount(uint32_t bits) {
#if MOETWIN_DEVICE_CODE
  return static_cast<uint32_t>(__popc(bits));
#else
  return static_cast<uint32_t>(std::popcount(bits));
#endif
}

/// Place of the lowest set bit; bits != 0.
MOETWIN_HD uint32_t lowest_set_bit(uint32_t bits) {
#if MOETWIN_DEVICE_CODE
  return static_cast<uint32_t>(__ffs(static_cast<int>(bits))) - 1;
#else
  return static_cast<uint32_t>(std::countr_zero(bits));
#endif
}

/// Place of set bit number n, counted from 0 at the low end; n < popcount(bits).
MOETWIN_HD uint32_t nth_set_bit(uint32_t bits, uint32_t n) {
  for (; n != 0; --n) bits &= bits - 1;
  return lowest_set_bit(bits);
}

}  // namespace moetwin
