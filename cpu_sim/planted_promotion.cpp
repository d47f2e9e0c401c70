#include "cpu_sim/planted_promotion.h"

#include "common/check.h"
#include "common/epilogue_math.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

constexpr uint32_t kChunk = 8;
constexpr uint32_t kLinear1Steps = kBlockK / kMmaK;

/// To binary16 and back, nearest even; too large gives infinity.
float round_to_half(float value) {
  constexpr float kSmallestNormal = 0x1p-14f;
  constexpr float kOverflows = 65520.0f;
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = bits & kFloatSignBit;
  const float size = magnitude(value);
  if (is_nan_bits(bits)) return value;
  if (size >= kOverflows) return float_of_bits(sign | kFloatInfinityBits);
  if (size < kSmallestNormal) {
    // Here a binary16's unit is 2^-24; in [1/2, 1) it is a float's.
    const float rounded = (size + 0.5f) - 0.5f;
    return float_of_bits(sign | bits_of_float(rounded));
  }
  const uint32_t rounded = bits + 0xFFF + ((bits >> 13) & 1);
  return float_of_bits(rounded & ~0x1FFFu);
}

/// The chained tensor-core steps of one element through one block.
float multiply_block(const TileJob& job, const TileJob::Block& block, uint32_t row, uint32_t column,
                     float c, LayerFault fault) {
  const size_t width = size_t{kMmaK} * block.steps;
  const uint8_t* a = &job.codes[block.a_offset + row * width];
  const uint8_t* b = &job.codes[block.b_offset + column * width];
  for (uint32_t step = 0; step < block.steps; ++step) {
    c = tensor_core_step(a + size_t{step} * kMmaK, b + size_t{step} * kMmaK, c);
    if (fault == LayerFault::HalfAccumulator) c = round_to_half(c);
  }
  return c;
}

float promote_wrongly(float final, float acc, float activation_scale, float weight_scale,
                      bool unfused) {
  if (!unfused) return promote(final, acc, activation_scale, weight_scale);
  return add_rn(mul_rn(mul_rn(activation_scale, weight_scale), acc), final);
}

}  // namespace

void finish_rows_wrongly(TileJob& job, uint32_t first_row, uint32_t rows, LayerFault fault) {
  MOETWIN_CHECK(job.done == 0);
  for (uint32_t row = first_row; row < first_row + rows; ++row) {
    for (uint32_t column = 0; column < kSliceN; ++column) {
      // A tile that is asked for again has no blocks left, and keeps what it has.
      float final = job.values[size_t{row} * kSliceN + column];
      float acc = 0;
      for (size_t i = 0; i < job.blocks.size(); ++i) {
        const TileJob::Block& block = job.blocks[i];
        MOETWIN_CHECK(block.ready);
        if (fault != LayerFault::PromotedOnce) acc = 0;
        acc = multiply_block(job, block, row, column, acc, fault);
        if (fault == LayerFault::PromotedOnce && i + 1 < job.blocks.size()) continue;
        const bool unfused = block.steps == kLinear1Steps
                                 ? fault == LayerFault::Linear1Unfused
                                 : fault == LayerFault::Linear2Unfused && row % 2 == 1;
        final =
            promote_wrongly(final, acc, block.row_scales[row],
                            column / kChunk % 2 == 0 ? block.even_scale : block.odd_scale, unfused);
      }
      job.values[size_t{row} * kSliceN + column] = final;
    }
  }
}

}  // namespace moetwin
