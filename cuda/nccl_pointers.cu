// Asks an NCCL window for the addresses of all ranks' parts.
#include <nccl_device.h>

#include "cuda/nccl_pointers.h"

namespace moetwin {
namespace {

__global__ void window_addresses(ncclWindow_t window, uint32_t ranks, uint64_t* addresses) {
  for (uint32_t rank = threadIdx.x; rank < ranks; rank += blockDim.x)
    addresses[rank] =
        reinterpret_cast<uint64_t>(ncclGetLsaPointer(window, 0, static_cast<int>(rank)));
}

}  // namespace

cudaError_t find_window_addresses(ncclWindow_t window, uint32_t ranks, uint64_t* addresses,
                                  cudaStream_t stream) {
  window_addresses<<<1, 32, 0, stream>>>(window, ranks, addresses);
  return cudaGetLastError();
}

}  // namespace moetwin
