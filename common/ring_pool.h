// The pool of received rows and the rings that hold its data. Pool rows of one expert are
// contiguous and padded to BLOCK_M; a pool block is BLOCK_M rows. Metadata is indexed by the
// logical row; data lives in rings over blocks. Owns every count that a ring slot's waiter compares
// with, and the rule for the smallest ring that cannot deadlock.
//
//   x_full    pull adds 1 a chunk of a row, the last row of an expert its padding too; lap L wants
//             (L+1) * BLOCK_M * chunks a row
//   x_empty   math adds the slices of a Linear1 tile read; lap L wants L * n1 * slices
//   l1_full   each math warpgroup adds the slices of a stored Linear1 tile; lap L wants
//             (L+1) * n1 * slices * warpgroups
//   l1_empty  math adds the slices of a Linear2 tile read; lap L wants L * n2 * slices
#pragma once

#include <cstdint>

#include "common/shape.h"

namespace moetwin {

constexpr uint32_t kSliceN = 128;  ///< weight rows of a slice; a tile is one or two of them
constexpr uint32_t kMaxSlices = 2;
constexpr uint32_t kBlockK = 128;  ///< codes a stage holds of one row

/// BLOCK_M rows of the pool times BLOCK_N weight rows.
struct TileSize {
  uint32_t m;
  uint32_t n;
};

/// Where a logical pool block lies.
struct RingSlot {
  uint32_t index;  ///< slot of the ring
  uint32_t lap;    ///< how often the slot was used before
};

MOETWIN_HD constexpr RingSlot ring_slot(uint32_t block, uint32_t ring_blocks) {
  return {block % ring_blocks, block / ring_blocks};
}

/// Tiles a pool block has in each GEMM. A tile may be dealt out slice by slice (block_scheduler.h),
/// so what is counted for a block are slices.
struct TileCounts {
  uint32_t n1;          ///< Linear1: BLOCK_N / 2 gate and as many up columns each
  uint32_t n2;          ///< Linear2: BLOCK_N columns each
  uint32_t slices = 1;  ///< of a tile

  MOETWIN_HD constexpr uint32_t linear1_slices() const { return n1 * slices; }
  MOETWIN_HD constexpr uint32_t linear2_slices() const { return n2 * slices; }
};

MOETWIN_HD constexpr TileCounts tile_counts(const Shape& shape, uint32_t block_n) {
  return {2 * shape.intermediate / block_n, shape.hidden / block_n, block_n / kSliceN};
}

// Counters may pass 2^32 in theory; every comparison is by signed distance, so they may wrap.
MOETWIN_HD constexpr uint32_t x_full_target(uint32_t lap, uint32_t a_block) {
  return (lap + 1) * a_block;
}
MOETWIN_HD constexpr uint32_t x_empty_target(uint32_t lap, TileCounts tiles) {
  return lap * tiles.linear1_slices();
}
MOETWIN_HD constexpr uint32_t l1_full_target(uint32_t lap, TileCounts tiles,
                                             uint32_t math_warpgroups) {
  return (lap + 1) * tiles.linear1_slices() * math_warpgroups;
}
MOETWIN_HD constexpr uint32_t l1_empty_target(uint32_t lap, TileCounts tiles) {
  return lap * tiles.linear2_slices();
}

/// What pulling a chunk of row `row` of an expert with `expert_rows` rows adds to x_full: the last
/// row stands for the padding of its block as well, so that every block adds BLOCK_M for each
/// chunk.
MOETWIN_HD constexpr uint32_t x_full_share(uint32_t row, uint32_t expert_rows, uint32_t block_m) {
  return row + 1 == expert_rows ? block_m - row % block_m : 1;
}

MOETWIN_HD constexpr uint32_t blocks_of(uint32_t rows, uint32_t block_m) {
  return (rows + block_m - 1) / block_m;
}

/// Rows one rank may receive: every slot of every token of every rank.
MOETWIN_HD constexpr uint64_t max_received_rows(const Shape& shape) {
  return uint64_t{shape.ranks} * shape.slots_per_source();
}

/// The most pool blocks any routing can need: one row on each local expert opens a block each, and
/// every further BLOCK_M rows open one more. Exact.
MOETWIN_HD constexpr uint64_t max_pool_blocks(const Shape& shape, uint32_t block_m) {
  const uint64_t rows = max_received_rows(shape);
  const uint64_t opened = rows < shape.num_local_experts() ? rows : shape.num_local_experts();
  return opened + (rows - opened) / block_m;
}

/// Linear1 blocks that come before the first Linear2 block in ring order. Between the last Linear1
/// tile of block 0 and the first Linear2 tile, which waits for all of block 0, stand at least two
/// tiles for every SM: the one it works on and the one it has claimed ahead.
MOETWIN_HD constexpr uint32_t linear1_warm_up(const Shape& shape, uint32_t block_n,
                                              uint32_t sms_per_rank) {
  const uint32_t n1 = tile_counts(shape, block_n).n1;
  return 1 + (2 * sms_per_rank + n1 - 1) / n1;
}

/// The smallest ring that cannot deadlock, whatever the routing and the schedule.
///
/// In ring order Linear1 of block b stands just behind Linear2 of block b - W (W the warm-up). With
/// W ring slots or more, everything a tile waits for (rows of its block, Linear1 of its block,
/// Linear2 of the block that held its slot) is done by tiles that stand before it or by pulls of
/// earlier rows, so the first unfinished tile can always run. With W - 1 slots Linear1 of block
/// W - 1 waits for Linear2 of block 0, which stands behind it: an SM that holds the first may have
/// claimed a tile of the second, and both wait for ever. A pool that never wraps needs no more
/// slots than it has blocks.
MOETWIN_HD constexpr uint64_t smallest_safe_ring(const Shape& shape, TileSize tile,
                                                 uint32_t sms_per_rank) {
  const uint64_t warm_up = linear1_warm_up(shape, tile.n, sms_per_rank);
  const uint64_t blocks = max_pool_blocks(shape, tile.m);
  return warm_up < blocks ? warm_up : blocks;
}

}  // namespace moetwin
