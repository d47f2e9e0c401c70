// The plain reference's kernels behind a plain header. Addresses are the card's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace moetwin::plain {

/// Rows of one expert that a block multiplies: places in the list of rows sorted by expert.
struct RowTile {
  uint32_t expert;
  uint32_t first;
  uint32_t count;  ///< at most kTile
};
constexpr uint32_t kTile = 64;

/// Weights of all experts: codes [E][n][k] and scales [E][n/128][k/128].
struct Weights {
  const uint8_t* codes;
  const float* scales;
  uint32_t n;
  uint32_t k;
};

/// out[row][k] = codes[token][k] * scales[token][k/128] of the row's token.
void gather(const uint8_t* codes, const float* scales, const uint32_t* token_of_row, uint32_t rows,
            uint32_t k, float* out);
/// out[row][n] = sum over k of a[row][k] * weight[n][k].
void multiply(const float* a, Weights w, const RowTile* tiles, uint32_t num_tiles, float* out);
/// From gate and up [row][2I] to requantised values [row][I]; `limit` clamps where it is finite.
void activate(const float* gate_up, const float* weight_of_row, uint32_t rows, uint32_t i,
              float limit, float* out);
/// y[token][h]: the token's rows, rounded to BF16 each, added in k order. `row_of_slot` [token][k]
/// has -1 where nothing is routed.
void combine(const float* l2, const int32_t* row_of_slot, uint32_t tokens, uint32_t topk,
             uint32_t h, uint16_t* y);

}  // namespace moetwin::plain
