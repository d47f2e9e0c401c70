// The symmetric buffers of all virtual ranks in one card's memory, allocated once and only ever
// made larger. Host code only.
#pragma once

#include <string>
#include <vector>

#include "common/check.h"
#include "common/symmetric_layout.h"
#include "cuda/device_buffer.h"
#include "cuda/workspace.h"

namespace moetwin {

class CardMemory {
 public:
  /// Buffers for every rank of `shape`, each of layout.total bytes or more. Throws InputError where
  /// the card has too little memory.
  RankBuffers reserve(const Shape& shape, const SymmetricLayout& layout) {
    if (buffers_.size() < shape.ranks) buffers_.resize(shape.ranks);
    RankBuffers out{{}, {0, shape.ranks}};
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      if (!buffers_[rank].reserve(layout.total)) throw too_little(shape, layout.total);
      out.bases.push_back(buffers_[rank].address());
    }
    return out;
  }

  /// The error for a card that has not got `bytes` for a rank.
  static InputError too_little(const Shape& shape, uint64_t bytes) {
    return InputError("shape.max_tokens_per_rank: " + std::to_string(shape.max_tokens_per_rank) +
                      " needs " + std::to_string(bytes >> 20) +
                      " MiB a rank on the card, which has not got them");
  }

 private:
  std::vector<DeviceBuffer> buffers_;
};

}  // namespace moetwin
