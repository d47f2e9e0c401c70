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

template <Role kRole, Variant kVariant>
__device__ __forceinline__ void run_agent(const KernelParams& params, uint32_t agent) {
  const uint32_t place = blockIdx.x / params.args.plan.sms;
  const uint32_t sm = blockIdx.x - place * params.args.plan.sms;
  Sm90Machine<kRole, kVariant> machine(params, params.local.first + place, sm, agent);
  run_role<kRole>(machine, params.args);
}

template <uint32_t kMathWarpgroups, Variant kVariant>
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
      run_agent<Role::Dispatch, kVariant>(params, warp);
    else if (warp == kDispatchWarps)
      run_agent<Role::LoadA, kVariant>(params, 0);
    else
      run_agent<Role::LoadB, kVariant>(params, 0);
  } else {
    ptx::raise_registers<kMathRegisters>();
    run_agent<Role::Math, kVariant>(params, warp / kWarpgroupWarps - 1);
  }
}

using Kernel = void (*)(KernelParams);

template <Variant kVariant>
Kernel kernel_of(uint32_t block_m) {
  return block_m == 64 ? moe_layer<1, kVariant> : moe_layer<2, kVariant>;
}

Kernel kernel_of(const KernelPlan& plan, Variant variant) {
  if (variant == Variant::Planted) return kernel_of<Variant::Planted>(plan.block_m);
  if (variant == Variant::Traced) return kernel_of<Variant::Traced>(plan.block_m);
  return kernel_of<Variant::Shipped>(plan.block_m);
}

Variant variant_of(const KernelParams& params) {
  if (params.skipped_arrive != Step::None) return Variant::Planted;
  return params.trace.capacity != 0 ? Variant::Traced : Variant::Shipped;
}

}  // namespace

cudaError_t prepare_kernels() {
  for (const Kernel kernel : {kernel_of<Variant::Shipped>(64), kernel_of<Variant::Shipped>(128),
                              kernel_of<Variant::Planted>(64), kernel_of<Variant::Planted>(128),
                              kernel_of<Variant::Traced>(64), kernel_of<Variant::Traced>(128)}) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMaxSharedBytes));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t kernel_ctas_per_sm(const KernelPlan& plan, int* ctas) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      ctas, kernel_of(plan, Variant::Shipped), static_cast<int>(plan.threads()), plan.shared.total);
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
  return cudaLaunchKernelEx(&config, kernel_of(plan, variant_of(params)), params);
}

}  // namespace moetwin
