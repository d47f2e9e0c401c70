#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/float_ops.h"
#include "tests/paths.h"

namespace moetwin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool same(float a, float b) {
  return bits_of_float(a) == bits_of_float(b) || (std::isnan(a) && std::isnan(b));
}

/// Distance in units in the last place of two positive finite floats.
int64_t ulps_between(float a, float b) {
  return std::abs(int64_t{bits_of_float(a)} - int64_t{bits_of_float(b)});
}

TEST_CASE("float_ops: fma agrees with the library's on random bits of every exponent") {
  std::mt19937_64 random(11);
  uint64_t wrong = 0;
  for (int i = 0; i < 1000000; ++i) {
    const float a = float_of_bits(static_cast<uint32_t>(random()));
    const float b = float_of_bits(static_cast<uint32_t>(random()));
    const float c = float_of_bits(static_cast<uint32_t>(random()));
    if (!same(fma_rn(a, b, c), std::fma(a, b, c))) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("float_ops: fma rounds once where the sum lies on or beside a tie of binary32") {
  // An odd product of 25 bits is a tie; the addend lies 20 to 80 binades below it, for the most
  // part out of double's sight.
  std::mt19937_64 random(12);
  uint64_t wrong = 0;
  uint64_t rounded_twice_differs = 0;
  for (int i = 0; i < 1000000; ++i) {
    const auto below = [&](uint64_t limit) { return static_cast<uint32_t>(random() % limit); };
    const int exponent = static_cast<int>(below(60)) - 30;
    const float a = std::ldexp(static_cast<float>(below(1 << 13) | (1 << 12) | 1), exponent);
    const float b = static_cast<float>(below(1 << 12) | (1 << 11) | 1);
    const int lower = exponent + 25 - 20 - static_cast<int>(below(60));
    const float c = std::ldexp(below(2) == 0 ? 1.0f : -1.0f, lower);
    const float expected = std::fma(a, b, c);
    if (!same(fma_rn(a, b, c), expected)) ++wrong;
    const double sum = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
    if (!same(static_cast<float>(sum), expected)) ++rounded_twice_differs;
  }
  CHECK(wrong == 0);
  CHECK(rounded_twice_differs > 10000);
}

TEST_CASE("float_ops: fma keeps subnormals, signed zeros, infinities and NaN") {
  const float tiny = float_of_bits(1);
  const std::vector<float> values = {
      0.0f,       -0.0f, tiny,   -tiny,     0x1p-126f,  1.0f,          -1.0f,    1.5f,
      0x1.8p-75f, 3e38f, -3e38f, kInfinity, -kInfinity, std::nanf(""), 0x1p-74f, 0x1.fffffep127f};
  for (const float a : values) {
    for (const float b : values) {
      for (const float c : values) {
        CAPTURE(a);
        CAPTURE(b);
        CAPTURE(c);
        CHECK(same(fma_rn(a, b, c), std::fma(a, b, c)));
      }
    }
  }
}

TEST_CASE("float_ops: a product and a sum are rounded apart, not contracted") {
  // 1 + 2^-12 squared is 1 + 2^-11 + 2^-24: the last bit is a tie that rounding drops.
  const float a = 1.0f + 0x1p-12f;
  CHECK(add_rn(mul_rn(a, a), -1.0f) == 0x1p-11f);
  CHECK(fma_rn(a, a, -1.0f) == 0x1p-11f + 0x1p-24f);
  CHECK(bits_of_float(div_rn(1.0f, 448.0f)) == 0x3B124925u);
}

/// Rows of a coefficient file: segment, C0, C1, C2.
std::vector<MufuSegment> read_segments(const std::string& name) {
  std::ifstream file(test_data(name));
  std::string line;
  std::getline(file, line);
  CHECK(line == "segment,C0,C1,C2");
  std::vector<MufuSegment> segments;
  size_t index = 0;
  char comma = 0;
  MufuSegment segment{};
  while (file >> index >> comma >> segment.c0 >> comma >> segment.c1 >> comma >> segment.c2) {
    CHECK(index == segments.size());
    segments.push_back(segment);
  }
  return segments;
}

template <size_t kCount>
void check_segments(const MufuSegment (&table)[kCount], const std::string& name) {
  const std::vector<MufuSegment> measured = read_segments(name);
  REQUIRE(measured.size() == kCount);
  for (size_t i = 0; i < kCount; ++i) {
    CAPTURE(i);
    CHECK(table[i].c0 == measured[i].c0);
    CHECK(table[i].c1 == measured[i].c1);
    CHECK(table[i].c2 == measured[i].c2);
  }
}

TEST_CASE("float_ops: the special function tables are the measured ones") {
  check_segments(kEx2Segments, "mufu_ex2.csv");
  check_segments(kRcpSegments, "mufu_rcp.csv");
}

TEST_CASE("float_ops: rcp is within one unit of 1/x over all mantissas and not always nearest") {
  int64_t worst = 0;
  uint64_t not_nearest = 0;
  for (uint32_t mantissa = 0; mantissa < (1u << 23); ++mantissa) {
    const float x = float_of_bits(0x3F800000 | mantissa);
    const int64_t ulps = ulps_between(rcp_approx(x), 1.0f / x);
    worst = std::max(worst, ulps);
    not_nearest += ulps != 0;
  }
  CHECK(worst == 1);
  CHECK(not_nearest > 100000);
  CHECK(not_nearest < (1u << 22));
}

TEST_CASE("float_ops: rcp scales exactly over every exponent, flushes and has the edges of ftz") {
  for (const uint32_t mantissa : {0u, 1u, 0x12345u, 0x400000u, 0x7FFFFFu}) {
    const float unit = rcp_approx(float_of_bits(0x3F800000 | mantissa));
    for (uint32_t field = 1; field < 255; ++field) {
      const float x = float_of_bits(field << 23 | mantissa);
      const double scaled = std::ldexp(static_cast<double>(unit), 127 - static_cast<int>(field));
      const float expected = scaled < 0x1p-126 ? 0.0f : static_cast<float>(scaled);
      CAPTURE(field);
      CAPTURE(mantissa);
      CHECK(bits_of_float(rcp_approx(x)) == bits_of_float(expected));
      CHECK(bits_of_float(rcp_approx(-x)) == bits_of_float(-expected));
    }
  }
  CHECK(rcp_approx(1.0f) == 1.0f);
  CHECK(rcp_approx(0.0f) == kInfinity);
  CHECK(rcp_approx(-0.0f) == -kInfinity);
  CHECK(rcp_approx(float_of_bits(0x007FFFFF)) == kInfinity);
  CHECK(rcp_approx(float_of_bits(0x80000001)) == -kInfinity);
  CHECK(bits_of_float(rcp_approx(kInfinity)) == 0);
  CHECK(bits_of_float(rcp_approx(-kInfinity)) == kFloatSignBit);
  CHECK(bits_of_float(rcp_approx(-std::nanf("1"))) == kHardwareNanBits);
}

TEST_CASE("float_ops: ex2 is within two units of 2^x over all fractions and not always nearest") {
  int64_t worst = 0;
  uint64_t not_nearest = 0;
  for (uint32_t i = 0; i < (1u << 23); i += 3) {
    const float x = static_cast<float>(i) * 0x1p-23f;
    const int64_t ulps = ulps_between(ex2_approx(x), static_cast<float>(std::exp2(double{x})));
    worst = std::max(worst, ulps);
    not_nearest += ulps != 0;
  }
  CHECK(worst <= 2);
  CHECK(worst >= 1);
  CHECK(not_nearest > 100000);
}

TEST_CASE("float_ops: ex2 reduces its argument by cutting it to 2^-23, downward for x < 0") {
  for (int power = -126; power <= 127; ++power) {
    CHECK(ex2_approx(static_cast<float>(power)) == std::ldexp(1.0f, power));
  }
  // A positive argument's bits below 2^-23 are cut away.
  CHECK(ex2_approx(2.0f - 0x1p-23f) == ex2_approx(std::nextafter(2.0f, 0.0f)));
  CHECK(ex2_approx(0.1f) == ex2_approx(std::floor(0.1f * 0x1p23f) * 0x1p-23f));
  // For x < 0 with a fraction t the argument becomes -t - 1 in units of 2^-23, else -t.
  CHECK(ex2_approx(-0.3f) == ex2_approx(-std::floor(0.3f * 0x1p23f) * 0x1p-23f));
  const float fraction = static_cast<float>((1 << 23) - 5 - 1) * 0x1p-23f;
  CHECK(ex2_approx(-5 * 0x1p-23f) == ex2_approx(fraction) / 2);
  CHECK(ex2_approx(-3.0f) == 0.125f);
  // Below 2^-23 nothing is left of the argument.
  CHECK(ex2_approx(0x1.fp-24f) == 1.0f);
  CHECK(ex2_approx(-0x1.fp-24f) == 1.0f);
}

TEST_CASE("float_ops: ex2 overflows to infinity, flushes below 2^-126 and reads subnormals as 0") {
  CHECK(ex2_approx(128.0f) == kInfinity);
  CHECK(ex2_approx(std::nextafter(128.0f, 0.0f)) < kInfinity);
  CHECK(ex2_approx(-126.0f) == 0x1p-126f);
  CHECK(bits_of_float(ex2_approx(std::nextafter(-126.0f, -200.0f))) == 0);
  for (const float x : {511.9f, 512.0f, 1e30f, kInfinity}) {
    CHECK(ex2_approx(x) == kInfinity);
    CHECK(bits_of_float(ex2_approx(-x)) == 0);
  }
  CHECK(ex2_approx(0.0f) == 1.0f);
  CHECK(ex2_approx(-0.0f) == 1.0f);
  CHECK(ex2_approx(float_of_bits(0x007FFFFF)) == 1.0f);
  CHECK(ex2_approx(float_of_bits(0x807FFFFF)) == 1.0f);
  CHECK(bits_of_float(ex2_approx(-std::nanf("1"))) == kHardwareNanBits);
}

/// Folds the results for 2^23 arguments of consecutive bits into one word.
template <class Operation>
uint64_t digest_of_binade(uint32_t first_bits, const Operation& operation) {
  uint64_t digest = 0;
  for (uint32_t i = 0; i < (1u << 23); ++i) {
    const float result = operation(float_of_bits(first_bits + i));
    digest = digest * 6364136223846793005u + bits_of_float(result);
  }
  return digest;
}

TEST_CASE("float_ops: rcp and ex2 give the bits that an H200 gave over whole binades") {
  // Digests of rcp.approx.ftz.f32 and ex2.approx.ftz.f32 as run on an H200 (CUDA 13.0.88). The same
  // run compared all 2^32 arguments of both, and of the E4M3 and BF16 encoders: 0 differences.
  const auto rcp = [](float x) { return rcp_approx(x); };
  const auto ex2 = [](float x) { return ex2_approx(x); };
  CHECK(digest_of_binade(0x3F800000, rcp) == 0x365F0A699424DDF9);  // [1, 2)
  CHECK(digest_of_binade(0x7E000000, rcp) == 0xCA0F4A699424DDF9);  // [2^125, 2^126)
  CHECK(digest_of_binade(0x3F800000, ex2) == 0x60FC6548767027A6);  // [1, 2)
  CHECK(digest_of_binade(0xBF800000, ex2) == 0x54EB36C13913A953);  // (-2, -1]
  CHECK(digest_of_binade(0x42000000, ex2) == 0x9B582C62DB716B20);  // [32, 64)
  CHECK(digest_of_binade(0xC2800000, ex2) == 0xB08352B5492B7CA0);  // (-128, -64]
}

}  // namespace
}  // namespace moetwin
