// The load B warp: feeds the weights of each tile into the stages. load_a.h has the barrier table.
#pragma once

#include "common/roles/task_queue.h"

namespace moetwin {

template <Machine M>
MOETWIN_ROLE void load_b_role(M& m, const KernelArgs& args) {
  m.prefetch(Tensor::W1);
  m.prefetch(Tensor::W2);
  m.barrier_sync(NamedBarrier::Everyone, args.plan.threads(), Step::PoolTableReady);
  const KernelPlan& plan = args.plan;
  PipelineState queue;
  PipelineState stage;
  for (;;) {
    const TaskEntry task = take_task(m, args, queue);
    if (task.kind == TileKind::None) return;
    const bool linear1 = task.kind == TileKind::Linear1;
    const Tensor tensor = linear1 ? Tensor::W1 : Tensor::W2;
    const uint32_t expert_rows = linear1 ? 2 * args.shape.intermediate : args.shape.hidden;
    const uint32_t row =
        task.local_expert * expert_rows + task.n * plan.block_n + task.slice * kSliceN;
    const uint32_t k_blocks =
        linear1 ? args.shape.hidden_blocks() : args.shape.intermediate_blocks();
    const uint32_t steps = m.stepped_k_blocks(k_blocks);
    MOETWIN_NO_UNROLL
    for (uint32_t k = 0; k < steps; ++k) {
      m.mbarrier_wait(plan.empty(stage.index), stage.parity ^ 1, Step::LoadBWaitsForStage);
      const Mbarrier full = plan.full(stage.index);
      m.mbarrier_expect(full, task.slices * kSliceN * kBlockK, Step::LoadBExpect);
      const Shared<uint8_t> target{plan.shared.stage_b + stage.index * plan.stage_b_bytes()};
      for (uint32_t slice = 0; slice < task.slices; ++slice)
        m.tile_load(tensor, row + slice * kSliceN, k * kBlockK, kSliceN,
                    target + slice * kSliceN * kBlockK, full, Step::LoadBTile);
      stage.advance(plan.stages);
    }
  }
}

}  // namespace moetwin
