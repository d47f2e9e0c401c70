// One expert's feed-forward network on a block of rows, as NUMERICS S2 to S10 say it: the core of
// the textbook path. It knows neither ranks nor tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "common/shape.h"
#include "model/problem.h"

namespace moetwin {

struct ExpertInput {
  uint64_t rows = 0;
  std::vector<uint8_t> codes;  ///< [rows, H] E4M3
  std::vector<float> scales;   ///< [rows, H/128]
  std::vector<float> weights;  ///< [rows] routing weights
};

struct ExpertOutput {
  std::vector<uint8_t> l1_codes;  ///< [rows, I] E4M3
  std::vector<float> l1_scales;   ///< [rows, I/64]
  std::vector<uint16_t> l2;       ///< [rows, H] BF16
};

/// `limit` is the activation limit, infinity: none. Rows do not influence one another.
ExpertOutput expert_ffn(const Shape& shape, float limit, const ExpertWeights& weights,
                        const ExpertInput& input);

}  // namespace moetwin
