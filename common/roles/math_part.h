// Which part of a tile a math warpgroup owns, and where its staging lies.
#pragma once

#include "common/machine.h"

namespace moetwin {

/// What one math warpgroup multiplies: up to 64 rows of a tile with one or more slices of its
/// weights.
struct MathPart {
  uint32_t first;        ///< row inside the tile
  uint32_t valid;        ///< how many of the 64 rows hold a routed row
  uint32_t slice;        ///< the first one, of those that are staged
  uint32_t first_slice;  ///< the same one, counted over all tiles of the expert's GEMM
  uint32_t slices;
};

/// Warpgroups share a task by its rows, or, if 64 hold all that are valid, by its slices.
MOETWIN_HD constexpr MathPart math_part(const KernelPlan& plan, uint32_t warpgroup,
                                        const TaskEntry& task) {
  const uint32_t slice = task.n * plan.slices() + task.slice;
  if (task.rows <= kMathRows && task.slices > 1 && plan.math_warpgroups > 1) {
    const uint32_t own = task.slices / plan.math_warpgroups;
    return {0, task.rows, warpgroup * own, slice + warpgroup * own, own};
  }
  const uint32_t first = warpgroup * kMathRows;
  const uint32_t left = task.rows > first ? task.rows - first : 0;
  return {first, left < kMathRows ? left : kMathRows, 0, slice, task.slices};
}

/// Metadata of the part's first row.
template <Machine M>
MOETWIN_ROLE Global<TokenSrcMetadata> metadata_of(const M& m, const KernelPlan& plan,
                                                  const TaskEntry& task, MathPart mine) {
  return m.template region<TokenSrcMetadata>(Region::Metadata) +
         (task.block * plan.block_m + mine.first);
}

MOETWIN_HD constexpr uint32_t staging_offset(const KernelArgs& args, uint32_t warpgroup) {
  return args.plan.shared.staging + warpgroup * kStagingBytes;
}

}  // namespace moetwin
