// A small kernel in which the cards of a run meet, so that a launch that is timed starts on all of
// them within some microseconds. The layer itself needs no such meeting.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/kernel_params.h"

namespace moetwin {

struct MeetParams {
  WaitLimits limits;
  uint32_t ranks;
  uint32_t target;                     ///< what the own counter reaches when all have come
  uint64_t own;                        ///< address of this rank's counter
  uint64_t counters[kMaxKernelRanks];  ///< [ranks] of all ranks
};

/// Waits, in the stream, until every rank has started the same meeting; past the limit, or once any
/// card has given up, it ends without.
cudaError_t meet(const MeetParams& params, cudaStream_t stream);

}  // namespace moetwin
