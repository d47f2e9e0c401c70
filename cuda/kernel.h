// The kernel behind a plain header: which variants are built and how one is launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernel_params.h"

namespace moetwin {

/// Lets the kernels use the card's whole shared memory. Once a process and device.
cudaError_t prepare_kernels();

/// CTAs of this plan that one SM can hold.
cudaError_t kernel_ctas_per_sm(const KernelPlan& plan, int* ctas);

/// Starts the layer for the ranks of this card, plan.sms CTAs each. All of them are resident
/// together, or the launch is refused with cudaErrorCooperativeLaunchTooLarge.
cudaError_t launch_kernel(const KernelParams& params, cudaStream_t stream);

}  // namespace moetwin
