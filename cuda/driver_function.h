// Functions of the CUDA driver, found through the runtime: a program linked to the driver library
// would not start on a machine without one. Host code only.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "cuda/device_info.h"

namespace moetwin {

/// The driver's function of this name as CUDA 12.0 has it. Throws NoCudaDevice where there is none.
/// `Function` is its type: driver_function<decltype(&cuMemCreate)>("cuMemCreate").
template <class Function>
Function driver_function(const char* name) {
  constexpr unsigned kVersion = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, kVersion, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
    throw NoCudaDevice(std::string("no CUDA device: the driver has no ") + name);
  return reinterpret_cast<Function>(function);
}

}  // namespace moetwin
