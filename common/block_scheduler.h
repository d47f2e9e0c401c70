// Which tile comes next: pure functions of the task number and the pool table, the same on the CPU
// and the GPU. Owns the order of tiles under both policies and nothing else: who claims a task and
// how it reaches the other warps is roles/load_a.h.
//
//   ring   L1(0) .. L1(W-1), then L2(0), L1(W), L2(1), L1(W+1), ... and the remaining L2 blocks
//   wave   for each batch of experts: all its L1 tiles, then all its L2 tiles
//
// Under both, SMs claim tasks one by one from a counter of the rank.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/ring_pool.h"

namespace moetwin {

enum class TileKind : uint32_t { None, Linear1, Linear2 };

/// One tile of work: a pool block times one block of weight rows.
struct Tile {
  TileKind kind = TileKind::None;
  uint32_t block = 0;  ///< logical pool block
  uint32_t n = 0;      ///< block of weight rows, below n1 or n2
};

/// One entry of the CTA's pool table, a running total over the local experts before this one; entry
/// [E_local] holds the totals.
struct PoolTableEntry {
  uint32_t first_block;
  uint32_t first_row;  ///< rows are counted without padding here
};

/// The expert a pool block belongs to: the last one that starts at or before it (experts without
/// rows share their start with the next one). `first_block(e)` reads the pool table.
template <class FirstBlock>
MOETWIN_HD uint32_t expert_of_block(uint32_t num_local_experts, uint32_t block,
                                    FirstBlock&& first_block) {
  uint32_t low = 0;
  uint32_t high = num_local_experts - 1;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (first_block(middle) <= block)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Tile number `task` in ring order; kind None past the end. The plan keeps task numbers in 32
/// bits.
MOETWIN_HD constexpr Tile ring_tile(uint32_t task, uint32_t blocks, TileCounts tiles,
                                    uint32_t warm_up) {
  const uint32_t pair_tasks = tiles.n1 + tiles.n2;
  const uint32_t lead = warm_up < blocks ? warm_up : blocks;
  const uint32_t lead_tasks = lead * tiles.n1;
  const uint32_t paired_end = lead_tasks + (blocks - lead) * pair_tasks;
  Tile tile{};
  if (task < lead_tasks) {
    tile = {TileKind::Linear1, task / tiles.n1, task % tiles.n1};
  } else if (task < paired_end) {
    const uint32_t pair = (task - lead_tasks) / pair_tasks;
    const uint32_t place = (task - lead_tasks) % pair_tasks;
    tile = place < tiles.n2 ? Tile{TileKind::Linear2, pair, place}
                            : Tile{TileKind::Linear1, pair + lead, place - tiles.n2};
  } else if (task < blocks * pair_tasks) {
    tile = {TileKind::Linear2, blocks - lead + (task - paired_end) / tiles.n2,
            (task - paired_end) % tiles.n2};
  }
  return tile;
}

/// Where a walk through the waves stands; one a walker, starting at zero.
struct WaveCursor {
  uint32_t first_expert = 0;  ///< of the current wave
  uint32_t first_task = 0;    ///< tasks of all earlier waves
};

/// Tile number `task` in wave order; tasks of one walker must ascend. `first_block(e)` reads the
/// pool table, valid up to e = num_local_experts (the total).
template <class FirstBlock>
MOETWIN_HD Tile wave_tile(WaveCursor& cursor, uint32_t task, uint32_t num_local_experts,
                          uint32_t experts_per_wave, TileCounts tiles, FirstBlock&& first_block) {
  Tile tile{};
  while (cursor.first_expert < num_local_experts) {
    const uint32_t left = num_local_experts - cursor.first_expert;
    const uint32_t experts = experts_per_wave < left ? experts_per_wave : left;
    const uint32_t begin = first_block(cursor.first_expert);
    const uint32_t blocks = first_block(cursor.first_expert + experts) - begin;
    const uint32_t tasks = blocks * (tiles.n1 + tiles.n2);
    const uint32_t place = task - cursor.first_task;
    if (place < tasks) {
      const uint32_t l1_tasks = blocks * tiles.n1;
      tile = place < l1_tasks ? Tile{TileKind::Linear1, begin + place / tiles.n1, place % tiles.n1}
                              : Tile{TileKind::Linear2, begin + (place - l1_tasks) / tiles.n2,
                                     (place - l1_tasks) % tiles.n2};
      break;
    }
    cursor.first_task += tasks;
    cursor.first_expert += experts;
  }
  return tile;
}

}  // namespace moetwin
