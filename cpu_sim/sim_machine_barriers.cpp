// Barriers and proxy fences of the simulated machine.
#include <fmt/format.h>

#include "cpu_sim/sim_machine.h"

namespace moetwin {

void SimMachine::sync(Step step) {
  sim_.visible(agent_);
  // The agent is the barrier's only participant: its warps meet at once.
  if (dropped(step) || postponed(step, [=, this] { sync(step); })) return;
  if (agent_.warps == 1) {
    if (checker_) checker_->agent_together(sim_.id_of(agent_), step);
    return synchronised();
  }
  const auto barrier = static_cast<NamedBarrier>(
      static_cast<uint32_t>(NamedBarrier::MathWarpgroup0) + agent_.number);
  barrier_sync(barrier, kWarpgroupThreads, step);
}

bool SimMachine::arrive_named(NamedBarrier barrier, uint32_t threads, bool waits, Step step,
                              uint64_t& round) {
  if (checker_) sim_.check_member(agent_, barrier, step);
  threads += static_cast<uint32_t>(delta(MutantKind::Count, step));
  cost(sim_.costs().issue);
  const auto bar = static_cast<uint32_t>(barrier);
  trace(TraceKind::Arrive, step, TraceObject::NamedBarrier, bar);
  SimNamedBarrier& state = cta_.named[bar];
  round = state.rounds;
  bool complete = false;
  const BarrierFault fault =
      state.arrive(agent_.in_cta, agent_.warps * kWarpLanes, threads, complete);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step,
                       fmt::format("named barrier {}", named_barrier_name(barrier)));
  sim_.synced(sim_.id_of(agent_), step, SyncOp::Arrive, sync_object_named(agent_.cta, bar), round,
              complete);
  if (checker_) {
    checker_->named_arrive(sim_.id_of(agent_), bar, step);
    const AgentMask leaving = state.waiting | (waits ? AgentMask{1} << agent_.in_cta : 0);
    if (complete) checker_->named_complete(agent_.cta, bar, leaving, step);
  }
  if (complete) sim_.wake_all(agent_.rank, agent_.sm, state.waiting, agent_.time);
  return complete;
}

void SimMachine::barrier_sync(NamedBarrier barrier, uint32_t threads, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { barrier_sync(barrier, threads, step); })) return;
  uint64_t round = 0;
  const bool last = arrive_named(barrier, threads, true, step, round);
  const auto bar = static_cast<uint32_t>(barrier);
  trace(TraceKind::Begin, step, TraceObject::NamedBarrier, bar);
  SimNamedBarrier& state = cta_.named[bar];
  while (!last && state.rounds == round) {
    state.waiting |= AgentMask{1} << agent_.in_cta;
    Wait wait;
    wait.kind = Wait::Kind::NamedBarrier;
    wait.step = step;
    wait.bar = bar;
    wait.round = round;
    sim_.block(agent_, wait);
  }
  trace(TraceKind::End, step, TraceObject::NamedBarrier, bar);
  sim_.synced(sim_.id_of(agent_), step, SyncOp::WaitRound, sync_object_named(agent_.cta, bar),
              round);
  synchronised();
}

void SimMachine::barrier_arrive(NamedBarrier barrier, uint32_t threads, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { barrier_arrive(barrier, threads, step); })) return;
  uint64_t round = 0;
  arrive_named(barrier, threads, false, step, round);
  synchronised();
}

void SimMachine::fence_proxy_async(FenceSpace space, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { fence_proxy_async(space, step); })) return;
  const bool first_lane_only = mutated(MutantKind::LeaderOnly, step);
  if (checker_) checker_->fence(sim_.id_of(agent_), space, first_lane_only, step);
  synchronised();
}

void SimMachine::mbarrier_init(Mbarrier bar, uint32_t arrivals, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  arrivals += static_cast<uint32_t>(delta(MutantKind::Count, step));
  if (checker_) checker_->mbarrier_init(sim_.id_of(agent_), bar.index, step);
  const BarrierFault fault = cta_.mbarriers[bar.index].init(arrivals);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step, sim_.mbarrier_name(bar.index));
  sim_.synced(sim_.id_of(agent_), step, SyncOp::Write, sync_object_mbarrier(agent_.cta, bar.index),
              0);
}

void SimMachine::mbarrier_arrive(Mbarrier bar, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { mbarrier_arrive(bar, step); })) return;
  cost(sim_.costs().issue);
  trace(TraceKind::Arrive, step, TraceObject::Mbarrier, bar.index);
  const uint32_t count = agent_.warps + static_cast<uint32_t>(delta(MutantKind::Count, step));
  if (checker_)
    checker_->mbarrier_arrive(sim_.id_of(agent_), bar.index, count >= agent_.warps, step);
  const BarrierFault fault = cta_.mbarriers[bar.index].arrive(agent_.in_cta, count);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step, sim_.mbarrier_name(bar.index));
  sim_.complete_phase(agent_, bar.index, step, agent_.time, sim_.id_of(agent_));
  synchronised();
}

void SimMachine::mbarrier_expect(Mbarrier bar, uint32_t bytes, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { mbarrier_expect(bar, bytes, step); })) return;
  cost(sim_.costs().issue);
  if (checker_) checker_->mbarrier_arrive(sim_.id_of(agent_), bar.index, false, step);
  trace(TraceKind::Arrive, step, TraceObject::Mbarrier, bar.index);
  SimMbarrier& state = cta_.mbarriers[bar.index];
  BarrierFault fault = state.transact(bytes + delta(MutantKind::Bytes, step));
  if (fault == BarrierFault::None) fault = state.arrive(agent_.in_cta, 1);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step, sim_.mbarrier_name(bar.index));
  sim_.complete_phase(agent_, bar.index, step, agent_.time, sim_.id_of(agent_));
  synchronised();
}

void SimMachine::mbarrier_wait(Mbarrier bar, uint32_t parity, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { mbarrier_wait(bar, parity, step); })) return;
  if (mutated(MutantKind::Parity, step)) parity ^= 1;
  SimMbarrier& state = cta_.mbarriers[bar.index];
  if (!state.initialised)
    sim_.barrier_fault(agent_, BarrierFault::NotInitialised, step, sim_.mbarrier_name(bar.index));
  trace(TraceKind::Begin, step, TraceObject::Mbarrier, bar.index);
  while (!state.passed(parity)) {
    state.waiting |= AgentMask{1} << agent_.in_cta;
    Wait wait;
    wait.kind = Wait::Kind::Mbarrier;
    wait.step = step;
    wait.bar = bar.index;
    wait.parity = parity;
    sim_.block(agent_, wait);
  }
  trace(TraceKind::End, step, TraceObject::Mbarrier, bar.index);
  // The parity alone cannot tell a phase from the one two later; the count of waits can.
  uint32_t& seen = agent_.phases_seen[bar.index];
  if (seen == 0) seen = 1 + (parity & 1 ? 0 : 1);  // the phase wanted, plus one
  if (static_cast<uint32_t>(state.phases + 1) != seen)
    sim_.barrier_fault(agent_, BarrierFault::Lapped, step, sim_.mbarrier_name(bar.index));
  // A wait on the phase before the first passes at once and waits for nobody.
  if (state.phases != 0)
    sim_.synced(sim_.id_of(agent_), step, SyncOp::WaitPhase,
                sync_object_mbarrier(agent_.cta, bar.index), state.phases - 1);
  ++seen;
  state.observed = true;
  if (checker_) checker_->mbarrier_seen(sim_.id_of(agent_), bar.index, step);
  synchronised();
}

}  // namespace moetwin
