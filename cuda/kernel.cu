// The launch: which of the built kernels runs a plan, and how.
#include "cuda/kernel.h"
#include "cuda/kernel_table.h"

namespace moetwin {
namespace {

KernelsByTile kernels_of(Variant variant) {
  if (variant == Variant::Planted) return planted_kernels();
  return variant == Variant::Traced ? traced_kernels() : shipped_kernels();
}

Kernel kernel_of(const KernelPlan& plan, Variant variant) {
  return kernels_of(variant).kernel[plan.row_groups() - 1][plan.slices() - 1];
}

Variant variant_of(const KernelParams& params) {
  if (params.skipped_arrive != Step::None) return Variant::Planted;
  return params.trace.capacity != 0 ? Variant::Traced : Variant::Shipped;
}

}  // namespace

cudaError_t prepare_kernels() {
  for (const Variant variant : {Variant::Shipped, Variant::Planted, Variant::Traced})
    for (const auto& by_slices : kernels_of(variant).kernel)
      for (const Kernel kernel : by_slices) {
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
