// Number formats that only variants use: E5M2, FP16 and E2M1, all rounded to nearest even, and
// values rounded to BF16 and FP16 that stay binary32. E4M3 and BF16 codes are the contract's
// (common/number_formats.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/number_formats.h"
#include "model/numerics/variant.h"

namespace moetwin::numerics {

/// E5M2: bias 15, two mantissa bits: the upper byte of an FP16.
constexpr float kE5m2Max = 57344.0f;
constexpr uint8_t kE5m2Nan = 0x7F;
constexpr float kFp16Max = 65504.0f;
constexpr float kE2m1Max = 6.0f;

/// A format by its smallest normal exponent and its fraction bits.
struct FloatFormat {
  int32_t smallest_exponent;
  int32_t fraction_bits;
};
constexpr FloatFormat kFp16Format = {-14, 10};
constexpr FloatFormat kE5m2Format = {-14, 2};
constexpr FloatFormat kE2m1Format = {0, 1};

/// The nearest value of a format without an upper end. NaN and infinity stay.
inline float round_to_format(float value, FloatFormat format) {
  const uint32_t bits = bits_of_float(value);
  const int32_t field = static_cast<int32_t>((bits >> kFloatMantissaBits) & 0xFF);
  if (field == 0xFF) return value;
  // No format here comes near 2^64: such a value saturates whatever its last bits are.
  if (field > kFloatBias + 64) return value;
  const int32_t exponent = std::max(field - kFloatBias, format.smallest_exponent);
  // 1.5 * 2^23 units: the addition rounds the value to a multiple of the unit.
  const int32_t unit = exponent - format.fraction_bits;
  const float shift =
      float_of_bits((static_cast<uint32_t>(unit + 23 + kFloatBias) << 23) | 0x400000u);
  const float sum = magnitude(value) + shift;
  const float rounded = sum - shift;
  return float_of_bits(bits_of_float(rounded) | (bits & kFloatSignBit));
}

/// cvt.rn.bf16.f32 and back.
inline float round_to_bf16(float value) { return decode_bf16(encode_bf16(value)); }

/// RN to FP16; 65520 and more become infinity.
inline float round_to_fp16(float value) {
  const float rounded = round_to_format(value, kFp16Format);
  if (!(magnitude(rounded) > kFp16Max)) return rounded;
  return float_of_bits((bits_of_float(value) & kFloatSignBit) | kFloatInfinityBits);
}

/// RN to E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6); larger magnitudes give 6. NaN stays.
inline float round_to_e2m1(float value) {
  const float rounded = round_to_format(value, kE2m1Format);
  if (!(magnitude(rounded) > kE2m1Max)) return rounded;
  return value < 0 ? -kE2m1Max : kE2m1Max;
}

/// cvt.rn.satfinite.e5m2x2.f32: larger magnitudes and infinity give +-57344, NaN gives 0x7F.
inline uint8_t encode_e5m2(float value) {
  const uint32_t bits = bits_of_float(value);
  if (is_nan_bits(bits)) return kE5m2Nan;
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const float size = std::min(magnitude(round_to_format(value, kE5m2Format)), kE5m2Max);
  if (size < 0x1p-14f) return static_cast<uint8_t>(sign | static_cast<uint8_t>(size * 0x1p16f));
  return static_cast<uint8_t>(sign | ((bits_of_float(size) >> 21) - (112u << 2)));
}

constexpr float decode_e5m2(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t exponent = (code >> 2) & 0x1F;
  const uint32_t mantissa = code & 3;
  if (exponent == 0x1F) {
    return float_of_bits(mantissa != 0 ? kHardwareNanBits : sign | kFloatInfinityBits);
  }
  if (exponent == 0) {
    return float_of_bits(sign | bits_of_float(static_cast<float>(mantissa) * 0x1p-16f));
  }
  return float_of_bits(sign | ((exponent + 112) << 23) | (mantissa << 21));
}

inline uint8_t encode_code(CodeFormat format, float value) {
  return format == CodeFormat::E4m3 ? encode_e4m3(value) : encode_e5m2(value);
}

constexpr float largest_value(CodeFormat format) {
  return format == CodeFormat::E4m3 ? kE4m3Max : kE5m2Max;
}

/// Values of all codes of a format.
using CodeValues = std::array<float, 256>;
inline const CodeValues& code_values(CodeFormat format) {
  const auto table = [](auto decode) {
    CodeValues values{};
    for (uint32_t code = 0; code < 256; ++code) values[code] = decode(static_cast<uint8_t>(code));
    return values;
  };
  static const CodeValues kE4m3 = table([](uint8_t code) { return decode_e4m3(code); });
  static const CodeValues kE5m2 = table([](uint8_t code) { return decode_e5m2(code); });
  return format == CodeFormat::E4m3 ? kE4m3 : kE5m2;
}

}  // namespace moetwin::numerics
