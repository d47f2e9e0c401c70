#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/number_formats.h"

namespace moetwin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A code's value from the format's definition, in double.
double e4m3_value(uint32_t code) {
  const int exponent = static_cast<int>((code >> 3) & 0xF);
  const double mantissa = static_cast<double>(code & 7) / 8;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, exponent - 7);
  return (code & 0x80) != 0 ? -size : size;
}

/// The nearest code by looking at all of them; of two that are as near, the even one.
uint8_t nearest_e4m3(float value) {
  if (std::isnan(value)) return 0x7F;
  const double size = std::fabs(static_cast<double>(value));
  uint32_t best = 0;
  for (uint32_t code = 1; code <= 0x7E; ++code) {
    const double distance = std::fabs(e4m3_value(code) - size);
    const double best_distance = std::fabs(e4m3_value(best) - size);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = code;
  }
  if (std::isinf(value)) best = 0x7E;
  return static_cast<uint8_t>(best | (std::signbit(value) ? 0x80 : 0));
}

float next_up(float value) { return std::nextafter(value, kInfinity); }
float next_down(float value) { return std::nextafter(value, -kInfinity); }

TEST_CASE("number_formats: every E4M3 code decodes to its value and encodes back to itself") {
  for (uint32_t code = 0; code < 256; ++code) {
    CAPTURE(code);
    const float value = decode_e4m3(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      CHECK(is_e4m3_nan(static_cast<uint8_t>(code)));
      CHECK(bits_of_float(value) == kHardwareNanBits);
      CHECK(encode_e4m3(value) == 0x7F);
      continue;
    }
    CHECK(!is_e4m3_nan(static_cast<uint8_t>(code)));
    CHECK(static_cast<double>(value) == e4m3_value(code));
    CHECK(std::signbit(value) == (code >= 0x80));
    CHECK(encode_e4m3(value) == code);
  }
}

TEST_CASE("number_formats: E4M3 rounds to even at every boundary and to the near side beside it") {
  for (uint32_t code = 0; code < 0x7E; ++code) {
    CAPTURE(code);
    const float tie = static_cast<float>((e4m3_value(code) + e4m3_value(code + 1)) / 2);
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    CHECK(encode_e4m3(tie) == even);
    CHECK(encode_e4m3(next_down(tie)) == code);
    CHECK(encode_e4m3(next_up(tie)) == code + 1);
    CHECK(encode_e4m3(-tie) == (even | 0x80));
    CHECK(encode_e4m3(-next_down(tie)) == (code | 0x80));
    CHECK(encode_e4m3(-next_up(tie)) == ((code + 1) | 0x80));
    const float exact = decode_e4m3(static_cast<uint8_t>(code));
    CHECK(encode_e4m3(next_up(exact)) == code);
    if (code > 0) CHECK(encode_e4m3(next_down(exact)) == code);
  }
}

TEST_CASE("number_formats: E4M3 saturates from the tie above 448 on, infinity included") {
  for (const float value : {448.0f, next_down(464.0f), 464.0f, next_up(464.0f), 480.0f, 1e30f,
                            std::numeric_limits<float>::max(), kInfinity}) {
    CAPTURE(value);
    CHECK(encode_e4m3(value) == 0x7E);
    CHECK(encode_e4m3(-value) == 0xFE);
  }
  for (const uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu, 0xFFC00000u, 0xFFFFFFFFu}) {
    CHECK(encode_e4m3(float_of_bits(bits)) == 0x7F);
  }
}

TEST_CASE("number_formats: E4M3 agrees with the nearest of all codes over every exponent") {
  // A prime stride: about 65 thousand floats of every exponent, both signs and NaN.
  uint64_t wrong = 0;
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFu; bits += 65537) {
    const float value = float_of_bits(static_cast<uint32_t>(bits));
    if (encode_e4m3(value) != nearest_e4m3(value)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("number_formats: a pair of E4M3 codes has the first value in the low byte") {
  CHECK(encode_e4m3x2(1.0f, -2.0f) == 0xC038);
}

TEST_CASE("number_formats: every BF16 code but a NaN encodes back to itself") {
  uint32_t wrong = 0;
  for (uint32_t code = 0; code < 65536; ++code) {
    const float value = decode_bf16(static_cast<uint16_t>(code));
    const uint32_t expected = std::isnan(value) ? 0x7FFF : code;
    if (bits_of_float(value) != code << 16 || encode_bf16(value) != expected) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("number_formats: BF16 rounds to even at every boundary and to the near side beside it") {
  uint32_t wrong = 0;
  for (uint32_t code = 0; code < 0x7F80; ++code) {
    // The tie above the largest finite code leads to infinity, which is the next code.
    const uint32_t tie = code << 16 | 0x8000;
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    for (const uint32_t sign : {0u, 0x8000u}) {
      const uint32_t float_sign = sign << 16;
      if (encode_bf16(float_of_bits(float_sign | tie)) != (sign | even)) ++wrong;
      if (encode_bf16(float_of_bits(float_sign | (tie - 1))) != (sign | code)) ++wrong;
      if (encode_bf16(float_of_bits(float_sign | (tie + 1))) != (sign | (code + 1))) ++wrong;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("number_formats: every NaN becomes the BF16 code 0x7FFF") {
  for (const uint32_t bits : {0x7F800001u, 0x7F80FFFFu, 0x7FC00000u, 0x7FFFFFFFu, 0xFF800001u,
                              0xFFC00000u, 0xFFFFFFFFu}) {
    CHECK(encode_bf16(float_of_bits(bits)) == 0x7FFF);
  }
  CHECK(encode_bf16(kInfinity) == 0x7F80);
  CHECK(encode_bf16(-kInfinity) == 0xFF80);
  CHECK(encode_bf16(std::numeric_limits<float>::max()) == 0x7F80);
}

}  // namespace
}  // namespace moetwin
