// Which agents of a CTA take part in its named barriers, as bits in the order of its agents.
#pragma once

#include "common/kernel_plan.h"
#include "cpu_sim/barriers.h"

namespace moetwin {

constexpr AgentMask named_barrier_members(NamedBarrier barrier, uint32_t math_warpgroups) {
  const AgentMask dispatch = (1u << kDispatchWarps) - 1;
  const AgentMask math = ((1u << math_warpgroups) - 1) << kWarpgroupWarps;
  switch (barrier) {
    case NamedBarrier::Everyone:
      return dispatch | 3u << kDispatchWarps | math;
    case NamedBarrier::Dispatch:
      return dispatch;
    case NamedBarrier::MathDone:
    case NamedBarrier::CombineReady:
      return dispatch | math;
    case NamedBarrier::MathWarpgroup0:
      return 1u << kWarpgroupWarps;
    case NamedBarrier::MathWarpgroup1:
      return 2u << kWarpgroupWarps;
    default:
      return 0;
  }
}

}  // namespace moetwin
