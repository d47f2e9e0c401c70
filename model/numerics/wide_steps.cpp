#include "model/numerics/wide_steps.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/number_formats.h"
#include "model/numerics/small_floats.h"
#include "model/tensor_core.h"

namespace moetwin::numerics {
namespace {

/// Exponent of a term that is zero: below every other, so that it never decides the alignment.
constexpr int16_t kNoTerm = -200;

struct DecodedCode {
  float value = 0;
  int16_t exponent = kNoTerm;
  bool nan = false;
};

DecodedCode decode(CodeFormat format, uint8_t code) {
  if ((code & 0x7F) == 0) return {};
  const float value = code_values(format)[code];
  if (!std::isfinite(value)) return {0, kNoTerm, true};
  const bool e4m3 = format == CodeFormat::E4m3;
  const int field = e4m3 ? (code >> 3) & 0xF : (code >> 2) & 0x1F;
  return {value, static_cast<int16_t>(std::max(field, 1) - (e4m3 ? 7 : 15)), false};
}

/// One step's columns, k outermost so that columns lie side by side.
struct Columns {
  std::vector<float> values;       ///< [32, n]
  std::vector<int16_t> exponents;  ///< [32, n]
};

void decode_columns(const WideOperand& b, uint32_t step, Columns& columns,
                    std::vector<uint8_t>& nan) {
  for (uint32_t j = 0; j < b.count; ++j) {
    const uint8_t* codes = b.codes + j * b.pitch + size_t{step} * kTensorCoreK;
    for (uint32_t k = 0; k < kTensorCoreK; ++k) {
      const DecodedCode code = decode(b.format, codes[k]);
      columns.values[size_t{k} * b.count + j] = code.value;
      columns.exponents[size_t{k} * b.count + j] = code.exponent;
      if (code.nan) nan[j] = 1;
    }
  }
}

float power_of_two(int32_t exponent) {
  return float_of_bits(static_cast<uint32_t>(exponent + kFloatBias) << kFloatMantissaBits);
}

int32_t exponent_of(float value) {
  if (value == 0) return kNoTerm;
  const auto field = static_cast<int32_t>((bits_of_float(value) >> kFloatMantissaBits) & 0xFF);
  return std::max(field, 1) - kFloatBias;
}

/// `sum` units of 2^(largest - 13), cut toward zero to 13 fraction bits.
float cut_sum(int32_t sum, int32_t largest) {
  const auto size = static_cast<uint32_t>(sum < 0 ? -sum : sum);
  uint32_t kept = size;
  if (size >> (kTensorCoreFractionBits + 1) != 0) {
    const int32_t excess = 31 - __builtin_clz(size) - kTensorCoreFractionBits;
    kept = size >> excess << excess;
  }
  const float value = static_cast<float>(kept) * power_of_two(largest - kTensorCoreFractionBits);
  return sum < 0 ? -value : value;
}

/// What one step of a row works with, a place for each column.
struct StepRoom {
  explicit StepRoom(uint32_t n) : largest(n), sums(n), units(n) {}
  std::vector<int16_t> largest;
  std::vector<int32_t> sums;
  std::vector<float> units;
};

/// One step for one row of decoded codes: acc [n] becomes the step's result.
void step(const DecodedCode* a, const Columns& columns, uint32_t n, StepRoom& room, float* acc) {
  int16_t* largest = room.largest.data();
  int32_t* sums = room.sums.data();
  float* units = room.units.data();
  for (uint32_t j = 0; j < n; ++j) largest[j] = static_cast<int16_t>(exponent_of(acc[j]));
  for (uint32_t k = 0; k < kTensorCoreK; ++k) {
    const int16_t* b = columns.exponents.data() + size_t{k} * n;
    const int16_t exponent = a[k].exponent;
    for (uint32_t j = 0; j < n; ++j)
      largest[j] = std::max<int16_t>(largest[j], static_cast<int16_t>(exponent + b[j]));
  }
  for (uint32_t j = 0; j < n; ++j) {
    // All terms zero: any alignment gives zero.
    if (largest[j] < kNoTerm / 2) largest[j] = 0;
    units[j] = power_of_two(kTensorCoreFractionBits - largest[j]);
    sums[j] = static_cast<int32_t>(acc[j] * units[j]);
  }
  for (uint32_t k = 0; k < kTensorCoreK; ++k) {
    const float* b = columns.values.data() + size_t{k} * n;
    const float value = a[k].value;
    for (uint32_t j = 0; j < n; ++j) sums[j] += static_cast<int32_t>(value * b[j] * units[j]);
  }
  for (uint32_t j = 0; j < n; ++j) acc[j] = cut_sum(sums[j], largest[j]);
}

}  // namespace

void wide_tile_steps(const WideOperand& a, const WideOperand& b, uint32_t steps, float* acc) {
  const uint32_t n = b.count;
  const size_t elements = size_t{kTensorCoreK} * n;
  std::vector<Columns> columns(
      steps, Columns{std::vector<float>(elements), std::vector<int16_t>(elements)});
  std::vector<uint8_t> column_nan(n, 0);
  for (uint32_t s = 0; s < steps; ++s) decode_columns(b, s, columns[s], column_nan);
  StepRoom room(n);
  std::vector<DecodedCode> codes(size_t{steps} * kTensorCoreK);
  for (uint32_t row = 0; row < a.count; ++row) {
    bool row_nan = false;
    for (size_t k = 0; k < codes.size(); ++k) {
      codes[k] = decode(a.format, a.codes[row * a.pitch + k]);
      row_nan = row_nan || codes[k].nan;
    }
    float* out = acc + size_t{row} * n;
    std::fill_n(out, n, 0.0f);
    for (uint32_t s = 0; s < steps; ++s)
      step(codes.data() + size_t{s} * kTensorCoreK, columns[s], n, room, out);
    for (uint32_t j = 0; j < n; ++j)
      if (row_nan || column_nan[j] != 0) out[j] = float_of_bits(kHardwareNanBits);
  }
}

}  // namespace moetwin::numerics
