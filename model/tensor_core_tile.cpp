// The tile form of the tensor core step, in SIMD lanes of 32 bits chosen at run time (Highway).
//
// A term is the product of two codes cut toward zero to a multiple of u = 2^(M - 13). Adding the
// exact product to 1.5 * 2^23 * u in binary32, rounding down, leaves the product's floor in units
// of u in the low bits of the sum, so the sums' bits can be added as integers. Floor differs from
// cut by one for negative products that are no multiple of u; one side's values are stretched by 1
// + 2^-15, which makes it differ for every negative product and changes nothing else (a product has
// at most 8 significant bits and is below 2^15 u). The number of negative products, a population
// count, is then added back. A zero code is stood for by a tiny number, so that it needs no mask.
#include <algorithm>
#include <cfenv>
#include <cstring>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/epilogue_math.h"
#include "common/number_formats.h"
#include "model/tensor_core.h"

#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/tensor_core_tile.cpp"
#include <hwy/aligned_allocator.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef MOETWIN_TENSOR_CORE_TILE_ONCE
#define MOETWIN_TENSOR_CORE_TILE_ONCE
namespace moetwin {
namespace {

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

}  // namespace
}  // namespace moetwin
#endif  // MOETWIN_TENSOR_CORE_TILE_ONCE

HWY_BEFORE_NAMESPACE();
namespace moetwin {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kPanelColumns>;
using Words = hn::Rebind<uint32_t, Floats>;
using Ints = hn::Rebind<int32_t, Floats>;
using Bytes = hn::Repartition<uint8_t, Floats>;

using FloatVec = hn::Vec<Floats>;
using WordVec = hn::Vec<Words>;
using IntVec = hn::Vec<Ints>;
using ByteVec = hn::Vec<Bytes>;

template <class D>
HWY_INLINE hn::Mask<D> nan_codes(D d, hn::Vec<D> codes) {
  return hn::Eq(hn::And(codes, hn::Set(d, uint8_t{0x7F})), hn::Set(d, kE4m3Nan));
}

/// Exponent bytes of the codes in every byte of `codes`.
template <class D>
HWY_INLINE hn::Vec<D> exponent_bytes(D d, hn::Vec<D> codes) {
  const auto magnitudes = hn::And(codes, hn::Set(d, uint8_t{0x7F}));
  const auto fields = hn::Max(hn::ShiftRight<3>(magnitudes), hn::Set(d, uint8_t{1}));
  const auto exponents = hn::Add(fields, hn::Set(d, uint8_t{kExponentByteBias - 7}));
  const auto absent = hn::Or(hn::Eq(magnitudes, hn::Zero(d)), nan_codes(d, codes));
  return hn::IfThenZeroElse(absent, exponents);
}

/// Values of the codes in the low byte of every lane; other bits are ignored. Zero and NaN codes
/// become the tiny number with the code's sign.
HWY_INLINE FloatVec code_values(WordVec codes) {
  const Words d;
  const Floats df;
  const Ints di;
  const WordVec magnitudes = hn::And(codes, hn::Set(d, 0x7Fu));
  const WordVec normal = hn::Add(hn::ShiftLeft<20>(magnitudes), hn::Set(d, 120u << 23));
  const WordVec subnormal =
      hn::BitCast(d, hn::Mul(hn::ConvertTo(df, hn::BitCast(di, magnitudes)), hn::Set(df, 0x1p-9f)));
  const IntVec signed_magnitudes = hn::BitCast(di, magnitudes);
  const auto is_subnormal = hn::RebindMask(d, hn::Lt(signed_magnitudes, hn::Set(di, 8)));
  const auto absent =
      hn::Or(hn::Eq(magnitudes, hn::Zero(d)), hn::Eq(magnitudes, hn::Set(d, uint32_t{kE4m3Nan})));
  const WordVec unsigned_value = hn::IfThenElse(absent, hn::Set(d, kTinyBits),
                                                hn::IfThenElse(is_subnormal, subnormal, normal));
  const WordVec sign = hn::ShiftLeft<24>(hn::And(codes, hn::Set(d, 0x80u)));
  return hn::BitCast(df, hn::Or(unsigned_value, sign));
}

/// `transposed` [8][16]: group g of column j of one step. Adds to `nan` [16].
void pack_panel_step(const uint32_t* HWY_RESTRICT transposed, PanelStep* HWY_RESTRICT step,
                     uint32_t* HWY_RESTRICT nan) {
  const Words d;
  const Floats df;
  const Bytes db;
  for (size_t lane = 0; lane < kPanelColumns; lane += hn::Lanes(df)) {
    WordVec signs = hn::Zero(d);
    WordVec nans = hn::Load(d, nan + lane);
    for (size_t group = 0; group < kStepGroups; ++group) {
      const WordVec codes = hn::Load(d, transposed + group * kPanelColumns + lane);
      const ByteVec bytes = hn::BitCast(db, codes);
      hn::Store(exponent_bytes(db, bytes), db, &step->exponents[group][lane][0]);
      nans = hn::Or(nans, hn::BitCast(d, hn::VecFromMask(db, nan_codes(db, bytes))));
      signs = hn::Or(hn::ShiftRight<1>(signs), hn::And(codes, hn::Set(d, 0x80808080u)));
      float* values = &step->values[group * kGroupCodes][lane];
      hn::Store(code_values(codes), df, values);
      hn::Store(code_values(hn::ShiftRight<8>(codes)), df, values + kPanelColumns);
      hn::Store(code_values(hn::ShiftRight<16>(codes)), df, values + 2 * kPanelColumns);
      hn::Store(code_values(hn::ShiftRight<24>(codes)), df, values + 3 * kPanelColumns);
    }
    hn::Store(signs, d, step->signs + lane);
    hn::Store(nans, d, nan + lane);
  }
}

/// One row's running chain in one vector of columns.
struct Chain {
  FloatVec value;    ///< C of the next step, D of the last
  WordVec sum;       ///< the terms so far in units of u
  FloatVec shifter;  ///< 1.5 * 2^23 * u
  FloatVec unit;     ///< u

  /// Begins a step. Every byte of a lane of `largest_sums` is the largest exponent byte sum of some
  /// of the products.
  HWY_INLINE void align(ByteVec largest_sums, WordVec column_signs, uint32_t row_signs) {
    const Words d;
    const Bytes db;
    const Floats df;
    ByteVec bytes = largest_sums;
    bytes = hn::Max(bytes, hn::BitCast(db, hn::ShiftRight<16>(hn::BitCast(d, bytes))));
    bytes = hn::Max(bytes, hn::BitCast(db, hn::ShiftRight<8>(hn::BitCast(d, bytes))));
    const WordVec products = hn::And(hn::BitCast(d, bytes), hn::Set(d, 0xFFu));
    const WordVec field =
        hn::ShiftRight<23>(hn::And(hn::BitCast(d, value), hn::Set(d, ~kFloatSignBit)));
    const WordVec carried = hn::Add(field, hn::Set(d, kSumBias - 127));
    // M + kSumBias where a float has its exponent; constants are modulo 2^32 like the sums.
    const WordVec largest = hn::ShiftLeft<23>(hn::Max(products, carried));
    const WordVec shifter_bits = hn::Add(largest, hn::Set(d, float_bits(10) + 0x400000u));
    shifter = hn::BitCast(df, shifter_bits);
    unit = hn::BitCast(df, hn::Add(largest, hn::Set(d, float_bits(-13))));
    const FloatVec units_in_one =
        hn::BitCast(df, hn::Sub(hn::Set(d, ((127u + 13u + kSumBias) << 23)), largest));
    const WordVec negative = hn::PopulationCount(hn::Xor(column_signs, hn::Set(d, row_signs)));
    const WordVec carried_units =
        hn::BitCast(d, hn::ConvertTo(Ints(), hn::Mul(value, units_in_one)));
    sum = hn::Add(carried_units, hn::Sub(negative, hn::ShiftLeft<5>(shifter_bits)));
  }

  HWY_INLINE void add(float row_value, FloatVec column_values) {
    const FloatVec shifted = hn::MulAdd(hn::Set(Floats(), row_value), column_values, shifter);
    sum = hn::Add(sum, hn::BitCast(Words(), shifted));
  }

  /// Ends a step: cut to 13 fraction bits.
  HWY_INLINE void finish() {
    const Words d;
    const FloatVec exact = hn::ConvertTo(Floats(), hn::BitCast(Ints(), sum));
    const WordVec kept =
        hn::And(hn::BitCast(d, exact), hn::Set(d, ~0u << (23 - kTensorCoreFractionBits)));
    value = hn::Mul(hn::BitCast(Floats(), kept), unit);
  }
};

HWY_INLINE ByteVec exponent_sums(uint32_t row_exponents, ByteVec column_exponents) {
  return hn::Add(hn::BitCast(Bytes(), hn::Set(Words(), row_exponents)), column_exponents);
}

/// All steps for kRows (1, 2 or 4) rows from `row` and one vector of columns from `lane`.
template <size_t kRows>
void multiply_rows(const PanelJob& job, size_t row, size_t lane) {
  const Floats df;
  const Words d;
  const Bytes db;
  const RowStep* HWY_RESTRICT rows[kRows];
  float* HWY_RESTRICT acc = job.acc + row * job.acc_pitch + lane;
  const size_t pitch = job.acc_pitch;
  Chain c0, c1, c2, c3;
  c0.value = c1.value = c2.value = c3.value = hn::Zero(df);
  if (job.from_acc) {
    c0.value = hn::LoadU(df, acc);
    if constexpr (kRows > 1) c1.value = hn::LoadU(df, acc + pitch);
    if constexpr (kRows > 2) c2.value = hn::LoadU(df, acc + 2 * pitch);
    if constexpr (kRows > 2) c3.value = hn::LoadU(df, acc + 3 * pitch);
  }
  for (size_t step = 0; step < job.steps; ++step) {
    const PanelStep& HWY_RESTRICT columns = job.panel_steps[step];
    for (size_t i = 0; i < kRows; ++i) rows[i] = job.row_steps + (row + i) * job.steps + step;
    ByteVec m0, m1, m2, m3;
    m0 = m1 = m2 = m3 = hn::Set(db, uint8_t{kSmallestSum});
    for (size_t group = 0; group < kStepGroups; ++group) {
      const ByteVec exponents = hn::Load(db, &columns.exponents[group][lane][0]);
      m0 = hn::Max(m0, exponent_sums(rows[0]->exponents[group], exponents));
      if constexpr (kRows > 1)
        m1 = hn::Max(m1, exponent_sums(rows[1]->exponents[group], exponents));
      if constexpr (kRows > 2)
        m2 = hn::Max(m2, exponent_sums(rows[2]->exponents[group], exponents));
      if constexpr (kRows > 2)
        m3 = hn::Max(m3, exponent_sums(rows[3]->exponents[group], exponents));
    }
    const WordVec signs = hn::Load(d, columns.signs + lane);
    c0.align(m0, signs, rows[0]->signs);
    if constexpr (kRows > 1) c1.align(m1, signs, rows[1]->signs);
    if constexpr (kRows > 2) c2.align(m2, signs, rows[2]->signs);
    if constexpr (kRows > 2) c3.align(m3, signs, rows[3]->signs);
    for (size_t k = 0; k < kTensorCoreK; ++k) {
      const FloatVec values = hn::Load(df, &columns.values[k][lane]);
      c0.add(rows[0]->values[k], values);
      if constexpr (kRows > 1) c1.add(rows[1]->values[k], values);
      if constexpr (kRows > 2) c2.add(rows[2]->values[k], values);
      if constexpr (kRows > 2) c3.add(rows[3]->values[k], values);
    }
    c0.finish();
    if constexpr (kRows > 1) c1.finish();
    if constexpr (kRows > 2) c2.finish();
    if constexpr (kRows > 2) c3.finish();
  }
  const WordVec nans = hn::Load(d, job.panel_nan + lane);
  const auto store = [&](FloatVec value, size_t i) HWY_ATTR {
    const auto is_nan = hn::Ne(hn::Or(nans, hn::Set(d, job.row_nan[row + i])), hn::Zero(d));
    const FloatVec nan = hn::BitCast(df, hn::Set(d, kHardwareNanBits));
    hn::StoreU(hn::IfThenElse(hn::RebindMask(df, is_nan), nan, value), df, acc + i * pitch);
  };
  store(c0.value, 0);
  if constexpr (kRows > 1) store(c1.value, 1);
  if constexpr (kRows > 2) store(c2.value, 2);
  if constexpr (kRows > 2) store(c3.value, 3);
}

/// The caller has set the rounding mode to downward.
void multiply_panel(const PanelJob& job) {
  for (size_t lane = 0; lane < kPanelColumns; lane += hn::Lanes(Floats())) {
    size_t row = 0;
    for (; row + 4 <= job.rows; row += 4) multiply_rows<4>(job, row, lane);
    for (; row + 2 <= job.rows; row += 2) multiply_rows<2>(job, row, lane);
    for (; row < job.rows; ++row) multiply_rows<1>(job, row, lane);
  }
}

/// Packs 32 codes of a row; sets bits of `nan` if one of them is a NaN.
void pack_row_step(const uint8_t* HWY_RESTRICT codes, RowStep* HWY_RESTRICT step,
                   uint32_t* HWY_RESTRICT nan) {
  const Floats df;
  const Words d;
  const hn::Rebind<uint8_t, Floats> d_codes;
  // 1 + 2^-15: the header comment says why. With a column's four bits it stays exact.
  const FloatVec stretch = hn::Set(df, 1.0f + 0x1p-15f);
  for (size_t k = 0; k < kTensorCoreK; k += hn::Lanes(df)) {
    const WordVec words = hn::PromoteTo(d, hn::LoadU(d_codes, codes + k));
    hn::Store(hn::Mul(code_values(words), stretch), df, step->values + k);
  }
  uint32_t groups[kStepGroups];
  std::memcpy(groups, codes, sizeof(groups));
  uint32_t signs = 0;
  for (const uint32_t group : groups) signs = (signs >> 1) | (group & 0x80808080u);
  step->signs = signs;
  const hn::CappedTag<uint8_t, kTensorCoreK> db;
  for (size_t k = 0; k < kTensorCoreK; k += hn::Lanes(db)) {
    const auto bytes = hn::LoadU(db, codes + k);
    hn::StoreU(exponent_bytes(db, bytes), db, reinterpret_cast<uint8_t*>(step->exponents) + k);
    *nan |= hn::AllFalse(db, nan_codes(db, bytes)) ? 0 : 1;
  }
}

/// promote() for one row.
void promote_row(const float* HWY_RESTRICT acc, uint32_t n, float row_scale,
                 const float* HWY_RESTRICT column_scales, float* HWY_RESTRICT final) {
  size_t column = 0;
#if HWY_NATIVE_FMA
  const Floats df;
  const FloatVec row_scales = hn::Set(df, row_scale);
  for (; column + hn::Lanes(df) <= n; column += hn::Lanes(df)) {
    const FloatVec scale = hn::Mul(row_scales, hn::LoadU(df, column_scales + column));
    const FloatVec sum =
        hn::MulAdd(scale, hn::LoadU(df, acc + column), hn::LoadU(df, final + column));
    hn::StoreU(sum, df, final + column);
  }
#endif
  for (; column < n; ++column) {
    final[column] = promote(final[column], acc[column], row_scale, column_scales[column]);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moetwin
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetwin {
namespace {

HWY_EXPORT(pack_row_step);
HWY_EXPORT(pack_panel_step);
HWY_EXPORT(multiply_panel);
HWY_EXPORT(promote_row);

/// Rounds downward until it goes out of scope. The arithmetic inside is behind a call through a
/// pointer, where a compiler cannot move it out of the scope.
class RoundDownward {
 public:
  RoundDownward() : before_(std::fegetround()) { std::fesetround(FE_DOWNWARD); }
  ~RoundDownward() { std::fesetround(before_); }
  RoundDownward(const RoundDownward&) = delete;
  RoundDownward& operator=(const RoundDownward&) = delete;

 private:
  int before_;
};

/// Codes of one operand: `count` rows of A or columns of B, 32 * steps codes each.
struct Operand {
  const uint8_t* codes;
  size_t pitch;
  uint32_t count;

  const uint8_t* step(size_t index, size_t step) const {
    return codes + index * pitch + step * kTensorCoreK;
  }
};

struct PackedRows {
  hwy::AlignedFreeUniquePtr<RowStep[]> steps;
  std::vector<uint32_t> nan;
};

PackedRows pack_rows(const Operand& a, uint32_t steps) {
  PackedRows rows{hwy::AllocateAligned<RowStep>(size_t{a.count} * steps),
                  std::vector<uint32_t>(a.count, 0)};
  MOETWIN_CHECK(rows.steps != nullptr);
  for (size_t row = 0; row < a.count; ++row) {
    for (size_t step = 0; step < steps; ++step) {
      HWY_DYNAMIC_DISPATCH(pack_row_step)
      (a.step(row, step), &rows.steps[row * steps + step], &rows.nan[row]);
    }
  }
  return rows;
}

/// Columns past the last count as zero codes.
void pack_panel(const Operand& b, size_t first, uint32_t steps, PanelStep* panel, uint32_t* nan) {
  alignas(64) uint32_t transposed[kStepGroups][kPanelColumns] = {};
  const size_t columns = std::min<size_t>(kPanelColumns, b.count - first);
  std::fill_n(nan, kPanelColumns, 0u);
  for (size_t step = 0; step < steps; ++step) {
    for (size_t column = 0; column < columns; ++column) {
      const uint8_t* codes = b.step(first + column, step);
      for (size_t group = 0; group < kStepGroups; ++group) {
        std::memcpy(&transposed[group][column], codes + group * kGroupCodes, kGroupCodes);
      }
    }
    HWY_DYNAMIC_DISPATCH(pack_panel_step)(&transposed[0][0], &panel[step], nan);
  }
}

void multiply(const Operand& a, const Operand& b, uint32_t steps, bool from_acc, float* acc) {
  const PackedRows rows = pack_rows(a, steps);
  const auto panel = hwy::AllocateAligned<PanelStep>(std::max<size_t>(steps, 1));
  MOETWIN_CHECK(panel != nullptr);
  alignas(64) uint32_t panel_nan[kPanelColumns];
  std::vector<float> ragged;
  for (size_t first = 0; first < b.count; first += kPanelColumns) {
    pack_panel(b, first, steps, panel.get(), panel_nan);
    PanelJob job{rows.steps.get(), rows.nan.data(), a.count, panel.get(), panel_nan, steps,
                 from_acc,         acc + first,     b.count};
    const size_t columns = std::min<size_t>(kPanelColumns, b.count - first);
    if (columns < kPanelColumns) {
      ragged.resize(size_t{a.count} * kPanelColumns);
      for (size_t row = 0; from_acc && row < a.count; ++row) {
        std::copy_n(acc + row * b.count + first, columns, &ragged[row * kPanelColumns]);
      }
      job.acc = ragged.data();
      job.acc_pitch = kPanelColumns;
    }
    {
      const RoundDownward scope;
      HWY_DYNAMIC_DISPATCH(multiply_panel)(job);
    }
    for (size_t row = 0; columns < kPanelColumns && row < a.count; ++row) {
      std::copy_n(&ragged[row * kPanelColumns], columns, acc + row * b.count + first);
    }
  }
}

/// Whether the lanes can start a chain from this value.
bool starts_in_lanes(float value) {
  const float size = magnitude(value);
  return size == 0 || (size >= kSmallestStart && size <= kLargestStart);
}

}  // namespace

void tile_steps(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b, size_t b_pitch,
                uint32_t n, uint32_t steps, float* acc) {
  multiply({a, a_pitch, rows}, {b, b_pitch, n}, steps, false, acc);
}

void tile_steps_from(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b,
                     size_t b_pitch, uint32_t n, uint32_t steps, float* acc) {
  const Operand a_operand{a, a_pitch, rows};
  const Operand b_operand{b, b_pitch, n};
  if (steps == 0) return;
  std::vector<std::pair<size_t, float>> by_definition;
  for (size_t at = 0; at < size_t{rows} * n; ++at) {
    if (starts_in_lanes(acc[at])) continue;
    float value = acc[at];
    for (size_t step = 0; step < steps; ++step) {
      value = tensor_core_step(a_operand.step(at / n, step), b_operand.step(at % n, step), value);
    }
    by_definition.emplace_back(at, value);
    acc[at] = 0;
  }
  multiply(a_operand, b_operand, steps, true, acc);
  for (const auto& [at, value] : by_definition) acc[at] = value;
}

void promote_tile(const float* acc, uint32_t rows, uint32_t n, const TileScales& scales,
                  float* final, size_t final_pitch) {
  for (size_t row = 0; row < rows; ++row) {
    HWY_DYNAMIC_DISPATCH(promote_row)
    (acc + row * n, n, scales.row[row * scales.row_stride], scales.column,
     final + row * final_pitch);
  }
}

}  // namespace moetwin
#endif  // HWY_ONCE
