// The row order in which W1 lies in memory for the kernel: gate and up rows alternate in chunks of
// eight, so that one tile of 128 rows holds 64 gate columns and the 64 up columns they are
// multiplied with. A permutation of codes alone: scales, and all of W2, stay in their own order.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace moetwin {

/// Rows of one kind in a row: the columns of an accumulator chunk.
constexpr uint32_t kW1ChunkRows = 8;

/// The row of an expert's W1 (gate rows 0 to I - 1, then up rows I to 2I - 1) that lies at memory
/// row `row`, row < 2 * intermediate.
MOETWIN_HD constexpr uint32_t w1_source_row(uint32_t row, uint32_t intermediate) {
  const uint32_t column = row / (2 * kW1ChunkRows) * kW1ChunkRows + row % kW1ChunkRows;
  const bool up = row / kW1ChunkRows % 2 != 0;
  return up ? intermediate + column : column;
}

static_assert(w1_source_row(0, 128) == 0 && w1_source_row(8, 128) == 128);
static_assert(w1_source_row(16, 128) == 8 && w1_source_row(127, 128) == 128 + 63);
static_assert(w1_source_row(128, 128) == 64 && w1_source_row(255, 128) == 255);

}  // namespace moetwin
