#include "model/quantise.h"

#include "common/check.h"
#include "common/epilogue_math.h"
#include "common/shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "model/quantise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace moetwin {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kScaleBlock>;
using Ints = hn::Rebind<int32_t, Floats>;
using Codes = hn::Rebind<uint8_t, Floats>;

/// encode_e4m3 of common/number_formats.h in lanes.
HWY_INLINE hn::Vec<Codes> encode(hn::Vec<Floats> values) {
  const Floats df;
  const Ints di;
  const auto bits = hn::BitCast(di, values);
  const auto size = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  const auto odd = hn::And(hn::ShiftRight<20>(size), hn::Set(di, 1));
  const auto rounded = hn::Add(hn::Add(size, hn::Set(di, 0x7FFFF)), odd);
  const auto normal = hn::Sub(hn::ShiftRight<20>(rounded), hn::Set(di, 120 << 3));
  const auto shifted =
      hn::Add(hn::Mul(hn::BitCast(df, size), hn::Set(df, 512.0f)), hn::Set(df, 8388608.0f));
  const auto subnormal = hn::And(hn::BitCast(di, shifted), hn::Set(di, 0xF));
  const auto is_subnormal = hn::Lt(size, hn::Set(di, 0x3C800000));
  const auto finite =
      hn::Min(hn::IfThenElse(is_subnormal, subnormal, normal), hn::Set(di, int32_t{kE4m3MaxCode}));
  const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(di, 0x80));
  const auto is_nan = hn::Gt(size, hn::Set(di, 0x7F800000));
  const auto codes = hn::IfThenElse(is_nan, hn::Set(di, int32_t{kE4m3Nan}), hn::Or(finite, sign));
  return hn::DemoteTo(Codes(), codes);
}

/// The largest |x| of 128 elements and `amax`; takes no NaN.
float amax_of_128(const float* HWY_RESTRICT x, float amax) {
  const Floats d;
  auto largest = hn::Set(d, amax);
  for (size_t i = 0; i < kScaleBlock; i += hn::Lanes(d)) {
    const auto size = hn::Abs(hn::LoadU(d, x + i));
    largest = hn::IfThenElse(hn::Lt(largest, size), size, largest);
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

void encode_products(const float* HWY_RESTRICT x, float factor, uint8_t* HWY_RESTRICT codes) {
  const Floats d;
  for (size_t i = 0; i < kScaleBlock; i += hn::Lanes(d)) {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor));
    hn::StoreU(encode(scaled), Codes(), codes + i);
  }
}

void encode_quotients(const float* HWY_RESTRICT x, float divisor, uint8_t* HWY_RESTRICT codes) {
  const Floats d;
  for (size_t i = 0; i < kScaleBlock; i += hn::Lanes(d)) {
    const auto scaled = hn::Div(hn::LoadU(d, x + i), hn::Set(d, divisor));
    hn::StoreU(encode(scaled), Codes(), codes + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moetwin
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetwin {
namespace {

HWY_EXPORT(amax_of_128);
HWY_EXPORT(encode_products);
HWY_EXPORT(encode_quotients);

constexpr float kSmallestAmax = 1e-4f;

/// S0 and S1 share this: the smallest amax is what keeps the scale from zero.
float scale_of_amax(float amax) {
  return div_rn(amax < kSmallestAmax ? kSmallestAmax : amax, kE4m3Max);
}

}  // namespace

float quantise_activation_group(const float* x, uint8_t* codes) {
  const float scale = scale_of_amax(HWY_DYNAMIC_DISPATCH(amax_of_128)(x, 0.0f));
  HWY_DYNAMIC_DISPATCH(encode_products)(x, div_rn(1.0f, scale), codes);
  return scale;
}

void quantise_activations(const float* x, uint64_t tokens, uint32_t hidden, uint8_t* codes,
                          float* scales) {
  MOETWIN_CHECK(hidden % kScaleBlock == 0);
  const uint64_t groups = tokens * (hidden / kScaleBlock);
  for (uint64_t group = 0; group < groups; ++group) {
    const uint64_t at = group * kScaleBlock;
    scales[group] = quantise_activation_group(x + at, codes + at);
  }
}

float quantise_weight_block(const float* w, size_t w_pitch, uint8_t* codes, size_t codes_pitch) {
  float amax = 0.0f;
  for (size_t row = 0; row < kScaleBlock; ++row) {
    amax = HWY_DYNAMIC_DISPATCH(amax_of_128)(w + row * w_pitch, amax);
  }
  const float scale = scale_of_amax(amax);
  for (size_t row = 0; row < kScaleBlock; ++row) {
    HWY_DYNAMIC_DISPATCH(encode_quotients)(w + row * w_pitch, scale, codes + row * codes_pitch);
  }
  return scale;
}

void quantise_weights(const float* w, uint32_t rows, uint32_t columns, uint8_t* codes,
                      float* scales) {
  MOETWIN_CHECK(rows % kScaleBlock == 0 && columns % kScaleBlock == 0);
  for (uint64_t row = 0; row < rows; row += kScaleBlock) {
    for (uint64_t column = 0; column < columns; column += kScaleBlock) {
      const uint64_t at = row * columns + column;
      *scales++ = quantise_weight_block(w + at, columns, codes + at, columns);
    }
  }
}

}  // namespace moetwin
#endif  // HWY_ONCE
