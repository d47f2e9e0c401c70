// A math warpgroup: takes tiles from the queue, multiplies 64 rows of each with a block of weight
// rows, promotes every scale block, and hands the result to the epilogue of its GEMM
// (linear1_epilogue.h, linear2_scatter.h). When the CTA has no more tiles it combines.
//
//   who waits      who arrives               how many         what it means
//   math           load A, load B on full    2, and bytes     the stage can be read
//   load A, B      math on empty             math warps       the stage can be overwritten
//   pull           math on x_empty[slot]     1 a tile         Linear1 has read the block's rows
//   math (L1)      math (L2) on              1 a tile         Linear2 has read the block's rows
//                  l1_empty[slot]
#pragma once

#include "common/roles/combine.h"
#include "common/roles/linear1_epilogue.h"
#include "common/roles/linear2_scatter.h"
#include "common/roles/task_queue.h"

namespace moetwin {

/// Pieces of a K block that are promoted by themselves, because they have a scale factor of their
/// own: Linear1 has one of 4 tensor-core steps, Linear2 two of 2.
MOETWIN_HD constexpr uint32_t k_parts(TileKind kind) { return kind == TileKind::Linear1 ? 1 : 2; }

/// Where a tile's weight scales begin, in elements: those of k block 0.
struct WeightScales {
  uint64_t even;  ///< for even 8-column chunks
  uint64_t odd;   ///< for odd ones (Linear1: up rows)
};

MOETWIN_HD constexpr WeightScales weight_scales_of(const Shape& shape, const TaskEntry& task) {
  const uint64_t h = shape.hidden_blocks();
  const uint64_t i = shape.intermediate_blocks();
  if (task.kind == TileKind::Linear1) {
    // Tile n holds gate columns 64n.. and up columns 64n..: two tiles share a scale block.
    const uint64_t gate = (task.local_expert * 2 * i + task.n / 2) * h;
    return {gate, gate + i * h};
  }
  const uint64_t row = (task.local_expert * h + task.n) * i;
  return {row, row};
}

/// Runs the k loop of a tile into `total`.
template <TileKind kKind, Machine M>
MOETWIN_ROLE void multiply_tile(M& m, const KernelArgs& args, const TaskEntry& task, MathRows mine,
                                PipelineState& stage, typename M::Accumulator& total) {
  constexpr uint32_t kParts = k_parts(kKind);
  constexpr uint32_t kSteps = kBlockK / kMmaK / kParts;
  const KernelPlan& plan = args.plan;
  const WeightScales first = weight_scales_of(args.shape, task);
  const auto weight_scales = kKind == TileKind::Linear1 ? m.w1_scales() : m.w2_scales();
  m.clear(total, mine.valid);
  const uint32_t k_blocks = m.stepped_k_blocks(
      kKind == TileKind::Linear1 ? args.shape.hidden_blocks() : args.shape.intermediate_blocks());
  for (uint32_t k = 0; k < k_blocks; ++k) {
    m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
    const float even = m.load(weight_scales + (first.even + k), Step::MathReadScales);
    const float odd = m.load(weight_scales + (first.odd + k), Step::MathReadScales);
    const Shared<uint8_t> a{plan.shared.stage_a + stage.index * plan.stage_a_bytes() +
                            mine.first * kBlockK};
    const Shared<uint8_t> b{plan.shared.stage_b + stage.index * plan.stage_b_bytes()};
    const Shared<float> scales{plan.shared.stage_scales + stage.index * plan.stage_scale_bytes()};
    MOETWIN_UNROLL
    for (uint32_t part = 0; part < kParts; ++part) {
      const auto row_scales = m.load_rows(scales + (part * plan.block_m + mine.first), mine.valid,
                                          Step::MathReadScales);
      typename M::Accumulator product;
      m.template mma<kSteps>(product, a, b, part * kSteps, Step::MathMma);
      m.mma_commit(Step::MathMma);
      m.mma_wait(product, Step::MathMmaWait);
      if (part + 1 == kParts) {
        m.fence_proxy_async(FenceSpace::Shared, Step::MathFence);
        m.mbarrier_arrive(plan.empty(stage.index), Step::MathReleaseStage);
      }
      m.promote(total, product, row_scales, even, odd);
    }
    stage.advance(plan.stages);
  }
}

/// The last stage of the tile has landed, so its rows have been read from the ring. One warpgroup
/// speaks for the CTA: each of them waits for every stage.
template <Machine M>
MOETWIN_ROLE void release_block(M& m, const TaskEntry& task, RingSlot ring) {
  if (m.agent() != 0) return;
  const Region region = task.kind == TileKind::Linear1 ? Region::XEmpty : Region::Linear1Empty;
  m.elect([&] {
    m.reduce_add(m.template region<uint32_t>(region) + ring.index, 1u, Order::Release, Scope::Gpu,
                 Step::MathReleaseBlock);
  });
}

template <Machine M>
MOETWIN_ROLE void math_role(M& m, const KernelArgs& args) {
  const KernelPlan& plan = args.plan;
  m.barrier_sync(NamedBarrier::Everyone, plan.threads(), Step::PoolTableReady);
  PipelineState queue;
  PipelineState stage;
  for (;;) {
    const TaskEntry task = take_task(m, args, queue);
    if (task.kind == TileKind::None) break;
    const RingSlot ring = ring_slot(task.block, plan.ring_blocks);
    const MathRows mine = math_rows(m.agent(), task.rows);
    typename M::Accumulator total;
    if (task.kind == TileKind::Linear1) {
      multiply_tile<TileKind::Linear1>(m, args, task, mine, stage, total);
      release_block(m, task, ring);
      linear1_epilogue(m, args, task, ring, mine, total);
    } else {
      multiply_tile<TileKind::Linear2>(m, args, task, mine, stage, total);
      release_block(m, task, ring);
      linear2_scatter(m, args, task, mine, total);
    }
  }
  m.fence_proxy_async(FenceSpace::Both, Step::MathFenceAll);
  const uint32_t math_and_dispatch = plan.math_threads() + kDispatchThreads;
  m.barrier_arrive(NamedBarrier::MathDone, math_and_dispatch, Step::MathDone);
  m.barrier_sync(NamedBarrier::CombineReady, math_and_dispatch, Step::CombineWait);
  combine(m, args);
}

}  // namespace moetwin
