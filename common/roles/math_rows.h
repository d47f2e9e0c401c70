// Which rows of a tile a math warpgroup owns, and where its staging lies.
#pragma once

#include "common/machine.h"

namespace moetwin {

/// The 64 rows of a tile that belong to one math warpgroup.
struct MathRows {
  uint32_t first;  ///< inside the tile
  uint32_t valid;  ///< how many of the 64 hold a routed row
};

MOETWIN_HD constexpr MathRows math_rows(uint32_t warpgroup, uint32_t tile_rows) {
  const uint32_t first = warpgroup * kMathRows;
  const uint32_t left = tile_rows > first ? tile_rows - first : 0;
  return {first, left < kMathRows ? left : kMathRows};
}

MOETWIN_HD constexpr uint32_t staging_offset(const KernelArgs& args, uint32_t warpgroup) {
  return args.plan.shared.staging + warpgroup * kStagingBytes;
}

}  // namespace moetwin
