// The symmetric buffers of all virtual ranks in the card's memory: allocated once, poisoned and
// zeroed when their layout changes, otherwise left as the last launch left them. It knows regions
// and bytes, neither weights nor the kernel. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "common/symmetric_layout.h"
#include "cuda/device_buffer.h"
#include "model/collect.h"
#include "model/problem.h"

namespace moetwin {

class Workspace {
 public:
  /// Makes the buffers fit: bigger if need be, and where anything about the layout is new, filled
  /// with `poison` and its must-be-zero and persistent words zero. Throws InputError where the card
  /// has too little memory.
  void prepare(const Shape& shape, const KernelPlan& plan, uint8_t poison, cudaStream_t stream);

  /// Copies tokens, scales and routes of every rank to where the layout wants them. Throws
  /// InputError for an expert id outside -1..E-1.
  void upload(const Problem& problem, cudaStream_t stream);

  /// The next prepare() starts afresh: after a launch that did not end as it should.
  void discard() { ready_ = false; }

  uint64_t base(uint32_t rank) const { return buffers_[rank].address(); }
  const SymmetricLayout& layout() const { return layout_; }

  /// Reads the buffers as they are now, in large pieces that are kept; drop the reader before the
  /// next launch. The stream that the last launch ran on must be idle.
  RegionReader reader() const;

 private:
  SymmetricLayout layout_{};
  Shape shape_{};
  uint8_t poison_ = 0;
  bool ready_ = false;
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace moetwin
