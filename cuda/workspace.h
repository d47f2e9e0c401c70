// What stands in the ranks' symmetric buffers: poisoned and zeroed when their layout changes,
// otherwise left as the last launch left them, filled with a launch's inputs and read back. It
// knows regions and bytes; where the buffers come from (card_memory.h, symmetric_memory.h), weights
// and the kernel are not its business. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "common/symmetric_layout.h"
#include "cuda/kernel_params.h"
#include "model/collect.h"
#include "model/problem.h"

namespace moetwin {

/// Where the ranks' buffers lie as this card sees them, and which of them it fills.
struct RankBuffers {
  std::vector<uint64_t> bases;  ///< [ranks]
  LocalRanks local{};

  friend bool operator==(const RankBuffers& a, const RankBuffers& b) {
    return a.bases == b.bases && a.local.first == b.local.first && a.local.count == b.local.count;
  }
};

class Workspace {
 public:
  /// Takes `buffers`, each large enough for the layout. Where they or anything about the layout is
  /// new, the local ones are filled with `poison` and their must-be-zero and persistent words zero.
  void prepare(const Shape& shape, const KernelPlan& plan, const RankBuffers& buffers,
               uint8_t poison, cudaStream_t stream);

  /// Copies tokens, scales and routes of the local ranks to where the layout wants them. Throws
  /// InputError for an expert id outside -1..E-1.
  void upload(const Problem& problem, cudaStream_t stream);

  /// The next prepare() starts afresh: after a launch that did not end as it should.
  void discard() { ready_ = false; }

  uint64_t base(uint32_t rank) const { return buffers_.bases[rank]; }
  const std::vector<uint64_t>& bases() const { return buffers_.bases; }
  const SymmetricLayout& layout() const { return layout_; }

  /// Reads the buffers of all ranks as they are now, in large pieces that are kept; drop the reader
  /// before the next launch. The last launch must have ended on every card.
  RegionReader reader() const;

 private:
  uint8_t* data(uint32_t rank) const { return reinterpret_cast<uint8_t*>(buffers_.bases[rank]); }

  SymmetricLayout layout_{};
  Shape shape_{};
  RankBuffers buffers_;
  uint8_t poison_ = 0;
  bool ready_ = false;
};

}  // namespace moetwin
