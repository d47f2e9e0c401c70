// Waiting that always ends. Every wait of the machine is a loop here: it ends when its condition
// holds, when it has lasted longer than the limit, or when any agent of any rank has given up. The
// two waits that are not (cp.async.bulk.wait_group and wgmma.wait_group) wait for the copy and
// tensor engines alone, which finish whatever other agents do.
#pragma once

#include "cuda/kernel_params.h"
#include "cuda/ptx.h"

namespace moetwin {

/// Looks at clock and abort flag once in so many failed tries: a failed try of an mbarrier has
/// already waited a while in hardware, one of a word costs a round trip to L2.
constexpr uint32_t kTriesPerLook = 64;

/// How long an agent that leaves stays in its CTA, so that the copies into shared memory that it
/// issued have landed before the CTA ends. They take microseconds.
constexpr uint64_t kLandingNanoseconds = 2'000'000;

/// Ends the calling warp (or the lanes of it that call): leaves `record` if its agent has left
/// none yet, tells all other agents, lets the issued copies land, and exits.
[[noreturn]] __device__ __forceinline__ void give_up(const WaitLimits& limits,
                                                     const WaitRecord& record) {
  const uint32_t calling = __activemask();
  if (threadIdx.x % kWarpLanes == static_cast<uint32_t>(__ffs(static_cast<int>(calling))) - 1) {
    WaitRecord* const mine = ptx::global_pointer(Global<WaitRecord>{limits.records}) +
                             (blockIdx.x * kAgentsPerCta + agent_place(record.role, record.agent));
    if (atomicExch(&mine->filled, 1u) == 0) {
      mine->rank = record.rank;
      mine->sm = record.sm;
      mine->role = record.role;
      mine->step = record.step;
      mine->agent = record.agent;
      mine->kind = record.kind;
      mine->object = record.object;
      mine->condition = record.condition;
      mine->first = record.first;
      mine->wanted = record.wanted;
      mine->got = record.got;
      mine->address = record.address;
    }
    for (uint32_t card = 0; card < limits.num_cards; ++card)
      ptx::store_release_sys(ptx::global_pointer(Global<uint32_t>{limits.all_flags[card]}), 1);
  }
  ptx::bulk_wait_written();
  const uint64_t since = ptx::nanoseconds();
  while (ptx::nanoseconds() - since < kLandingNanoseconds) __nanosleep(1000);
  ptx::exit_thread();
}

/// Waits until ready() holds in every lane of the warp. describe(WaitRecord&) says what for, when
/// the wait is given up. The whole warp calls, converged, and decides as one.
template <class Ready, class Describe>
__device__ __forceinline__ void bounded_wait(const WaitLimits& limits, Ready&& ready,
                                             Describe&& describe) {
  if (__all_sync(ptx::kAllLanes, ready())) return;
  uint64_t since = 0;
  uint32_t tries = 0;
  while (!__all_sync(ptx::kAllLanes, ready())) {
    if (++tries % kTriesPerLook != 0) continue;
    const uint64_t now = ptx::nanoseconds();
    if (since == 0) since = now;
    const bool late = now - since > limits.nanoseconds;
    const bool told =
        ptx::load_relaxed_sys(ptx::global_pointer(Global<uint32_t>{limits.abort_flag})) != 0;
    if (!__any_sync(ptx::kAllLanes, late || told)) continue;
    WaitRecord record{};
    record.first = told ? 0 : 1;
    describe(record);
    give_up(limits, record);
  }
}

}  // namespace moetwin
