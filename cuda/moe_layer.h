// The kernel itself: one CTA a SM, its warps split into the roles of common/roles. Of the ranks
// that this card runs, number i has the CTAs i * S to (i + 1) * S - 1. Owns the split and the
// register budgets; what a role does is in common/roles, how an instruction looks in
// sm90_machine.h. Each variant is compiled in a file of its own. Device code.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/kernel_table.h"
#include "cuda/sm90_machine.h"

namespace moetwin {

constexpr uint32_t kMaxThreads = kWarpgroupThreads * (1 + kMaxMathWarpgroups);

// setmaxnreg.dec must go down and .inc up from what a thread starts with. All tiles are bounded by
// the highest one's threads, which fixes that start at 65536 / 384 = 168 registers.
constexpr uint32_t kStartRegisters = 65536 / kMaxThreads / 8 * 8;
static_assert(kServiceRegisters < kStartRegisters && kStartRegisters < kMathRegisters);
static_assert(kWarpgroupThreads * (kServiceRegisters + kMathRegisters) <=
              2 * kWarpgroupThreads * kStartRegisters);
static_assert(kWarpgroupThreads * (kServiceRegisters + 2 * kMathRegisters) <=
              3 * kWarpgroupThreads * kStartRegisters);

template <Role kRole, uint32_t kSlices, Variant kVariant>
__device__ __forceinline__ void run_agent(const KernelParams& params, uint32_t agent) {
  Sm90Machine<kRole, kSlices, kVariant> machine(params, agent);
  run_role<kRole>(machine, params.args);
}

/// For tiles of `kRowGroups` times 64 rows and `kTileSlices` slices.
template <uint32_t kRowGroups, uint32_t kTileSlices, Variant kVariant>
__global__ void __launch_bounds__(kMaxThreads, 1)
    moe_layer(const __grid_constant__ KernelParams params) {
  constexpr uint32_t kParts = kRowGroups * kTileSlices;
  constexpr uint32_t kMathWarpgroups = kParts < kMaxMathWarpgroups ? kParts : kMaxMathWarpgroups;
  constexpr uint32_t kSlices = kParts / kMathWarpgroups;
  __builtin_assume(params.args.plan.math_warpgroups == kMathWarpgroups);
  __builtin_assume(params.args.plan.block_m == kRowGroups * kMathRows);
  __builtin_assume(params.args.plan.block_n == kTileSlices * kSliceN);
  if (threadIdx.x == 0) {
    init_named_barriers(params.args.plan);
    const uint32_t place = blockIdx.x / params.args.plan.sms;
    write_place(params.args.plan, params.local.first + place,
                blockIdx.x - place * params.args.plan.sms);
  }
  // The one hardware barrier: nothing has waited yet, so every thread gets here.
  __syncthreads();
  const uint32_t warp = __shfl_sync(ptx::kAllLanes, threadIdx.x / kWarpLanes, 0);
  if (warp < kWarpgroupWarps) {
    ptx::lower_registers<kServiceRegisters>();
    if (warp < kDispatchWarps)
      run_agent<Role::Dispatch, kSlices, kVariant>(params, warp);
    else if (warp == kDispatchWarps)
      run_agent<Role::LoadA, kSlices, kVariant>(params, 0);
    else
      run_agent<Role::LoadB, kSlices, kVariant>(params, 0);
  } else {
    ptx::raise_registers<kMathRegisters>();
    run_agent<Role::Math, kSlices, kVariant>(params, warp / kWarpgroupWarps - 1);
  }
}

/// Every tile of a variant, compiled where it is asked for.
template <Variant kVariant>
KernelsByTile built_kernels() {
  return {{{moe_layer<1, 1, kVariant>, moe_layer<1, 2, kVariant>},
           {moe_layer<2, 1, kVariant>, moe_layer<2, 2, kVariant>}}};
}

}  // namespace moetwin
