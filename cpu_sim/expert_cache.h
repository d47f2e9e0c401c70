// The weights a simulated rank works with: an expert's codes are taken from the source at the first
// tile that needs them and dropped after the last, unless they are small and more launches follow;
// its scales are kept. W1 lies in kernel row order.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/symmetric_layout.h"
#include "model/problem.h"

namespace moetwin {

class ExpertCache {
 public:
  /// `tiles[e]`: weight tile loads that expert e of this rank will see in the launch. `keep`: other
  /// launches are likely to want the same experts.
  void start_launch(std::shared_ptr<const WeightSource> source, const Shape& shape, uint32_t rank,
                    std::vector<uint64_t> tiles, bool keep);

  /// Copies a box of 128 rows x 128 codes, starting at memory row `row` of W1 or W2 of all local
  /// experts, to `out`, dense. A box counts as one tile load of its expert.
  void read_box(Tensor tensor, uint64_t row, uint32_t column, uint8_t* out);

  /// Element of [E_local][2I/128][H/128] (W1) or [E_local][H/128][I/128] (W2).
  float scale(Tensor tensor, uint64_t element);
  uint64_t num_scales(Tensor tensor) const;

 private:
  struct Expert {
    std::shared_ptr<const ExpertWeights> weights;
    std::vector<float> w1_scales;
    std::vector<float> w2_scales;
    uint64_t tiles_left = 0;
  };

  const ExpertWeights& take(uint32_t local_expert);

  std::shared_ptr<const WeightSource> source_;
  Shape shape_;
  uint32_t rank_ = 0;
  std::vector<Expert> experts_;
  /// Held so that the source need not make them again; by local expert, empty where none are.
  std::vector<std::shared_ptr<const ExpertWeights>> kept_;
};

}  // namespace moetwin
