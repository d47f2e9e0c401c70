// The number formats of the layer: E4M3 and BF16 codes to and from binary32, and the bits of a
// float. Every encoder rounds to nearest even and writes one fixed NaN (NUMERICS 2b and section 1).
// On the device the encoders are the conversion instructions; the integer code here is what those
// instructions compute, for all 2^32 inputs.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace moetwin {

/// E4M3: bias 7, three mantissa bits, no infinity, NaN is 0x7F or 0xFF.
constexpr uint8_t kE4m3Nan = 0x7F;
constexpr uint8_t kE4m3MaxCode = 0x7E;
constexpr float kE4m3Max = 448.0f;
constexpr uint16_t kBf16Nan = 0x7FFF;
/// The NaN that the tensor core, ex2 and rcp give (NUMERICS section 2).
constexpr uint32_t kHardwareNanBits = 0x7FFFFFFFu;

constexpr uint32_t kFloatSignBit = 0x80000000u;
constexpr uint32_t kFloatInfinityBits = 0x7F800000u;
constexpr uint32_t kFloatMantissaMask = 0x007FFFFFu;
constexpr int32_t kFloatMantissaBits = 23;
constexpr int32_t kFloatBias = 127;

MOETWIN_HD constexpr uint32_t bits_of_float(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
MOETWIN_HD constexpr float float_of_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

MOETWIN_HD constexpr bool is_nan_bits(uint32_t bits) {
  return (bits & ~kFloatSignBit) > kFloatInfinityBits;
}
MOETWIN_HD constexpr float magnitude(float value) {
  return float_of_bits(bits_of_float(value) & ~kFloatSignBit);
}

MOETWIN_HD constexpr bool is_e4m3_nan(uint8_t code) { return (code & 0x7F) == kE4m3Nan; }

namespace detail {
/// NUMERICS 2b in integers; the definition for the host and for tests.
MOETWIN_HD constexpr uint8_t encode_e4m3_integer(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = (bits >> 24) & 0x80;
  const uint32_t abs = bits & ~kFloatSignBit;
  constexpr uint32_t kSmallestNormal = 0x3C800000;  // 2^-6
  constexpr uint32_t kSaturates = 0x43E80000;       // 464, the tie between 448 and the absent 480
  if (abs > kFloatInfinityBits) return kE4m3Nan;
  if (abs >= kSaturates) return static_cast<uint8_t>(sign | kE4m3MaxCode);
  if (abs < kSmallestNormal) {
    // Times 512 is exact; in [2^23, 2^24) a float's unit is 1, so the addition is the rint.
    const float shifted = float_of_bits(abs) * 512.0f + 8388608.0f;
    return static_cast<uint8_t>(sign | (bits_of_float(shifted) & 0xF));
  }
  const uint32_t rounded = abs + 0x7FFFF + ((abs >> 20) & 1);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

/// Round to nearest even; NaN becomes 0x7FFF whatever its sign and payload.
MOETWIN_HD constexpr uint16_t encode_bf16_integer(float value) {
  const uint32_t bits = bits_of_float(value);
  if (is_nan_bits(bits)) return kBf16Nan;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
}  // namespace detail

/// cvt.rn.satfinite.e4m3x2.f32 (NUMERICS 2b): |x| >= 464 and infinity give +-448, NaN gives 0x7F.
MOETWIN_HD uint8_t encode_e4m3(float value) {
#if MOETWIN_DEVICE_CODE
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
  return static_cast<uint8_t>(pair);
#else
  return detail::encode_e4m3_integer(value);
#endif
}

/// Two codes at once, `low` in the low byte: one instruction on the device.
MOETWIN_HD uint16_t encode_e4m3x2(float low, float high) {
#if MOETWIN_DEVICE_CODE
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return static_cast<uint16_t>(encode_e4m3(low) | (encode_e4m3(high) << 8));
#endif
}

/// Exact. A NaN code of either sign becomes the hardware's NaN.
MOETWIN_HD constexpr float decode_e4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t exponent = (code >> 3) & 0xF;
  const uint32_t mantissa = code & 7;
  if (is_e4m3_nan(code)) return float_of_bits(kHardwareNanBits);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0.001953125f;  // 2^-9
    return float_of_bits(sign | bits_of_float(value));
  }
  return float_of_bits(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

/// cvt.rn.bf16.f32: round to nearest even, overflow to infinity, NaN to 0x7FFF (NUMERICS S10).
MOETWIN_HD uint16_t encode_bf16(float value) {
#if MOETWIN_DEVICE_CODE
  uint16_t code;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return code;
#else
  return detail::encode_bf16_integer(value);
#endif
}

/// Exact, payload and sign of a NaN included.
MOETWIN_HD constexpr float decode_bf16(uint16_t code) {
  return float_of_bits(static_cast<uint32_t>(code) << 16);
}

}  // namespace moetwin
