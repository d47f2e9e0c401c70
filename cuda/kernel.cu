// The kernel: one CTA a SM, its warps split into the roles of common/roles. Of the ranks that this
// card runs, number i has the CTAs i * S to (i + 1) * S - 1. Owns the split, the register budgets
// and the launch; what a role does is in common/roles, how an instruction looks in sm90_machine.h.
#include "cuda/kernel.h"
#include "cuda/sm90_machine.h"

namespace moetwin {
namespace {

constexpr uint32_t kMaxThreads = kWarpgroupThreads * (1 + kMaxMathWarpgroups);

// setmaxnreg.dec must go down and .inc up from what a thread starts with. Both variants are bounded
// by the larger one's threads, which fixes that start at 65536 / 384 = 168 registers.
constexpr uint32_t kStartRegisters = 65536 / kMaxThreads / 8 * 8;
static_assert(kServiceRegisters < kStartRegisters && kStartRegisters < kMathRegisters);
static_assert(kWarpgroupThreads * (kServiceRegisters + kMathRegisters) <=
              2 * kWarpgroupThreads * kStartRegisters);
static_assert(kWarpgroupThreads * (kServiceRegisters + 2 * kMathRegisters) <=
              3 * kWarpgroupThreads * kStartRegisters);

template <Role kRole, bool kPlanted>
__device__ __forceinline__ void run_agent(const KernelParams& params, uint32_t agent) {
  const uint32_t place = blockIdx.x / params.args.plan.sms;
  const uint32_t sm = blockIdx.x - place * params.args.plan.sms;
  Sm90Machine<kRole, kPlanted> machine(params, params.local.first + place, sm, agent);
  run_role<kRole>(machine, params.args);
}

template <uint32_t kMathWarpgroups, bool kPlanted>
__global__ void __launch_bounds__(kMaxThreads, 1)
    moe_layer(const __grid_constant__ KernelParams params) {
  __builtin_assume(params.args.plan.math_warpgroups == kMathWarpgroups);
  __builtin_assume(params.args.plan.block_m == kMathWarpgroups * kMathRows);
  if (threadIdx.x == 0) init_named_barriers(params.args.plan);
  // The one hardware barrier: nothing has waited yet, so every thread gets here.
  __syncthreads();
  const uint32_t warp = __shfl_sync(ptx::kAllLanes, threadIdx.x / kWarpLanes, 0);
  if (warp < kWarpgroupWarps) {
    ptx::lower_registers<kServiceRegisters>();
    if (warp < kDispatchWarps)
      run_agent<Role::Dispatch, kPlanted>(params, warp);
    else if (warp == kDispatchWarps)
      run_agent<Role::LoadA, kPlanted>(params, 0);
    else
      run_agent<Role::LoadB, kPlanted>(params, 0);
  } else {
    ptx::raise_registers<kMathRegisters>();
    run_agent<Role::Math, kPlanted>(params, warp / kWarpgroupWarps - 1);
  }
}

using Kernel = void (*)(KernelParams);

Kernel variant(const KernelPlan& plan, bool planted) {
  if (plan.block_m == 64) return planted ? moe_layer<1, true> : moe_layer<1, false>;
  return planted ? moe_layer<2, true> : moe_layer<2, false>;
}

}  // namespace

cudaError_t prepare_kernels() {
  for (const Kernel kernel :
       {moe_layer<1, false>, moe_layer<2, false>, moe_layer<1, true>, moe_layer<2, true>}) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMaxSharedBytes));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t kernel_ctas_per_sm(const KernelPlan& plan, int* ctas) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      ctas, variant(plan, false), static_cast<int>(plan.threads()), plan.shared.total);
}

cudaError_t launch_kernel(const KernelParams& params, cudaStream_t stream) {
  const KernelPlan& plan = params.args.plan;
  cudaLaunchAttribute resident{};
  resident.id = cudaLaunchAttributeCooperative;
  resident.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(params.local.count * plan.sms);
  config.blockDim = dim3(plan.threads());
  config.dynamicSmemBytes = plan.shared.total;
  config.stream = stream;
  config.attrs = &resident;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, variant(plan, params.skipped_arrive != Step::None), params);
}

}  // namespace moetwin
