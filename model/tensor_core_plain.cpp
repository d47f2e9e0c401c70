// The tile form in plain loops over 16 columns, which a compiler turns into whatever vectors its
// target has. Same steps and same bits as the lanes.
#include <algorithm>
#include <cstring>

#include "common/epilogue_math.h"
#include "model/tensor_core_packed.h"

namespace moetwin::tensor_core::plain {
namespace {

using WordRow = uint32_t[kPanelColumns];
using FloatRow = float[kPanelColumns];

uint8_t exponent_byte(uint8_t code) {
  const uint32_t magnitude = code & 0x7F;
  if (magnitude == 0 || magnitude == kE4m3Nan) return 0;
  return static_cast<uint8_t>(std::max(magnitude >> 3, 1u) + kExponentByteBias - 7);
}

float code_value(uint8_t code) {
  const uint32_t magnitude = code & 0x7F;
  if (magnitude != 0 && magnitude != kE4m3Nan) return decode_e4m3(code);
  return float_of_bits(kTinyBits | static_cast<uint32_t>(code & 0x80) << 24);
}

uint32_t add_group_signs(uint32_t signs, uint32_t group) {
  return (signs >> 1) | (group & 0x80808080u);
}

uint32_t population_count(uint32_t x) {
  x -= (x >> 1) & 0x55555555u;
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  x = (x + (x >> 4)) & 0x0F0F0F0Fu;
  x += x >> 8;
  return (x + (x >> 16)) & 0x3F;
}

/// M + kSumBias of each column; `value` is C.
void largest_exponents(const RowStep& row, const PanelStep& columns, const FloatRow& value,
                       WordRow& largest) {
  uint8_t sums[kPanelColumns * kGroupCodes];
  std::fill_n(sums, sizeof(sums), uint8_t{kSmallestSum});
  for (size_t group = 0; group < kStepGroups; ++group) {
    uint8_t row_bytes[kPanelColumns * kGroupCodes];
    for (size_t j = 0; j < kPanelColumns; ++j) {
      std::memcpy(row_bytes + j * kGroupCodes, &row.exponents[group], kGroupCodes);
    }
    const uint8_t* column_bytes = &columns.exponents[group][0][0];
    for (size_t i = 0; i < kPanelColumns * kGroupCodes; ++i) {
      sums[i] = std::max(sums[i], static_cast<uint8_t>(row_bytes[i] + column_bytes[i]));
    }
  }
  for (size_t j = 0; j < kPanelColumns; ++j) {
    const uint8_t* sum = sums + j * kGroupCodes;
    const uint32_t products = std::max(std::max(sum[0], sum[1]), std::max(sum[2], sum[3]));
    const uint32_t field = (bits_of_float(value[j]) & ~kFloatSignBit) >> kFloatMantissaBits;
    largest[j] = std::max(products, field + kSumBias - 127);
  }
}

/// One step of one row: `value` is C on entry and D on return.
void multiply_step(const RowStep& row, const PanelStep& columns, FloatRow& value) {
  WordRow largest;
  largest_exponents(row, columns, value, largest);
  FloatRow shifter;
  WordRow sum;
  for (size_t j = 0; j < kPanelColumns; ++j) {
    const uint32_t aligned = largest[j] << 23;
    const uint32_t shifter_bits = aligned + float_bits(10) + 0x400000u;
    const float units_in_one = float_of_bits(((127u + 13u + kSumBias) << 23) - aligned);
    const uint32_t negative = population_count(columns.signs[j] ^ row.signs);
    const int32_t carried = static_cast<int32_t>(value[j] * units_in_one);
    shifter[j] = float_of_bits(shifter_bits);
    sum[j] = static_cast<uint32_t>(carried) + negative - (shifter_bits << 5);
  }
  for (size_t k = 0; k < kTensorCoreK; ++k) {
    for (size_t j = 0; j < kPanelColumns; ++j) {
      sum[j] += bits_of_float(row.values[k] * columns.values[k][j] + shifter[j]);
    }
  }
  for (size_t j = 0; j < kPanelColumns; ++j) {
    const float exact = static_cast<float>(static_cast<int32_t>(sum[j]));
    const uint32_t kept = bits_of_float(exact) & (~0u << (23 - kTensorCoreFractionBits));
    value[j] = float_of_bits(kept) * float_of_bits((largest[j] << 23) + float_bits(-13));
  }
}

}  // namespace

void pack_row_step(const uint8_t* codes, RowStep& step, uint32_t& nan) {
  uint8_t exponents[kTensorCoreK];
  for (size_t k = 0; k < kTensorCoreK; ++k) {
    step.values[k] = code_value(codes[k]) * kStretch;
    exponents[k] = exponent_byte(codes[k]);
    if (is_e4m3_nan(codes[k])) nan = 1;
  }
  std::memcpy(step.exponents, exponents, sizeof(exponents));
  uint32_t groups[kStepGroups];
  std::memcpy(groups, codes, sizeof(groups));
  step.signs = 0;
  for (const uint32_t group : groups) step.signs = add_group_signs(step.signs, group);
}

void pack_panel_step(const uint32_t* transposed, PanelStep& step, uint32_t* nan) {
  for (size_t j = 0; j < kPanelColumns; ++j) {
    step.signs[j] = 0;
    for (size_t group = 0; group < kStepGroups; ++group) {
      const uint32_t word = transposed[group * kPanelColumns + j];
      step.signs[j] = add_group_signs(step.signs[j], word);
      for (size_t i = 0; i < kGroupCodes; ++i) {
        const uint8_t code = static_cast<uint8_t>(word >> (8 * i));
        step.values[group * kGroupCodes + i][j] = code_value(code);
        step.exponents[group][j][i] = exponent_byte(code);
        if (is_e4m3_nan(code)) nan[j] = 1;
      }
    }
  }
}

void multiply_panel(const PanelJob& job) {
  for (size_t row = 0; row < job.rows; ++row) {
    float* acc = job.acc + row * job.acc_pitch;
    FloatRow value = {};
    if (job.from_acc) std::copy_n(acc, kPanelColumns, value);
    for (size_t step = 0; step < job.steps; ++step) {
      multiply_step(job.row_steps[row * job.steps + step], job.panel_steps[step], value);
    }
    for (size_t j = 0; j < kPanelColumns; ++j) {
      const bool is_nan = (job.row_nan[row] | job.panel_nan[j]) != 0;
      acc[j] = is_nan ? float_of_bits(kHardwareNanBits) : value[j];
    }
  }
}

void promote_row(const float* acc, uint32_t n, float row_scale, const float* column_scales,
                 float* final) {
  for (size_t j = 0; j < n; ++j) {
    final[j] = promote(final[j], acc[j], row_scale, column_scales[j]);
  }
}

}  // namespace moetwin::tensor_core::plain
