#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/epilogue_math.h"

namespace moetwin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

bool same_bits(float a, float b) { return bits_of_float(a) == bits_of_float(b); }

TEST_CASE("epilogue_math: promotion rounds the scales' product and then once more") {
  const float scale_a = 1.0f + 0x1p-12f;
  const float product = scale_a * scale_a;
  CHECK(same_bits(promote(-1.0f, 1.0f, scale_a, scale_a), product - 1.0f));
  // One fma: the low half of product * accumulator survives the cancellation.
  const float accumulator = 1.0f + 0x1p-13f;
  const float rounded = product * accumulator;
  CHECK(promote(-rounded, accumulator, scale_a, scale_a) != 0.0f);
  CHECK(same_bits(promote(-rounded, accumulator, scale_a, scale_a),
                  std::fma(product, accumulator, -rounded)));
}

TEST_CASE("epilogue_math: a finite limit clamps the gate above and the up value on both sides") {
  CHECK(clamp_gate(3.0f, 2.0f) == 2.0f);
  CHECK(clamp_gate(-3.0f, 2.0f) == -3.0f);
  CHECK(clamp_gate(1.5f, 2.0f) == 1.5f);
  CHECK(clamp_gate(kNan, 2.0f) == 2.0f);
  CHECK(clamp_gate(-kInfinity, 2.0f) == -kInfinity);
  CHECK(clamp_up(3.0f, 2.0f) == 2.0f);
  CHECK(clamp_up(-3.0f, 2.0f) == -2.0f);
  CHECK(same_bits(clamp_up(-0.0f, 2.0f), -0.0f));
  CHECK(clamp_up(kNan, 2.0f) == 2.0f);
  CHECK(clamp_up(-kInfinity, 2.0f) == -2.0f);
}

TEST_CASE("epilogue_math: an infinite limit changes nothing, NaN and infinity included") {
  CHECK(std::isnan(clamp_gate(kNan, kInfinity)));
  CHECK(std::isnan(clamp_up(kNan, kInfinity)));
  CHECK(clamp_gate(kInfinity, kInfinity) == kInfinity);
  CHECK(clamp_up(-kInfinity, kInfinity) == -kInfinity);
}

TEST_CASE("epilogue_math: SwiGLU is gate times sigmoid, then up, each rounded") {
  CHECK(swiglu(0.0f, 5.0f) == 0.0f);
  CHECK(bits_of_float(swiglu(-1000.0f, 1.0f)) == kFloatSignBit);
  CHECK(swiglu(1000.0f, 2.0f) == 2000.0f);
  CHECK(std::isnan(swiglu(-kInfinity, 1.0f)));
  for (const float gate : {-7.25f, -1.0f, -0.1f, 0.3f, 1.0f, 2.7f, 11.0f}) {
    CAPTURE(gate);
    const float sigmoid = rcp_approx(1.0f + ex2_approx(gate * float_of_bits(0xBFB8AA3B)));
    CHECK(same_bits(swiglu(gate, 1.7f), (gate * sigmoid) * 1.7f));
    const double exact = gate / (1.0 + std::exp(-double{gate})) * double{1.7f};
    CHECK(swiglu(gate, 1.7f) == doctest::Approx(exact).epsilon(1e-6));
  }
}

TEST_CASE("epilogue_math: activation clamps, multiplies by the weight once, and in this order") {
  const float v = swiglu(2.0f, -2.0f);
  CHECK(same_bits(activate(5.0f, -9.0f, 2.0f, 0.3f), v * 0.3f));
  CHECK(same_bits(activate(5.0f, -9.0f, kInfinity, 0.3f), swiglu(5.0f, -9.0f) * 0.3f));
}

TEST_CASE("epilogue_math: amax takes no NaN and ignores signs") {
  float amax = 0.0f;
  for (const float value : {kNan, -3.0f, kNan, 2.0f, -0.0f}) amax = amax_step(amax, value);
  CHECK(amax == 3.0f);
  CHECK(same_bits(amax_step(0.0f, -0.0f), 0.0f));
  CHECK(amax_step(amax, -kInfinity) == kInfinity);
}

TEST_CASE("epilogue_math: a group's scale is the power of two at or above amax / 448") {
  const auto check = [](float amax, float scale) {
    CAPTURE(amax);
    const GroupScale group = group_scale(amax);
    CHECK(same_bits(group.scale, scale));
    CHECK(same_bits(group.inverse, 1.0f / scale));
  };
  check(448.0f, 1.0f);
  check(449.0f, 2.0f);
  check(224.5f, 1.0f);
  check(224.0f, 0.5f);
  // amax / 448 is 0.006975: no bit of its mantissa may stay in the scale.
  check(3.125f, 0x1p-7f);
  // amax / 448 is 2^-17 (1 + 2^-23) or so: the next power of two, not the one below.
  check(std::nextafter(std::nextafter(448.0f * 0x1p-17f, 1.0f), 1.0f), 0x1p-16f);
  check(1e-37f, 0x1p-126f);
}

TEST_CASE("epilogue_math: a subnormal amax / 448 has the smallest normal scale") {
  for (const float amax : {float_of_bits(448), 0x1p-130f, 0x1p-126f}) {
    CAPTURE(amax);
    CHECK(group_scale(amax).scale == 0x1p-126f);
    CHECK(group_scale(amax).inverse == 0x1p126f);
  }
  // Too small for a subnormal quotient: as zero.
  CHECK(bits_of_float(group_scale(float_of_bits(1)).scale) == 0);
  CHECK(group_scale(float_of_bits(1)).inverse == 0x1p127f);
}

TEST_CASE("epilogue_math: scales step exactly where the rounded amax / 448 passes a power of two") {
  for (int power = -118; power <= 118; ++power) {
    const float edge = std::ldexp(1.0f, power);
    // The largest amax whose rounded product with 1/448 is at most the edge.
    float amax = edge * 448.0f;
    while (amax * float_of_bits(0x3B124925) > edge) amax = std::nextafter(amax, 0.0f);
    while (std::nextafter(amax, kInfinity) * float_of_bits(0x3B124925) <= edge) {
      amax = std::nextafter(amax, kInfinity);
    }
    CAPTURE(power);
    CHECK(group_scale(amax).scale == edge);
    CHECK(group_scale(std::nextafter(amax, kInfinity)).scale == 2 * edge);
  }
}

TEST_CASE("epilogue_math: zero and infinite amax give the wrapped-around scales") {
  const GroupScale zero = group_scale(0.0f);
  CHECK(bits_of_float(zero.scale) == 0);
  CHECK(zero.inverse == 0x1p127f);
  const GroupScale infinite = group_scale(kInfinity);
  CHECK(infinite.scale == kInfinity);
  CHECK(infinite.inverse == -kInfinity);
  CHECK(requantise(-0.0f, zero.inverse) == 0x80);
  CHECK(requantise(0.0f, zero.inverse) == 0x00);
  CHECK(requantise(1.0f, infinite.inverse) == 0xFE);
  CHECK(requantise(-1.0f, infinite.inverse) == 0x7E);
  CHECK(requantise(0.0f, infinite.inverse) == 0x7F);
}

TEST_CASE("epilogue_math: requantisation rounds the product before it encodes") {
  CHECK(requantise(272.0f, 1.0f) == encode_e4m3(272.0f));
  CHECK(requantise(kNan, 1.0f) == 0x7F);
  CHECK(requantise(-kNan, 1.0f) == 0x7F);
  // 17 * 2^-10 is a tie of the subnormal codes' neighbours; a power of two moves it exactly.
  CHECK(requantise(0x1.1p-6f, 0.0625f) == encode_e4m3(0x1.1p-10f));
}

TEST_CASE("epilogue_math: the combine keeps its sum in binary32 and starts at +0") {
  float sum = 0.0f;
  for (const float term : {1.0f, 0x1p-9f, -1.0f}) sum = combine_step(sum, encode_bf16(term));
  CHECK(combine_result(sum) == encode_bf16(0x1p-9f));
  CHECK(bits_of_float(combine_step(0.0f, 0x8000)) == 0);
  CHECK(combine_result(0.0f) == 0);
  CHECK(combine_result(kNan) == 0x7FFF);
  CHECK(output_element(-kNan) == 0x7FFF);
  CHECK(output_element(1.00390625f) == 0x3F80);
}

}  // namespace
}  // namespace moetwin
