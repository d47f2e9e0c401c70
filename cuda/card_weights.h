// The experts' weights in the card's memory, in the kernel's row order: an expert is copied there
// before the first launch that routes a row to it, and stays as long as launches use the same
// weights. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device_buffer.h"
#include "cuda/kernel_params.h"
#include "model/problem.h"

namespace moetwin {

/// Addresses on the card.
struct RankWeights {
  uint64_t w1 = 0;         ///< [E_local, 2I, H] codes, rows in the order of w1_source_row()
  uint64_t w2 = 0;         ///< [E_local, H, I] codes
  uint64_t w1_scales = 0;  ///< [E_local, 2I/128, H/128] f32
  uint64_t w2_scales = 0;  ///< [E_local, H/128, I/128] f32
};

class CardWeights {
 public:
  /// Makes every expert of the local ranks that `problem` routes a row to present. Throws
  /// InputError where the card has too little memory.
  void prepare(const Problem& problem, LocalRanks local, cudaStream_t stream);

  /// Of a local rank.
  RankWeights of(uint32_t rank) const;

 private:
  void upload(const Shape& shape, uint32_t expert, cudaStream_t stream);

  std::shared_ptr<const WeightSource> source_;
  Shape shape_{};
  LocalRanks local_{};
  std::vector<bool> present_;          ///< [E]
  std::vector<DeviceBuffer> buffers_;  ///< [local ranks]
  std::vector<uint8_t> w1_rows_;       ///< one expert's W1 in the kernel's order, on its way
};

}  // namespace moetwin
