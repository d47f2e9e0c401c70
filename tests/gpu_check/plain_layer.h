// A plain reference of the layer on the card: gather, two matrix products in float, SwiGLU, E4M3
// requantisation, combine, each a simple kernel of its own. It shares nothing with the fused kernel
// but the inputs: no tensor core, no ring, no promotion by blocks, the toolkit's own conversions.
#pragma once

#include <cstdint>
#include <vector>

#include "model/problem.h"

namespace moetwin {

/// y [tokens, H] BF16 of a problem with one rank. Throws std::runtime_error where the card fails.
std::vector<uint16_t> plain_layer(const Problem& problem);

}  // namespace moetwin
