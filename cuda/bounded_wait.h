// Waiting that always ends. Every wait of the machine is a loop here: it ends when its condition
// holds, when it has lasted longer than the limit, or when any agent of any rank has given up. The
// two waits that are not (cp.async.bulk.wait_group and wgmma.wait_group) wait for the copy and
// tensor engines alone, which finish whatever other agents do.
#pragma once

#include "cuda/kernel_params.h"
#include "cuda/machine_words.h"
#include "cuda/ptx.h"

namespace moetwin {

/// Looks at clock and abort flag once in so many failed tries: a failed try of an mbarrier has
/// already waited a while in hardware, one of a word costs a round trip to L2.
constexpr uint32_t kTriesPerLook = 64;

/// How long an agent that leaves stays in its CTA, so that the copies into shared memory that it
/// issued have landed before the CTA ends. They take microseconds.
constexpr uint64_t kLandingNanoseconds = 2'000'000;

/// What kind of wait ended how, in one register.
struct GivenUp {
  Step step;
  WaitKind kind;
  Awaited::Kind condition;
  bool first;  ///< nobody had given up before
};
static_assert(sizeof(GivenUp) == 4);

/// The `place` of a table bound.
__device__ constexpr uint64_t bound_place(uint32_t index, uint32_t what) {
  return uint64_t{what} << 32 | index;
}

/// Ends the calling warp (or the lanes of it that call): leaves a WaitRecord if its agent has left
/// none yet, tells all other agents, lets the issued copies land, and exits. A function of its own:
/// at every wait it would be most of the kernel's code, and cold code is read from memory. More
/// than six registers of arguments would pass through memory. `place`: the number of a barrier, the
/// address of a word, or a bound_place().
[[noreturn]] static __device__ __noinline__ void give_up(const KernelParams& params, GivenUp what,
                                                         uint64_t place, uint32_t wanted) {
  const WaitLimits& limits = params.limits;
  const uint32_t calling = __activemask();
  if (threadIdx.x % kWarpLanes == static_cast<uint32_t>(__ffs(static_cast<int>(calling))) - 1) {
    const uint32_t warp = threadIdx.x / kWarpLanes;
    const uint32_t number =
        warp < kWarpgroupWarps ? warp : agent_place(Role::Math, warp / kWarpgroupWarps - 1);
    const AgentOfCta agent = agent_at(number);
    WaitRecord* const mine = ptx::global_pointer(Global<WaitRecord>{limits.records}) +
                             (blockIdx.x * kAgentsPerCta + number);
    const bool word = what.kind == WaitKind::Word;
    const bool bound = what.kind == WaitKind::TableBound;
    if (atomicExch(&mine->filled, 1u) == 0) {
      mine->rank = place_word(params.args.plan, 0);
      mine->sm = place_word(params.args.plan, 1);
      mine->role = agent.role;
      mine->step = what.step;
      mine->agent = static_cast<uint16_t>(agent.number);
      mine->kind = what.kind;
      mine->object = word ? 0 : static_cast<uint32_t>(bound ? place >> 32 : place);
      mine->condition = what.condition;
      mine->first = what.first ? 1 : 0;
      mine->wanted = wanted;
      mine->got = word    ? ptx::load_relaxed_sys(ptx::global_pointer(Global<uint32_t>{place}))
                  : bound ? static_cast<uint32_t>(place)
                          : 0;
      mine->address = word ? place : 0;
    }
    for (uint32_t card = 0; card < limits.num_cards; ++card)
      ptx::store_release_sys(ptx::global_pointer(Global<uint32_t>{limits.all_flags[card]}), 1);
  }
  ptx::bulk_wait_written();
  const uint64_t since = ptx::nanoseconds();
  while (ptx::nanoseconds() - since < kLandingNanoseconds) __nanosleep(1000);
  ptx::exit_thread();
}

/// Waits until ready() holds in every lane of the warp. leave(first) gives up; `first`: nobody else
/// has. The whole warp calls, converged, and decides as one.
template <class Ready, class Leave>
__device__ __forceinline__ void wait_in_turns(const WaitLimits& limits, Ready&& ready,
                                              Leave&& leave) {
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
    leave(!told);
  }
}

/// What is waited for: a phase of an mbarrier, or a word.
struct PhaseWait {
  Step step;
  WaitKind kind;
  uint32_t object;  ///< the mbarrier or the named barrier
  uint32_t parity;
};
struct WordWait {
  Step step;
  Scope scope;
  Awaited awaited;
};

/// A wait on a word polls so often at once, then at this distance.
constexpr uint32_t kEagerTries = 8;
constexpr uint32_t kPollNanoseconds = 40;

__device__ __forceinline__ void wait_for_phase_in_turns(const KernelParams& params, uint64_t* bar,
                                                        PhaseWait wait) {
  wait_in_turns(
      params.limits, [&] { return ptx::mbarrier_try_wait(bar, wait.parity); },
      [&](bool first) {
        give_up(params, {wait.step, wait.kind, Awaited::Kind::Equal, first}, wait.object,
                wait.parity);
      });
}

__device__ __forceinline__ void wait_for_word_in_turns(const KernelParams& params,
                                                       Global<uint32_t> word, WordWait wait) {
  uint32_t* const pointer = ptx::global_pointer(word);
  uint32_t tries = 0;
  wait_in_turns(
      params.limits,
      [&] {
        // An acquire empties the L1 cache that the CTA's other warps read through.
        if (++tries > kEagerTries) __nanosleep(kPollNanoseconds);
        return wait.awaited.holds(ptx::load_acquire(pointer, wait.scope));
      },
      [&](bool first) {
        give_up(params, {wait.step, WaitKind::Word, wait.awaited.kind, first}, word.address,
                wait.awaited.value);
      });
}

// The warps of the first warpgroup have many waits, each of which is passed a few times: one copy
// of the slow way keeps their code short, and cold code is slow. Math, whose registers a call would
// spill, has its own copies.

static __device__ __noinline__ void call_wait_for_phase(const KernelParams& params, uint64_t* bar,
                                                        PhaseWait wait) {
  wait_for_phase_in_turns(params, bar, wait);
}
static __device__ __noinline__ void call_wait_for_word(const KernelParams& params,
                                                       Global<uint32_t> word, WordWait wait) {
  wait_for_word_in_turns(params, word, wait);
}

}  // namespace moetwin
