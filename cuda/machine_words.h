// The sm90 machine's own shared memory: an mbarrier for each named barrier, then the CTA's place.
// Owns where they lie and how a CTA prepares them before any role starts. Device code.
#pragma once

#include "common/machine.h"
#include "cuda/ptx.h"

namespace moetwin {

/// Prepares the named barriers; one thread of the CTA, before any role starts.
__device__ __forceinline__ void init_named_barriers(const KernelPlan& plan) {
  const uint32_t math_and_dispatch = plan.math_warps() + kDispatchWarps;
  const auto init = [&](NamedBarrier barrier, uint32_t warps) {
    ptx::mbarrier_init(
        ptx::shared_pointer(Shared<uint64_t>{plan.shared.machine} + static_cast<uint32_t>(barrier)),
        warps);
  };
  init(NamedBarrier::Everyone, plan.threads() / kWarpLanes);
  init(NamedBarrier::Dispatch, kDispatchWarps);
  init(NamedBarrier::MathDone, math_and_dispatch);
  init(NamedBarrier::CombineReady, math_and_dispatch);
  init(NamedBarrier::MathWarpgroup0, kWarpgroupWarps);
  init(NamedBarrier::MathWarpgroup1, kWarpgroupWarps);
  ptx::fence_mbarrier_init();
}

/// Leaves the CTA's rank and SM where its machines look; one thread, before any role starts.
__device__ __forceinline__ void write_place(const KernelPlan& plan, uint32_t rank, uint32_t sm) {
  static_assert(kNumNamedBarriers * 8 + 8 <= kMachineSharedBytes);
  uint32_t* const words =
      ptx::shared_pointer(Shared<uint32_t>{plan.shared.machine} + kNumNamedBarriers * 2);
  words[0] = rank;
  words[1] = sm;
}

/// What write_place() wrote: the rank (0) or the SM (1). Read anew each time: registers are short.
__device__ __forceinline__ uint32_t place_word(const KernelPlan& plan, uint32_t word) {
  return ptx::load_shared_again(
      ptx::shared_pointer(Shared<uint32_t>{plan.shared.machine} + (kNumNamedBarriers * 2 + word)));
}

}  // namespace moetwin
