// Quantisation outside the kernel (NUMERICS S0 and S1): float tensors to E4M3 codes and fp32
// scales. In both, a group's scale is max(amax, 1e-4) / 448, so that it is never zero and its
// reciprocal never overflows.
//
// What is not finite: amax takes no NaN, so a NaN changes no other element's code and becomes 0x7F
// itself. An infinity makes its group's scale infinite: finite elements become zeros with their
// sign, infinite ones 0x7F (0 times or over infinity). Neither leaves its group.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moetwin {

/// S0 for one group: 128 channels of one token. Returns the scale; code = e4m3(x * RN(1 / scale)).
float quantise_activation_group(const float* x, uint8_t* codes);

/// S0: x [tokens, hidden] to codes [tokens, hidden] and scales [tokens, hidden / 128]. `hidden` is
/// a multiple of 128.
void quantise_activations(const float* x, uint64_t tokens, uint32_t hidden, uint8_t* codes,
                          float* scales);

/// S1 for one block of 128 x 128 weights, whose rows are `w_pitch` and `codes_pitch` elements
/// apart. Returns the scale; code = e4m3(w / scale).
float quantise_weight_block(const float* w, size_t w_pitch, uint8_t* codes, size_t codes_pitch);

/// S1: w [rows, columns] to codes [rows, columns] and scales [rows / 128, columns / 128]. Both
/// sizes are multiples of 128.
void quantise_weights(const float* w, uint32_t rows, uint32_t columns, uint8_t* codes,
                      float* scales);

}  // namespace moetwin
