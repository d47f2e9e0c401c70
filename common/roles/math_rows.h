// Which part of a tile a math warpgroup owns, and where its staging lies.
#pragma once

#include "common/machine.h"

namespace moetwin {

/// What one math warpgroup multiplies: up to 64 rows of a tile with plan.warpgroup_slices() slices
/// of its weights.
struct MathPart {
  uint32_t first;        ///< row inside the tile
  uint32_t valid;        ///< how many of the 64 rows hold a routed row
  uint32_t slice;        ///< the first one, inside the tile
  uint32_t first_slice;  ///< the same one, counted over all tiles of the expert's GEMM
};

MOETWIN_HD constexpr MathPart math_part(const KernelPlan& plan, uint32_t warpgroup,
                                        const TaskEntry& task) {
  const uint32_t first = plan.first_row(warpgroup);
  const uint32_t left = task.rows > first ? task.rows - first : 0;
  const uint32_t slice = plan.first_slice(warpgroup);
  return {first, left < kMathRows ? left : kMathRows, slice, task.n * plan.slices() + slice};
}

MOETWIN_HD constexpr uint32_t staging_offset(const KernelArgs& args, uint32_t warpgroup) {
  return args.plan.shared.staging + warpgroup * kStagingBytes;
}

}  // namespace moetwin
