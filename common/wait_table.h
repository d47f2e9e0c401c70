// Who can end a wait: the agents of a CTA as bits, the members of each barrier, and the step that
// provides what a wait on a word is for. Both machines' reports and timelines take it from here.
#pragma once

#include <cstdint>

#include "common/kernel_plan.h"
#include "common/step.h"

namespace moetwin {

/// Agents of a CTA: dispatch warps, load A, load B, math warpgroups.
constexpr uint32_t kAgentsPerCta = kDispatchWarps + 2 + kMaxMathWarpgroups;

/// An agent's place among those of its CTA: its bit in an AgentMask.
MOETWIN_HD constexpr uint32_t agent_place(Role role, uint32_t agent) {
  switch (role) {
    case Role::Dispatch:
      return agent;
    case Role::LoadA:
      return kDispatchWarps;
    case Role::LoadB:
      return kDispatchWarps + 1;
    default:
      return kDispatchWarps + 2 + agent;
  }
}

/// An agent within its CTA: the inverse of agent_place().
struct AgentOfCta {
  Role role;
  uint32_t number;
};
constexpr AgentOfCta agent_at(uint32_t place) {
  if (place < kDispatchWarps) return {Role::Dispatch, place};
  if (place == kDispatchWarps) return {Role::LoadA, 0};
  if (place == kDispatchWarps + 1) return {Role::LoadB, 0};
  return {Role::Math, place - kDispatchWarps - 2};
}

/// Agents of one CTA as bits.
using AgentMask = uint32_t;
constexpr AgentMask kDispatchAgents = (AgentMask{1} << kDispatchWarps) - 1;
constexpr AgentMask kLoadAAgent = AgentMask{1} << agent_place(Role::LoadA, 0);
constexpr AgentMask kLoadBAgent = AgentMask{1} << agent_place(Role::LoadB, 0);
constexpr AgentMask math_agent(uint32_t warpgroup) {
  return AgentMask{1} << agent_place(Role::Math, warpgroup);
}
constexpr AgentMask math_agents(const KernelPlan& plan) {
  return ((AgentMask{1} << plan.math_warpgroups) - 1) << agent_place(Role::Math, 0);
}

/// Who arrives at an mbarrier, its number being its place in the CTA's array.
constexpr AgentMask mbarrier_members(const KernelPlan& plan, uint32_t bar) {
  if (bar < plan.task_full(0).index)
    return bar % 2 == 0 ? kLoadAAgent | kLoadBAgent : math_agents(plan);
  if (bar < plan.task_empty(0).index) return kLoadAAgent;
  if (bar < plan.pull(0).index) return kLoadBAgent | math_agents(plan);
  if (bar < plan.combine(0, 0).index) return AgentMask{1} << (bar - plan.pull(0).index);
  return math_agent((bar - plan.combine(0, 0).index) / plan.combine_stages);
}

/// Who takes part in a named barrier.
constexpr AgentMask named_barrier_members(const KernelPlan& plan, NamedBarrier barrier) {
  switch (barrier) {
    case NamedBarrier::Everyone:
      return kDispatchAgents | kLoadAAgent | kLoadBAgent | math_agents(plan);
    case NamedBarrier::Dispatch:
      return kDispatchAgents;
    case NamedBarrier::MathDone:
    case NamedBarrier::CombineReady:
      return kDispatchAgents | math_agents(plan);
    case NamedBarrier::MathWarpgroup0:
      return math_agent(0);
    case NamedBarrier::MathWarpgroup1:
      return math_agent(1);
    default:
      return 0;
  }
}

/// Who ends a wait on a word, and with which step.
struct WordProvider {
  Step wait;
  Role role;
  Step provides;
};
constexpr WordProvider kWordProviders[] = {
    {Step::GridWait, Role::Dispatch, Step::GridArrive},
    {Step::RankWait, Role::Dispatch, Step::RankSignal},
    {Step::PullWaitsForRingSlot, Role::Math, Step::MathReleaseBlock},
    {Step::LoadAWaitsForRows, Role::Dispatch, Step::PullPublishRow},
    {Step::LoadAWaitsForLinear1, Role::Math, Step::Linear1Publish},
    {Step::Linear1WaitsForRingSlot, Role::Math, Step::MathReleaseBlock},
};

/// The provider of a wait at `step`, or nothing where no word is waited for there.
constexpr const WordProvider* word_provider(Step step) {
  for (const WordProvider& provider : kWordProviders)
    if (provider.wait == step) return &provider;
  return nullptr;
}

}  // namespace moetwin
