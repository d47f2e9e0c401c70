// The plain reference's kernels, one idea each and no more than that: a block a row, or a block a
// tile of 64 x 64 in shared memory. Test code: nothing that ships calls it.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "tests/gpu_check/plain_kernels.h"

namespace moetwin::plain {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kDepth = 16;  ///< of K staged at a time
constexpr uint32_t kScaleBlock = 128;
constexpr uint32_t kGroup = 64;
constexpr float kLargestE4m3 = 448.0f;

__device__ float decode(uint8_t code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

__global__ void gather_kernel(const uint8_t* codes, const float* scales,
                              const uint32_t* token_of_row, uint32_t k, float* out) {
  const uint64_t row = blockIdx.x;
  const uint64_t token = token_of_row[row];
  for (uint32_t i = threadIdx.x; i < k; i += kThreads)
    out[row * k + i] =
        decode(codes[token * k + i]) * scales[token * (k / kScaleBlock) + i / kScaleBlock];
}

/// One block: kTile rows of one expert times kTile columns; 4 x 4 of them a thread.
__global__ void multiply_kernel(const float* a, Weights w, const RowTile* tiles, float* out) {
  __shared__ float rows[kTile][kDepth + 1];
  __shared__ float columns[kTile][kDepth + 1];
  const RowTile tile = tiles[blockIdx.y];
  const uint32_t first_n = blockIdx.x * kTile;
  const uint8_t* codes = w.codes + uint64_t{tile.expert} * w.n * w.k;
  const float* scales =
      w.scales + uint64_t{tile.expert} * (w.n / kScaleBlock) * (w.k / kScaleBlock);
  const uint32_t my_row = threadIdx.x / 16 * 4;
  const uint32_t my_column = threadIdx.x % 16 * 4;
  float sum[4][4] = {};
  for (uint32_t k = 0; k < w.k; k += kDepth) {
    for (uint32_t i = threadIdx.x; i < kTile * kDepth; i += kThreads) {
      const uint32_t line = i / kDepth;
      const uint32_t depth = k + i % kDepth;
      rows[line][i % kDepth] =
          line < tile.count ? a[(uint64_t{tile.first} + line) * w.k + depth] : 0.0f;
      const uint64_t n = first_n + line;
      columns[line][i % kDepth] =
          decode(codes[n * w.k + depth]) *
          scales[n / kScaleBlock * (w.k / kScaleBlock) + depth / kScaleBlock];
    }
    __syncthreads();
    for (uint32_t depth = 0; depth < kDepth; ++depth)
      for (uint32_t r = 0; r < 4; ++r)
        for (uint32_t c = 0; c < 4; ++c)
          sum[r][c] += rows[my_row + r][depth] * columns[my_column + c][depth];
    __syncthreads();
  }
  for (uint32_t r = 0; r < 4; ++r)
    for (uint32_t c = 0; c < 4; ++c)
      if (my_row + r < tile.count)
        out[(uint64_t{tile.first} + my_row + r) * w.n + first_n + my_column + c] = sum[r][c];
}

/// One block: a row's group of 64 columns, which share a power-of-two scale.
__global__ void activate_kernel(const float* gate_up, const float* weight_of_row, uint32_t i,
                                float limit, float* out) {
  __shared__ float magnitudes[kGroup];
  const uint64_t row = blockIdx.x;
  const uint32_t column = blockIdx.y * kGroup + threadIdx.x;
  float gate = gate_up[row * 2 * i + column];
  float up = gate_up[row * 2 * i + i + column];
  if (isfinite(limit)) {
    gate = fminf(gate, limit);
    up = fmaxf(fminf(up, limit), -limit);
  }
  const float value = gate / (1.0f + expf(-gate)) * up * weight_of_row[row];
  magnitudes[threadIdx.x] = fabsf(value);
  __syncthreads();
  float largest = 0;
  for (uint32_t j = 0; j < kGroup; ++j) largest = fmaxf(largest, magnitudes[j]);
  const float scale = largest == 0 ? 1.0f : exp2f(ceilf(log2f(largest / kLargestE4m3)));
  const uint8_t code = __nv_cvt_float_to_fp8(value / scale, __NV_SATFINITE, __NV_E4M3);
  out[row * i + column] = decode(code) * scale;
}

__global__ void combine_kernel(const float* l2, const int32_t* row_of_slot, uint32_t topk,
                               uint32_t h, uint16_t* y) {
  const uint64_t token = blockIdx.x;
  for (uint32_t column = threadIdx.x; column < h; column += kThreads) {
    float sum = 0;
    for (uint32_t k = 0; k < topk; ++k) {
      const int32_t row = row_of_slot[token * topk + k];
      if (row < 0) continue;
      const uint64_t at = static_cast<uint64_t>(row) * h + column;
      sum += __bfloat162float(__float2bfloat16_rn(l2[at]));
    }
    y[token * h + column] = __bfloat16_as_ushort(__float2bfloat16_rn(sum));
  }
}

}  // namespace

void gather(const uint8_t* codes, const float* scales, const uint32_t* token_of_row, uint32_t rows,
            uint32_t k, float* out) {
  gather_kernel<<<rows, kThreads>>>(codes, scales, token_of_row, k, out);
}

void multiply(const float* a, Weights w, const RowTile* tiles, uint32_t num_tiles, float* out) {
  multiply_kernel<<<dim3(w.n / kTile, num_tiles), kThreads>>>(a, w, tiles, out);
}

void activate(const float* gate_up, const float* weight_of_row, uint32_t rows, uint32_t i,
              float limit, float* out) {
  activate_kernel<<<dim3(rows, i / kGroup), kGroup>>>(gate_up, weight_of_row, i, limit, out);
}

void combine(const float* l2, const int32_t* row_of_slot, uint32_t tokens, uint32_t topk,
             uint32_t h, uint16_t* y) {
  combine_kernel<<<tokens, kThreads>>>(l2, row_of_slot, topk, h, y);
}

}  // namespace moetwin::plain
