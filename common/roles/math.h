// A math warpgroup: takes tiles from the queue, multiplies 64 rows of each with one or two slices
// of weight rows (k_loop.h), and hands the result to the epilogue of its GEMM (linear1_epilogue.h,
// linear2_scatter.h). When the CTA has no more tiles it combines.
//
//   who waits      who arrives               how many         what it means
//   pull           math on x_empty[slot]     slices of tiles  Linear1 has read the block's rows
//   math (L1)      math (L2) on              slices of tiles  Linear2 has read the block's rows
//                  l1_empty[slot]
#pragma once

#include "common/roles/combine.h"
#include "common/roles/k_loop.h"
#include "common/roles/linear1_epilogue.h"
#include "common/roles/linear2_scatter.h"
#include "common/roles/task_queue.h"

namespace moetwin {

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
  typename M::template RowValues<TokenSrcMetadata> sources;
  multiply_tile<1>(m, args, task, mine, stage, total, [&] {
    sources = m.load_rows(metadata_of(m, args.plan, task, mine), mine.valid, Step::MathReadRows);
  });
  const RingSlot ring = ring_slot(task.block, args.plan.ring_blocks);
  release_block(m, Region::XEmpty, ring, task.slices);
  linear1_epilogue<kSlices>(m, args, task, ring, mine, sources, total.slice);
}

template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear2_part(M& m, const KernelArgs& args, const TaskEntry& task, MathPart mine,
                               PipelineState& stage) {
  Totals<kSlices, M> total;
  typename M::template CopiedRows<TokenSrcMetadata> sources;
  multiply_tile<2>(m, args, task, mine, stage, total, [&] {
    sources =
        m.load_copied_rows(metadata_of(m, args.plan, task, mine), mine.valid, Step::MathReadRows);
  });
  release_block(m, Region::Linear1Empty, ring_slot(task.block, args.plan.ring_blocks), task.slices);
  linear2_scatter<kSlices>(m, args, mine, sources, total.slice);
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
