// Binary32 operations with the same bits on every machine: the IEEE ones, each rounded once to
// nearest even with subnormals kept, and the two approximations of the special function unit
// (NUMERICS 2c, 2d). Host code that includes this is compiled with -ffp-contract=off. The sign and
// payload of a NaN that an IEEE operation makes differ between machines; the encoders hide them.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "common/mufu_tables.h"
#include "common/number_formats.h"

namespace moetwin {

MOETWIN_HD float add_rn(float a, float b) {
#if MOETWIN_DEVICE_CODE
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

MOETWIN_HD float mul_rn(float a, float b) {
#if MOETWIN_DEVICE_CODE
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

MOETWIN_HD float div_rn(float a, float b) {
#if MOETWIN_DEVICE_CODE
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

namespace detail {
/// a * b + c rounded once, without an FMA instruction. The product of two floats is exact in
/// double; the sum is rounded to odd in double, which makes the last rounding to float the only one
/// that counts (53 >= 24 + 2 bits). No step can overflow or underflow in double.
inline float fma_by_round_to_odd(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  const double sum = product + addend;
  const double addend_part = sum - product;
  const double error = (product - (sum - addend_part)) + (addend - addend_part);
  // An infinite or NaN sum has a NaN error, which fails both comparisons.
  const bool inexact = error < 0 || error > 0;
  const bool outward = (error > 0) == (sum > 0);
  uint64_t bits = __builtin_bit_cast(uint64_t, sum);
  if (inexact && (bits & 1) == 0) bits = outward ? bits + 1 : bits - 1;
  return static_cast<float>(__builtin_bit_cast(double, bits));
}
}  // namespace detail

/// a * b + c, rounded once.
MOETWIN_HD float fma_rn(float a, float b, float c) {
#if MOETWIN_DEVICE_CODE
  return __fmaf_rn(a, b, c);
#else
  return detail::fma_by_round_to_odd(a, b, c);
#endif
}

namespace detail {
/// The special function unit's squarer of a 17-bit number: about x^2 / 2^19. Partial products are
/// cut before they are summed, so it is no exact square.
constexpr uint64_t mufu_square(uint64_t x) {
  uint64_t sum = 0;
  for (int i = 0; i < 17; ++i) sum += ((x >> i) & 1) * (x >> (18 - i));
  return sum >> 1;
}

/// The quadratic of one segment, in units of 2^-15 of the result's last mantissa bit. `square` is
/// mufu_square of the argument's scaled low bits; `rounding` is the constant measured for the
/// function.
constexpr int64_t mufu_quadratic(const MufuSegment& segment, uint64_t low, uint64_t square,
                                 int64_t rounding) {
  return ((int64_t{segment.c0} << 13) + int64_t{segment.c1} * static_cast<int64_t>(low) +
          int64_t{segment.c2} * static_cast<int64_t>(square) + rounding) >>
         15;
}

/// rcp.approx.ftz.f32 in integers (NUMERICS 2c).
constexpr float rcp_approx_integer(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = bits & kFloatSignBit;
  const int32_t exponent = static_cast<int32_t>((bits >> 23) & 0xFF);
  if (is_nan_bits(bits)) return float_of_bits(kHardwareNanBits);
  if (exponent == 0) return float_of_bits(sign | kFloatInfinityBits);
  if (exponent == 255) return float_of_bits(sign);
  const uint32_t mantissa = bits & kFloatMantissaMask;
  const uint64_t low = mantissa & 0xFFFF;
  const int64_t unit_bits =
      0x3E800000 + mufu_quadratic(kRcpSegments[mantissa >> 16], low, mufu_square(2 * low), 0x47E7);
  const int64_t scaled = unit_bits - (int64_t{exponent - kFloatBias} << 23);
  if (scaled < (1 << 23)) return float_of_bits(sign);
  return float_of_bits(sign | static_cast<uint32_t>(scaled));
}

/// ex2.approx.ftz.f32 in integers (NUMERICS 2d).
constexpr float ex2_approx_integer(float value) {
  const uint32_t bits = bits_of_float(value);
  const bool negative = (bits & kFloatSignBit) != 0;
  const int32_t exponent = static_cast<int32_t>((bits >> 23) & 0xFF);
  if (is_nan_bits(bits)) return float_of_bits(kHardwareNanBits);
  if (exponent == 0) return 1.0f;
  if (exponent >= kFloatBias + 9) return float_of_bits(negative ? 0 : kFloatInfinityBits);
  // trunc(|x| * 2^23): the significand stands for 2^(exponent - 127 - 23).
  const int64_t significand = (bits & kFloatMantissaMask) | (1 << 23);
  const int32_t shift = exponent - kFloatBias;
  const int64_t fixed = shift >= 0 ? significand << shift : shift > -24 ? significand >> -shift : 0;
  const int64_t reduced = !negative ? fixed : (fixed & kFloatMantissaMask) != 0 ? ~fixed : -fixed;
  const int64_t power = reduced >> 23;
  const uint32_t fraction = static_cast<uint32_t>(reduced & kFloatMantissaMask);
  const uint64_t low = fraction & 0x1FFFF;
  const int64_t unit_bits =
      0x3F000000 + mufu_quadratic(kEx2Segments[fraction >> 17], low, mufu_square(low), 0x77E2);
  const int64_t scaled = unit_bits + (power << 23);
  if (scaled >= int64_t{kFloatInfinityBits}) return float_of_bits(kFloatInfinityBits);
  if (scaled < (1 << 23)) return 0.0f;
  return float_of_bits(static_cast<uint32_t>(scaled));
}
}  // namespace detail

/// 1/x as rcp.approx.ftz.f32 gives it.
MOETWIN_HD float rcp_approx(float value) {
#if MOETWIN_DEVICE_CODE
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
#else
  return detail::rcp_approx_integer(value);
#endif
}

/// 2^x as ex2.approx.ftz.f32 gives it.
MOETWIN_HD float ex2_approx(float value) {
#if MOETWIN_DEVICE_CODE
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
#else
  return detail::ex2_approx_integer(value);
#endif
}

}  // namespace moetwin
