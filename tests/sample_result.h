// A small complete result, made by hand, for tests of digests, comparison and files. No backend
// made it and its numbers mean nothing.
#pragma once

#include <cstdint>

#include "common/number_formats.h"
#include "model/problem.h"

namespace moetwin::test {

/// Two ranks with two and one tokens, four experts, top-2, H = I = 128. Routing: rank 0 token 0
/// {3, 0}, token 1 {masked, 3}; rank 1 token 0 {1, 1}.
inline LayerResult sample_result() {
  LayerResult result;
  result.shape = {2, 4, 2, 128, 128, 4};
  result.tokens = {2, 1};
  result.slots = {{1}, {}, {}, {0, 1}, {}, {}, {0, 3}, {}};
  result.rows = {{0, 0, 0, 3, 0.5f},
                 {0, 0, 1, 0, 0.25f},
                 {0, 1, 1, 3, -1.0f},
                 {1, 0, 0, 1, 0.75f},
                 {1, 0, 1, 1, 0.0f}};
  const uint32_t rows = 5;
  for (uint32_t i = 0; i < rows * 128; ++i) {
    result.l1_codes.push_back(static_cast<uint8_t>((i * 7 + 3) % 126));
    result.l2.push_back(static_cast<uint16_t>(0x3F80 + i * 3));
  }
  for (uint32_t i = 0; i < rows * 2; ++i)
    result.l1_scales.push_back(float_of_bits((120 + i) << 23));
  for (uint32_t i = 0; i < 3 * 128; ++i) {
    result.y.push_back(static_cast<uint16_t>((0xBF00 + i * 5) % 0x7F80));
  }
  return result;
}

}  // namespace moetwin::test
