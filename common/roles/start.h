// How a CTA starts: the roles initialise the mbarriers, all warps wait for each other, and each
// takes the register budget of its warpgroup. run_role() is the whole kernel as one agent sees it.
#pragma once

#include "common/roles/dispatch.h"
#include "common/roles/load_a.h"
#include "common/roles/load_b.h"
#include "common/roles/math.h"

namespace moetwin {

/// Initialises the mbarriers that `role` is nearest to: side by side, they take less long.
template <Role role, Machine M>
MOETWIN_ROLE void init_mbarriers(M& m, const KernelPlan& plan) {
  const auto init = [&](Mbarrier bar, uint32_t arrivals) {
    m.mbarrier_init(bar, arrivals, Step::InitBarriers);
  };
  if constexpr (role == Role::Dispatch) init(plan.pull(m.agent()), 1);
  if constexpr (role == Role::LoadA) MOETWIN_NO_UNROLL
  for (uint32_t stage = 0; stage < plan.stages; ++stage) {
    init(plan.full(stage), KernelPlan::kFullArrivals);
    init(plan.empty(stage), plan.empty_arrivals());
  }
  if constexpr (role == Role::LoadB) MOETWIN_NO_UNROLL
  for (uint32_t entry = 0; entry < kTaskQueueEntries; ++entry) {
    init(plan.task_full(entry), KernelPlan::kTaskFullArrivals);
    init(plan.task_empty(entry), plan.task_empty_arrivals());
  }
  if constexpr (role == Role::Math) MOETWIN_NO_UNROLL
  for (uint32_t stage = 0; stage < plan.combine_stages; ++stage)
    init(plan.combine(m.agent(), stage), 1);
  m.fence_barrier_init(Step::InitBarriers);
}

/// Runs `role` from the start of the launch to its end.
template <Role role, Machine M>
MOETWIN_ROLE void run_role(M& m, const KernelArgs& args) {
  init_mbarriers<role>(m, args.plan);
  m.barrier_sync(NamedBarrier::Everyone, args.plan.threads(), Step::StartTogether);
  if constexpr (role == Role::Math)
    m.template set_registers<kMathRegisters>(Step::RegisterBudget);
  else
    m.template set_registers<kServiceRegisters>(Step::RegisterBudget);
  if constexpr (role == Role::Dispatch) dispatch_role(m, args);
  if constexpr (role == Role::LoadA) load_a_role(m, args);
  if constexpr (role == Role::LoadB) load_b_role(m, args);
  if constexpr (role == Role::Math) math_role(m, args);
}

}  // namespace moetwin
