// The lanes of tensor_core_packed.h in Highway, one copy an instruction set, chosen at run time.
#include <cstring>

#include "common/epilogue_math.h"
#include "model/tensor_core_packed.h"

#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/tensor_core_lanes.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moetwin::tensor_core {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

void pack_row_in_lanes(const uint8_t* codes, RowStep* step, uint32_t* nan) {
  plain::pack_row_step(codes, *step, *nan);
}
void pack_panel_in_lanes(const uint32_t* transposed, PanelStep* step, uint32_t* nan) {
  plain::pack_panel_step(transposed, *step, nan);
}
void multiply_in_lanes(const PanelJob& job) { plain::multiply_panel(job); }
void promote_in_lanes(const float* acc, uint32_t n, float row_scale, const float* column_scales,
                      float* final) {
  plain::promote_row(acc, n, row_scale, column_scales, final);
}

#else

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
void pack_panel_in_lanes(const uint32_t* HWY_RESTRICT transposed, PanelStep* HWY_RESTRICT step,
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
#pragma GCC unroll 2
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
#pragma GCC unroll 4
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

void multiply_in_lanes(const PanelJob& job) {
  for (size_t lane = 0; lane < kPanelColumns; lane += hn::Lanes(Floats())) {
    size_t row = 0;
    for (; row + 4 <= job.rows; row += 4) multiply_rows<4>(job, row, lane);
    for (; row + 2 <= job.rows; row += 2) multiply_rows<2>(job, row, lane);
    for (; row < job.rows; ++row) multiply_rows<1>(job, row, lane);
  }
}

/// Packs 32 codes of a row; sets bits of `nan` if one of them is a NaN.
void pack_row_in_lanes(const uint8_t* HWY_RESTRICT codes, RowStep* HWY_RESTRICT step,
                       uint32_t* HWY_RESTRICT nan) {
  const Floats df;
  const Words d;
  const hn::Rebind<uint8_t, Floats> d_codes;
  const FloatVec stretch = hn::Set(df, kStretch);
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

void promote_in_lanes(const float* HWY_RESTRICT acc, uint32_t n, float row_scale,
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

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moetwin::tensor_core
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetwin::tensor_core {

HWY_EXPORT(pack_row_in_lanes);
HWY_EXPORT(pack_panel_in_lanes);
HWY_EXPORT(multiply_in_lanes);
HWY_EXPORT(promote_in_lanes);

void pack_row_step(const uint8_t* codes, RowStep& step, uint32_t& nan) {
  HWY_DYNAMIC_DISPATCH(pack_row_in_lanes)(codes, &step, &nan);
}

void pack_panel_step(const uint32_t* transposed, PanelStep& step, uint32_t* nan) {
  HWY_DYNAMIC_DISPATCH(pack_panel_in_lanes)(transposed, &step, nan);
}

void multiply_panel(const PanelJob& job) { HWY_DYNAMIC_DISPATCH(multiply_in_lanes)(job); }

void promote_row(const float* acc, uint32_t n, float row_scale, const float* column_scales,
                 float* final) {
  HWY_DYNAMIC_DISPATCH(promote_in_lanes)(acc, n, row_scale, column_scales, final);
}

}  // namespace moetwin::tensor_core
#endif  // HWY_ONCE
