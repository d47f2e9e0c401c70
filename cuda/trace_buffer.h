// The logs of the traced kernel in the card's memory: allocated at the first traced launch, read
// back after each. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "cuda/card_trace.h"
#include "cuda/device_buffer.h"
#include "cuda/kernel_params.h"

namespace moetwin {

class TraceBuffer {
 public:
  /// Empty logs of `capacity` events for each agent of a launch. Throws InputError where the card
  /// has too little memory.
  TraceLogs prepare(const KernelArgs& args, uint32_t capacity, cudaStream_t stream);

  /// Adds what the launch logged to `trace`. The stream that it ran on must be idle.
  void collect(const KernelArgs& args, const std::vector<uint64_t>& bases, CardTrace& trace) const;

 private:
  uint32_t capacity_ = 0;
  DeviceBuffer events_;
  DeviceBuffer counts_;
};

}  // namespace moetwin
