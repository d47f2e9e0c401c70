// Errors of the CUDA runtime as exceptions. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace moetwin {

/// The runtime or the card refused something that should have worked.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws CudaError "what: why" unless `status` is cudaSuccess.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw CudaError(std::string("CUDA, ") + what + ": " + cudaGetErrorString(status));
}

}  // namespace moetwin
