// How the tile form of the tensor core step holds its operands, and the loops over them: decoded
// once a tile, in a layout that every instruction set reads. Private to model/tensor_core_*.cpp.
//
// A term is the product of two codes cut toward zero to a multiple of u = 2^(M - 13). Adding the
// exact product to 1.5 * 2^23 * u in binary32, rounding down, leaves the product's floor in units
// of u in the low bits of the sum, so the sums' bits can be added as integers. Floor differs from
// cut by one for negative products that are no multiple of u; the rows' values are stretched by 1 +
// 2^-15, which makes it differ for every negative product and changes nothing else (a product has
// at most 8 significant bits and is below 2^15 u). The number of negative products, a population
// count, is then added back. A zero code is stood for by a tiny number, so that it needs no mask.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/number_formats.h"
#include "model/tensor_core.h"

namespace moetwin::tensor_core {

/// Columns that are packed together; every vector length divides it.
constexpr uint32_t kPanelColumns = 16;
/// Codes that share a 32-bit lane.
constexpr uint32_t kGroupCodes = 4;
constexpr uint32_t kStepGroups = kTensorCoreK / kGroupCodes;

/// An exponent byte is the code's exponent + 119 (113 to 127), or 0 for a zero or NaN code: a sum
/// of two that has a zero in it stays below kSmallestSum and every product's sum is above.
constexpr uint32_t kExponentByteBias = 119;
constexpr uint32_t kSumBias = 2 * kExponentByteBias;
/// No alignment below 2^kSmallestExponent: low enough for any sum of a chain that starts at +0
/// (a multiple of 2^-25), high enough for kTiny.
constexpr int32_t kSmallestExponent = -40;
constexpr uint32_t kSmallestSum = kSumBias + kSmallestExponent;
/// What a zero code counts as. Times the largest code it is below u for every M that is allowed,
/// and its square is a normal number.
constexpr uint32_t kTinyBits = (127u - 62u) << 23;
/// What a row's values are multiplied by. It has 16 significant bits, so a product of two codes
/// stays exact in binary32.
constexpr float kStretch = 1.0f + 0x1p-15f;
/// A chain may start from values of this range by itself; others are left to the definition.
constexpr float kSmallestStart = 0x1p-40f;
constexpr float kLargestStart = 0x1p100f;

/// What must be added to (M + kSumBias) << 23 for the bits of 2^(M + power), modulo 2^32.
constexpr uint32_t float_bits(int32_t power) {
  return (127u + static_cast<uint32_t>(power) - kSumBias) << 23;
}

/// One step of a panel of columns.
struct alignas(64) PanelStep {
  uint8_t exponents[kStepGroups][kPanelColumns][kGroupCodes];
  float values[kTensorCoreK][kPanelColumns];
  uint32_t signs[kPanelColumns];  ///< bit 8 * (k % 4) + k / 4
};

/// One step of a row, values stretched.
struct alignas(64) RowStep {
  float values[kTensorCoreK];
  uint32_t exponents[kStepGroups];
  uint32_t signs;
};

/// Where one panel's multiplication reads and writes.
struct PanelJob {
  const RowStep* row_steps;  ///< [rows, steps]
  const uint32_t* row_nan;   ///< [rows]: not 0 if the row has a NaN code
  uint32_t rows;
  const PanelStep* panel_steps;  ///< [steps]
  const uint32_t* panel_nan;     ///< [16]: not 0 if the column has a NaN code
  uint32_t steps;
  bool from_acc;  ///< start from acc, not from +0
  float* acc;     ///< row r's 16 columns at acc + r * acc_pitch
  size_t acc_pitch;
};

/// Packs 32 codes of a row; sets bits of `nan` if one of them is a NaN.
void pack_row_step(const uint8_t* codes, RowStep& step, uint32_t& nan);

/// Packs a step of 16 columns; `transposed` [8][16] holds group g of column j, aligned like a
/// PanelStep. Sets bits of `nan` [16] in columns that have a NaN.
void pack_panel_step(const uint32_t* transposed, PanelStep& step, uint32_t* nan);

/// The caller has set the rounding mode to downward.
void multiply_panel(const PanelJob& job);

/// promote() for n elements of one row.
void promote_row(const float* acc, uint32_t n, float row_scale, const float* column_scales,
                 float* final);

/// The same four without SIMD types, for machines that Highway has no vectors for.
namespace plain {
void pack_row_step(const uint8_t* codes, RowStep& step, uint32_t& nan);
void pack_panel_step(const uint32_t* transposed, PanelStep& step, uint32_t* nan);
void multiply_panel(const PanelJob& job);
void promote_row(const float* acc, uint32_t n, float row_scale, const float* column_scales,
                 float* final);
}  // namespace plain

}  // namespace moetwin::tensor_core
