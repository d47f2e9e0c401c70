// A plain reference of the layer on the card: gather, two matrix products in float, SwiGLU, E4M3
// requantisation, combine, each a simple kernel of its own. It shares nothing with the fused kernel
// but the inputs: no tensor core, no ring, no promotion by blocks, the toolkit's own conversions.
#pragma once

#include <cstdint>
#include <vector>

#include "model/problem.h"

namespace moetwin {

struct PlainResult {
  std::vector<float> l1;    ///< [N, I] requantised values of the routed rows, (token, k) ascending
  std::vector<uint16_t> y;  ///< [tokens, H] BF16
};

/// A problem with one rank. `l1`, where given, takes the place of the reference's own Linear1
/// before Linear2. Throws std::runtime_error where the card fails.
PlainResult plain_layer(const Problem& problem, const std::vector<float>* l1 = nullptr);

}  // namespace moetwin
