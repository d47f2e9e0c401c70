// Which tile comes next: pure functions of the task number and the pool table, the same on the CPU
// and the GPU. Owns the order of tiles under both policies and nothing else: who claims a task and
// how it reaches the other warps is roles/load_a.h.
//
//   ring   L1(0) .. L1(W-1), then L2(0), L1(W), L2(1), L1(W+1), ... and the remaining L2 blocks
//   wave   for each batch of experts: all its L1 tiles, then all its L2 tiles; of an expert all
//          blocks for one block of weight rows, then for the next one, so that SMs read the same
//          weights at about the same time; where that would leave SMs idle, slices in place of
//          tiles
//
// Under both, SMs claim tasks one by one from a counter of the rank.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/ring_pool.h"

namespace moetwin {

enum class TileKind : uint32_t { None, Linear1, Linear2 };

/// One task: a pool block times a block of weight rows, or times one slice of it.
struct Tile {
  TileKind kind = TileKind::None;
  uint32_t block = 0;   ///< logical pool block
  uint32_t n = 0;       ///< block of weight rows, below n1 or n2
  uint32_t slice = 0;   ///< the first one
  uint32_t slices = 0;  ///< how many from there: all of them or one
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
    tile = {TileKind::Linear1, task / tiles.n1, task % tiles.n1, 0, tiles.slices};
  } else if (task < paired_end) {
    const uint32_t pair = (task - lead_tasks) / pair_tasks;
    const uint32_t place = (task - lead_tasks) % pair_tasks;
    tile = place < tiles.n2
               ? Tile{TileKind::Linear2, pair, place, 0, tiles.slices}
               : Tile{TileKind::Linear1, pair + lead, place - tiles.n2, 0, tiles.slices};
  } else if (task < blocks * pair_tasks) {
    tile = {TileKind::Linear2, blocks - lead + (task - paired_end) / tiles.n2,
            (task - paired_end) % tiles.n2, 0, tiles.slices};
  }
  return tile;
}

/// Tiles an SM has of a launch's last GEMM, at least, where its end is dealt out by slices.
constexpr uint32_t kTilesBeforeSlices = 8;

/// One GEMM of a wave: tiles, and behind them tiles that are dealt out slice by slice.
struct WaveGemm {
  TileKind kind;
  uint32_t begin;   ///< first block
  uint32_t n;       ///< tiles a block
  uint32_t slices;  ///< of a tile
  uint32_t whole;   ///< tiles that are one task; each one behind them is a task a slice
  uint32_t tasks;
};

/// With so few tiles that every SM gets one slice at most all are dealt out by slices: that is
/// twice as many SMs at work. At the end of the launch the last few are, so that the SMs finish
/// closer together; a slice costs more than half of a tile.
MOETWIN_HD constexpr WaveGemm wave_gemm(TileKind kind, uint32_t begin, uint32_t blocks,
                                        TileCounts tiles, uint32_t sms, bool last_wave) {
  const bool linear1 = kind == TileKind::Linear1;
  const uint32_t n = linear1 ? tiles.n1 : tiles.n2;
  const uint32_t all = blocks * n;
  uint32_t whole = all;
  if (all <= sms / tiles.slices)
    whole = 0;
  else if (last_wave && !linear1 && all >= kTilesBeforeSlices * sms)
    whole = all - (sms + 3) / 4;
  return {kind, begin, n, tiles.slices, whole, whole + (all - whole) * tiles.slices};
}

/// Task number `task` of a wave's GEMM: expert by expert, and inside an expert by weight rows.
template <class FirstBlock>
MOETWIN_HD Tile wave_gemm_tile(const WaveGemm& gemm, uint32_t task, uint32_t num_local_experts,
                               FirstBlock&& first_block) {
  const bool sliced = task >= gemm.whole;
  const uint32_t slice = sliced ? (task - gemm.whole) % gemm.slices : 0;
  const uint32_t place = sliced ? gemm.whole + (task - gemm.whole) / gemm.slices : task;
  const uint32_t expert =
      expert_of_block(num_local_experts, gemm.begin + place / gemm.n, first_block);
  const uint32_t own = first_block(expert);
  const uint32_t blocks = first_block(expert + 1) - own;
  const uint32_t inside = place - (own - gemm.begin) * gemm.n;
  return {gemm.kind, own + inside % blocks, inside / blocks, slice, sliced ? 1 : gemm.slices};
}

/// Where a walk through the waves stands; one a walker, starting at zero.
struct WaveCursor {
  uint32_t first_expert = 0;  ///< of the current wave
  uint32_t first_task = 0;    ///< tasks of all earlier waves
};

/// Task number `task` in wave order; tasks of one walker must ascend. `first_block(e)` reads the
/// pool table, valid up to e = num_local_experts (the total).
template <class FirstBlock>
MOETWIN_HD Tile wave_tile(WaveCursor& cursor, uint32_t task, uint32_t num_local_experts,
                          uint32_t experts_per_wave, TileCounts tiles, uint32_t sms,
                          FirstBlock&& first_block) {
  Tile tile{};
  while (cursor.first_expert < num_local_experts) {
    const uint32_t left = num_local_experts - cursor.first_expert;
    const uint32_t experts = experts_per_wave < left ? experts_per_wave : left;
    const uint32_t begin = first_block(cursor.first_expert);
    const uint32_t blocks = first_block(cursor.first_expert + experts) - begin;
    const bool last = experts == left;
    const WaveGemm linear1 = wave_gemm(TileKind::Linear1, begin, blocks, tiles, sms, last);
    const WaveGemm linear2 = wave_gemm(TileKind::Linear2, begin, blocks, tiles, sms, last);
    const uint32_t place = task - cursor.first_task;
    if (place < linear1.tasks) {
      tile = wave_gemm_tile(linear1, place, num_local_experts, first_block);
      break;
    }
    if (place < linear1.tasks + linear2.tasks) {
      tile = wave_gemm_tile(linear2, place - linear1.tasks, num_local_experts, first_block);
      break;
    }
    cursor.first_task += linear1.tasks + linear2.tasks;
    cursor.first_expert += experts;
  }
  return tile;
}

}  // namespace moetwin
