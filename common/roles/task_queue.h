// The CTA's task queue: load A publishes claimed tiles, load B and the math warps take them in
// order. It is kTaskQueueEntries deep, which is how far a CTA claims ahead of its math.
#pragma once

#include "common/roles/pool_table.h"

namespace moetwin {

MOETWIN_HD constexpr Shared<TaskEntry> task_entry(const KernelArgs& args, uint32_t entry) {
  return Shared<TaskEntry>{args.plan.shared.task_queue} + entry;
}

template <Machine M>
MOETWIN_ROLE void publish_task(M& m, const KernelArgs& args, PipelineState& queue,
                               const TaskEntry& task) {
  m.mbarrier_wait(args.plan.task_empty(queue.index), queue.parity ^ 1, Step::TaskWaitsForEntry);
  m.elect([&] { m.store(task_entry(args, queue.index), task, Step::TaskPublish); });
  m.mbarrier_arrive(args.plan.task_full(queue.index), Step::TaskPublish);
  queue.advance(kTaskQueueEntries);
}

template <Machine M>
MOETWIN_ROLE TaskEntry take_task(M& m, const KernelArgs& args, PipelineState& queue) {
  m.mbarrier_wait(args.plan.task_full(queue.index), queue.parity, Step::TaskWait);
  const TaskEntry task = m.load(task_entry(args, queue.index), Step::TaskWait);
  m.mbarrier_arrive(args.plan.task_empty(queue.index), Step::TaskRelease);
  queue.advance(kTaskQueueEntries);
  return task;
}

}  // namespace moetwin
