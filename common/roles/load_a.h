// The load A warp: decides which tile the CTA works on next, tells the other warps, and feeds
// operand A and its scale factors into the stages.
//
//   who waits      who arrives                how many              what it means
//   load B, math   load A on task_full        1                     the next tile is in the queue
//   load A         load B, math on task_empty 1 + math warps        the entry may be overwritten
//   load A         pull on x_full[slot]       (L+1) * BLOCK_M       Linear1's rows are in the ring
//                                             * chunks a row
//   load A         math on l1_full[slot]      (L+1) * n1 * slices   Linear2's rows are in the ring
//                                             * math warpgroups
//   math           load A, load B on full     2, and the bytes      the stage can be read
//   load A, B      math on empty              math warps            the stage can be overwritten
#pragma once

#include "common/roles/task_queue.h"

namespace moetwin {

/// Claims tasks one after the other, under either policy, and says which tile one is.
template <Machine M>
struct TileSource {
  WaveCursor wave;

  /// Needs no pool table.
  MOETWIN_ROLE uint32_t claim(M& m) {
    const auto counter = m.template region<uint32_t>(Region::TaskCounter);
    return m.elect(
        [&] { return m.fetch_add(counter, 1u, Order::Relaxed, Scope::Gpu, Step::TaskClaim); });
  }

  MOETWIN_ROLE Tile tile_of(M& m, const KernelArgs& args, uint32_t task) {
    const uint32_t experts = args.shape.num_local_experts();
    if (args.plan.scheduler == SchedulerPolicy::Wave)
      return wave_tile(wave, task, experts, args.plan.experts_per_wave, args.plan.tiles,
                       args.plan.sms,
                       [&](uint32_t e) { return read_pool_table(m, args, e).first_block; });
    return ring_tile(task, read_pool_table(m, args, experts).first_block, args.plan.tiles,
                     args.plan.warm_up);
  }
};

/// The entry the other warps need for a tile: its expert and how many of its rows are valid.
template <Machine M>
MOETWIN_ROLE TaskEntry describe_tile(M& m, const KernelArgs& args, Tile tile) {
  if (tile.kind == TileKind::None) return {tile.kind, 0, 0, 0, 0, 0, 0, 0};
  const auto first_block = [&](uint32_t e) { return read_pool_table(m, args, e).first_block; };
  const uint32_t expert = expert_of_block(args.shape.num_local_experts(), tile.block, first_block);
  const uint32_t before = (tile.block - first_block(expert)) * args.plan.block_m;
  const uint32_t left = expert_rows(m, args, expert) - before;
  const uint32_t rows = left < args.plan.block_m ? left : args.plan.block_m;
  return {tile.kind, tile.block, tile.n, expert, rows, tile.slice, tile.slices, 0};
}

/// Waits until the rows that a tile multiplies are in the ring.
template <Machine M>
MOETWIN_ROLE void wait_for_operand_a(M& m, const KernelArgs& args, const TaskEntry& task,
                                     RingSlot ring) {
  if (task.kind == TileKind::Linear1)
    m.wait_until(m.template region<uint32_t>(Region::XFull) + ring.index,
                 at_least(x_full_target(ring.lap, args.plan.x_full_a_block())), Scope::Gpu,
                 Step::LoadAWaitsForRows);
  else
    m.wait_until(m.template region<uint32_t>(Region::Linear1Full) + ring.index,
                 at_least(l1_full_target(ring.lap, args.plan.tiles, args.plan.math_warpgroups)),
                 Scope::Gpu, Step::LoadAWaitsForLinear1);
}

template <Machine M>
MOETWIN_ROLE void load_a_tiles(M& m, const KernelArgs& args, const TaskEntry& task, RingSlot ring,
                               PipelineState& stage) {
  const KernelPlan& plan = args.plan;
  const bool linear1 = task.kind == TileKind::Linear1;
  const Tensor tensor = linear1 ? Tensor::PoolX : Tensor::Linear1;
  const uint32_t k_blocks = linear1 ? args.shape.hidden_blocks() : args.shape.intermediate_blocks();
  const uint32_t scale_columns = linear1 ? 1 : 2;  // of BLOCK_M scale factors, a block of K
  const auto scales =
      m.template region<float>(linear1 ? Region::PoolXScales : Region::Linear1Scales) +
      uint64_t{ring.index} * k_blocks * scale_columns * plan.block_m;
  const uint32_t scale_bytes = scale_columns * plan.block_m * 4;
  const uint32_t rows = box_rows(box_of(task.rows));
  const uint32_t steps = m.stepped_k_blocks(k_blocks);
  MOETWIN_NO_UNROLL
  for (uint32_t k = 0; k < steps; ++k) {
    m.mbarrier_wait(plan.empty(stage.index), stage.parity ^ 1, Step::LoadAWaitsForStage);
    const Mbarrier full = plan.full(stage.index);
    m.mbarrier_expect(full, rows * kBlockK + scale_bytes, Step::LoadAExpect);
    m.tile_load(tensor, ring.index * plan.block_m, k * kBlockK, rows,
                Shared<uint8_t>{plan.shared.stage_a + stage.index * plan.stage_a_bytes()}, full,
                Step::LoadATile);
    m.bulk_load(Shared<float>{plan.shared.stage_scales + stage.index * plan.stage_scale_bytes()},
                scales + uint64_t{k} * scale_columns * plan.block_m, scale_bytes, full,
                Step::LoadAScales);
    stage.advance(plan.stages);
  }
}

template <Machine M>
MOETWIN_ROLE void load_a_role(M& m, const KernelArgs& args) {
  m.prefetch(Tensor::PoolX);
  m.prefetch(Tensor::Linear1);
  TileSource<M> source;
  uint32_t number = source.claim(m);
  m.barrier_sync(NamedBarrier::Everyone, args.plan.threads(), Step::PoolTableReady);
  PipelineState queue;
  PipelineState stage;
  for (;; number = source.claim(m)) {
    const TaskEntry task = describe_tile(m, args, source.tile_of(m, args, number));
    publish_task(m, args, queue, task);
    if (task.kind == TileKind::None) return;
    const RingSlot ring = ring_slot(task.block, args.plan.ring_blocks);
    wait_for_operand_a(m, args, task, ring);
    load_a_tiles(m, args, task, ring, stage);
  }
}

}  // namespace moetwin
