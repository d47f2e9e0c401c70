// A math warpgroup: takes tiles from the queue, multiplies 64 rows of each with one or two slices
// of weight rows, promotes every scale block, and hands the result to the epilogue of its GEMM
// (linear1_epilogue.h, linear2_scatter.h). When the CTA has no more tiles it combines.
//
//   who waits      who arrives               how many         what it means
//   math           load A, load B on full    2, and bytes     the stage can be read
//   load A, B      math on empty             math warps       the stage can be overwritten
//   pull           math on x_empty[slot]     slices of tiles  Linear1 has read the block's rows
//   math (L1)      math (L2) on              slices of tiles  Linear2 has read the block's rows
//                  l1_empty[slot]
#pragma once

#include "common/roles/combine.h"
#include "common/roles/linear1_epilogue.h"
#include "common/roles/linear2_scatter.h"
#include "common/roles/task_queue.h"

namespace moetwin {

/// Where the weight scales of a warpgroup's slices lie: two a block of K, ascending from here.
struct WeightScales {
  uint64_t first;   ///< Linear1: of the gate rows. Linear2: of the first slice
  uint32_t second;  ///< from there, Linear1: of the up rows. Linear2: of the last slice
};

MOETWIN_HD constexpr WeightScales weight_scales_of(const Shape& shape, const TaskEntry& task,
                                                   MathPart mine) {
  const uint64_t h = shape.hidden_blocks();
  const uint64_t i = shape.intermediate_blocks();
  if (task.kind == TileKind::Linear1) {
    // A slice holds 64 gate columns and 64 up columns: two slices share a scale block.
    const uint64_t gate = (task.local_expert * 2 * i + mine.first_slice / 2) * h;
    return {gate, static_cast<uint32_t>(i * h)};
  }
  return {(task.local_expert * h + mine.first_slice) * i,
          static_cast<uint32_t>((mine.slices - 1) * i)};
}

/// A warpgroup's part of a tile: one accumulator a slice.
template <uint32_t kSlices, Machine M>
struct Totals {
  typename M::Accumulator slice[kSlices];
};

/// What a warpgroup reads of a stage.
template <Machine M>
struct StagedPart {
  typename M::Operand a;
  typename M::Operand b;
  Shared<float> scales;
};

template <Machine M>
MOETWIN_ROLE StagedPart<M> staged_part(M& m, const KernelPlan& plan, MathPart mine,
                                       uint32_t stage) {
  const Shared<uint8_t> a{plan.shared.stage_a + stage * plan.stage_a_bytes()};
  const Shared<uint8_t> b{plan.shared.stage_b + stage * plan.stage_b_bytes()};
  const Shared<float> scales{plan.shared.stage_scales + stage * plan.stage_scale_bytes()};
  return {m.operand(a + mine.first * kBlockK), m.operand(b + mine.slice * kSliceN * kBlockK),
          scales + mine.first};
}

/// Runs the k loop of a tile into `total`. A block of K is promoted in `kParts` pieces, because
/// each has a scale factor of its own: Linear1 1 of 4 tensor-core steps, Linear2 2 of 2. Between a
/// promotion and the next product stands as little as possible: what the promotion needs, and the
/// next block, is read, worked out and waited for while the tensor core works; with a single stage
/// that would wait for itself.
template <uint32_t kParts, uint32_t kSlices, Machine M>
MOETWIN_ROLE void multiply_tile(M& m, const KernelArgs& args, const TaskEntry& task, MathPart mine,
                                PipelineState& stage, Totals<kSlices, M>& total) {
  constexpr uint32_t kSteps = kBlockK / kMmaK / kParts;
  const KernelPlan& plan = args.plan;
  const bool linear1 = kParts == 1;
  const WeightScales at = weight_scales_of(args.shape, task, mine);
  auto weight_scales = (linear1 ? m.w1_scales() : m.w2_scales()) + at.first;
  MOETWIN_UNROLL
  for (uint32_t slice = 0; slice < kSlices; ++slice) m.clear(total.slice[slice], mine.valid);
  const uint32_t k_blocks =
      m.stepped_k_blocks(linear1 ? args.shape.hidden_blocks() : args.shape.intermediate_blocks());
  float next_scale[2] = {m.load(weight_scales, Step::MathReadScales),
                         m.load(weight_scales + at.second, Step::MathReadScales)};
  StagedPart<M> staged = staged_part(m, plan, mine, stage.index);
  m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
  MOETWIN_NO_UNROLL
  for (uint32_t left = k_blocks; left != 0; --left) {  // there is at least one
    const bool last = left == 1;
    float scale[2]{};
    PipelineState next_stage = stage;
    next_stage.advance(plan.stages);
    StagedPart<M> next_staged = staged;
    MOETWIN_UNROLL
    for (uint32_t part = 0; part < kParts; ++part) {
      typename M::template RowValues<float> row_scales;
      MOETWIN_UNROLL
      for (uint32_t slice = 0; slice < kSlices; ++slice) {
        const bool last_product = part + 1 == kParts && slice + 1 == kSlices;
        typename M::Accumulator product;
        m.template mma<kSteps>(product, total.slice[slice], staged.a,
                               staged.b + slice * kSliceN * kBlockK, part * kSteps, Step::MathMma);
        m.mma_commit(Step::MathMma);
        if (slice == 0) {
          row_scales =
              m.load_rows(staged.scales + part * plan.block_m, mine.valid, Step::MathReadScales);
          if (part == 0) {
            scale[0] = next_scale[0];
            scale[1] = next_scale[1];
          }
        }
        if (slice == 0 && part + 1 == kParts) {  // the last scales of the stage have been read
          m.fence_proxy_async(FenceSpace::Shared, Step::MathFence);
          if (!last) {  // they come from L2
            weight_scales = weight_scales + 1;
            next_scale[0] = m.load(weight_scales, Step::MathReadScales);
            next_scale[1] = m.load(weight_scales + at.second, Step::MathReadScales);
          }
        }
        if (last_product) next_staged = staged_part(m, plan, mine, next_stage.index);
        if (last_product && !last && plan.stages > 1)
          m.mbarrier_wait(plan.full(next_stage.index), next_stage.parity, Step::MathWaitsForStage);
        m.mma_wait(product, Step::MathMmaWait);
        if (last_product) m.mbarrier_arrive(plan.empty(stage.index), Step::MathReleaseStage);
        const float even = linear1 ? scale[0] : scale[slice];
        const float odd = linear1 ? scale[1] : scale[slice];
        m.promote(total.slice[slice], product, row_scales, even, odd);
      }
    }
    stage = next_stage;
    staged = next_staged;
    if (!last && plan.stages == 1)
      m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
  }
}

/// Walks through the k loop of a tile none of whose rows are this warpgroup's.
template <Machine M>
MOETWIN_ROLE void skip_tile(M& m, const KernelPlan& plan, uint32_t k_blocks, PipelineState& stage) {
  const uint32_t steps = m.stepped_k_blocks(k_blocks);
  MOETWIN_NO_UNROLL
  for (uint32_t k = 0; k < steps; ++k) {
    m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
    m.mbarrier_arrive(plan.empty(stage.index), Step::MathReleaseStage);
    stage.advance(plan.stages);
  }
}

/// The last stage of the task has landed, so its rows have been read from the ring for `slices`
/// slices. One warpgroup speaks for the CTA: each of them waits for every stage.
template <Machine M>
MOETWIN_ROLE void release_block(M& m, Region region, RingSlot ring, uint32_t slices) {
  if (m.agent() != 0) return;
  m.elect([&] {
    m.reduce_add(m.template region<uint32_t>(region) + ring.index, slices, Order::Release,
                 Scope::Gpu, Step::MathReleaseBlock);
  });
}

// The two kinds of tile. Where the ring slot is asked for, it is behind the k loop, which has no
// registers to spare; the first warpgroup always has rows, and it speaks for the block.

template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear1_part(M& m, const KernelArgs& args, const TaskEntry& task, MathPart mine,
                               PipelineState& stage) {
  Totals<kSlices, M> total;
  multiply_tile<1>(m, args, task, mine, stage, total);
  const RingSlot ring = ring_slot(task.block, args.plan.ring_blocks);
  release_block(m, Region::XEmpty, ring, task.slices);
  linear1_epilogue<kSlices>(m, args, task, ring, mine, total.slice);
}

template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear2_part(M& m, const KernelArgs& args, const TaskEntry& task, MathPart mine,
                               PipelineState& stage) {
  Totals<kSlices, M> total;
  multiply_tile<2>(m, args, task, mine, stage, total);
  release_block(m, Region::Linear1Empty, ring_slot(task.block, args.plan.ring_blocks), task.slices);
  linear2_scatter<kSlices>(m, args, task, mine, total.slice);
}

template <Machine M>
MOETWIN_ROLE void linear1_tile(M& m, const KernelArgs& args, const TaskEntry& task,
                               PipelineState& stage) {
  const MathPart mine = math_part(args.plan, m.agent(), task);
  if (mine.valid == 0) {
    const RingSlot ring = ring_slot(task.block, args.plan.ring_blocks);
    skip_tile(m, args.plan, args.shape.hidden_blocks(), stage);
    wait_for_linear1_slot(m, args, ring);
    publish_linear1(m, ring, task.slices);
  } else if (M::kMaxSlices == 1 || mine.slices == 1) {
    linear1_part<1>(m, args, task, mine, stage);
  } else {
    linear1_part<M::kMaxSlices>(m, args, task, mine, stage);
  }
}

template <Machine M>
MOETWIN_ROLE void linear2_tile(M& m, const KernelArgs& args, const TaskEntry& task,
                               PipelineState& stage) {
  const MathPart mine = math_part(args.plan, m.agent(), task);
  if (mine.valid == 0)
    skip_tile(m, args.plan, args.shape.intermediate_blocks(), stage);
  else if (M::kMaxSlices == 1 || mine.slices == 1)
    linear2_part<1>(m, args, task, mine, stage);
  else
    linear2_part<M::kMaxSlices>(m, args, task, mine, stage);
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
    if (task.kind == TileKind::Linear1)
      linear1_tile(m, args, task, stage);
    else
      linear2_tile(m, args, task, stage);
  }
  m.fence_proxy_async(FenceSpace::Both, Step::MathFenceAll);
  const uint32_t math_and_dispatch = plan.math_threads() + kDispatchThreads;
  m.barrier_arrive(NamedBarrier::MathDone, math_and_dispatch, Step::MathDone);
  RowLoader<M> loader;
  loader.prepare(m, args);
  m.barrier_sync(NamedBarrier::CombineReady, math_and_dispatch, Step::CombineWait);
  combine(m, args, loader);
}

}  // namespace moetwin
