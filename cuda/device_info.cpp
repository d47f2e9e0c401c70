#include "cuda/device_info.h"

#include <cuda_runtime_api.h>

#include <fstream>
#include <regex>

#include "common/kernel_plan.h"

namespace moetwin {
namespace {

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::smatch match;
  return std::regex_search(line, match, std::regex(R"(\b\d+\.\d+(\.\d+)?\b)")) ? match.str() : "";
}

[[noreturn]] void refuse(const std::string& why) { throw NoCudaDevice("no CUDA device: " + why); }

}  // namespace

DeviceInfo device_info(uint32_t device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    refuse(cudaGetErrorString(error));
  if (device >= static_cast<uint32_t>(count))
    refuse("card " + std::to_string(device) + " was asked for, there are " + std::to_string(count));
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, static_cast<int>(device));
      error != cudaSuccess)
    refuse(cudaGetErrorString(error));
  const std::string name = properties.name;
  if (properties.major != 9 || properties.minor != 0)
    refuse(name + " has compute capability " + std::to_string(properties.major) + "." +
           std::to_string(properties.minor) + ", the kernel is built for 9.0");
  if (properties.sharedMemPerBlockOptin < kMaxSharedBytes)
    refuse(name + " gives a block " + std::to_string(properties.sharedMemPerBlockOptin) +
           " bytes of shared memory, the kernel needs " + std::to_string(kMaxSharedBytes));
  return {name, driver_version(), static_cast<uint32_t>(properties.multiProcessorCount),
          properties.totalGlobalMem};
}

}  // namespace moetwin
