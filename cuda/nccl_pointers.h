// Where the ranks' parts of an NCCL window lie. NCCL tells that on the card alone.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>

namespace moetwin {

/// Writes the addresses of ranks 0 to ranks - 1 of `window`, all of which this card reaches by load
/// and store, to `addresses` on the card.
cudaError_t find_window_addresses(ncclWindow_t window, uint32_t ranks, uint64_t* addresses,
                                  cudaStream_t stream);

}  // namespace moetwin
