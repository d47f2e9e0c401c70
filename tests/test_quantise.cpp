#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "common/float_ops.h"
#include "common/number_formats.h"
#include "common/shape.h"
#include "model/quantise.h"
#include "tests/simd_targets.h"

namespace moetwin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Values of every kind: normal, outliers, subnormal, zeros; NaN and infinity where asked for.
float random_value(std::mt19937_64& random, bool finite) {
  switch (random() % 16) {
    case 0:
      return float_of_bits(static_cast<uint32_t>(random()) & 0x807FFFFF);
    case 1:
      return random() % 2 == 0 ? 0.0f : -0.0f;
    case 2:
      return std::ldexp(1.0f, static_cast<int>(random() % 40) - 30);
    case 3:
      if (!finite && random() % 64 == 0) return random() % 2 == 0 ? kInfinity : -kInfinity;
      if (!finite && random() % 16 == 0) return std::nanf("");
      [[fallthrough]];
    default:
      return std::normal_distribution<float>()(random);
  }
}

std::vector<float> random_values(size_t count, uint64_t seed, bool finite) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random_value(random, finite);
  return values;
}

/// S0 and S1 in plain scalar code: the scale of the largest magnitude.
float expected_scale(float amax) { return (amax < 1e-4f ? 1e-4f : amax) / 448.0f; }

TEST_CASE("quantise: every code and scale of S0 is that of the plain formula") {
  test::for_each_simd_target([] {
    constexpr uint32_t kTokens = 300;
    constexpr uint32_t kHidden = 384;
    const std::vector<float> x = random_values(size_t{kTokens} * kHidden, 31, false);
    std::vector<uint8_t> codes(x.size());
    std::vector<float> scales(x.size() / kScaleBlock);
    quantise_activations(x.data(), kTokens, kHidden, codes.data(), scales.data());
    uint64_t wrong = 0;
    for (size_t group = 0; group < scales.size(); ++group) {
      float amax = 0;
      for (size_t i = 0; i < kScaleBlock; ++i) {
        amax = std::fmax(amax, std::fabs(x[group * kScaleBlock + i]));
      }
      const float scale = expected_scale(amax);
      if (bits_of_float(scales[group]) != bits_of_float(scale)) ++wrong;
      const float inverse = 1.0f / scale;
      for (size_t at = group * kScaleBlock; at < (group + 1) * kScaleBlock; ++at) {
        if (codes[at] != encode_e4m3(x[at] * inverse)) ++wrong;
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("quantise: every code and scale of S1 is that of the plain formula") {
  test::for_each_simd_target([] {
    constexpr uint32_t kRows = 256;
    constexpr uint32_t kColumns = 384;
    const std::vector<float> w = random_values(size_t{kRows} * kColumns, 32, true);
    std::vector<uint8_t> codes(w.size());
    std::vector<float> scales(w.size() / kScaleBlock / kScaleBlock);
    quantise_weights(w.data(), kRows, kColumns, codes.data(), scales.data());
    uint64_t wrong = 0;
    for (size_t block = 0; block < scales.size(); ++block) {
      const size_t first = block / 3 * kScaleBlock * kColumns + block % 3 * kScaleBlock;
      float amax = 0;
      for (size_t i = 0; i < size_t{kScaleBlock} * kScaleBlock; ++i) {
        amax = std::fmax(amax, std::fabs(w[first + i / kScaleBlock * kColumns + i % kScaleBlock]));
      }
      if (bits_of_float(scales[block]) != bits_of_float(expected_scale(amax))) ++wrong;
      for (size_t i = 0; i < size_t{kScaleBlock} * kScaleBlock; ++i) {
        const size_t at = first + i / kScaleBlock * kColumns + i % kScaleBlock;
        if (codes[at] != encode_e4m3(w[at] / expected_scale(amax))) ++wrong;
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("quantise: the lanes encode every rounding boundary like the scalar encoder") {
  test::for_each_simd_target([] {
    // amax 448 makes the scale 1, so that the other values are encoded as they are.
    uint64_t wrong = 0;
    for (uint32_t code = 0; code + 1 < kE4m3Nan; ++code) {
      const float tie =
          (decode_e4m3(static_cast<uint8_t>(code)) + decode_e4m3(static_cast<uint8_t>(code + 1))) /
          2;
      std::vector<float> x(kScaleBlock, 448.0f);
      x[1] = tie;
      x[2] = std::nextafter(tie, 0.0f);
      x[3] = std::nextafter(tie, 1000.0f);
      x[4] = -tie;
      x[5] = std::nanf("");
      uint8_t codes[kScaleBlock];
      if (quantise_activation_group(x.data(), codes) != 1.0f) ++wrong;
      for (size_t i = 0; i < 6; ++i) {
        if (codes[i] != encode_e4m3(x[i])) ++wrong;
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("quantise: a group of zeros or of tiny values has a finite scale and finite codes") {
  std::vector<float> x(kScaleBlock, 0.0f);
  uint8_t codes[kScaleBlock];
  x[1] = -0.0f;
  CHECK(quantise_activation_group(x.data(), codes) == 1e-4f / 448.0f);
  CHECK(codes[0] == 0x00);
  CHECK(codes[1] == 0x80);
  x[2] = 1e-37f;
  CHECK(quantise_activation_group(x.data(), codes) == 1e-4f / 448.0f);
  CHECK(codes[2] == 0x00);
  std::vector<float> w(size_t{kScaleBlock} * kScaleBlock, 1e-37f);
  std::vector<uint8_t> w_codes(w.size(), 0x7F);
  CHECK(quantise_weight_block(w.data(), kScaleBlock, w_codes.data(), kScaleBlock) ==
        1e-4f / 448.0f);
  CHECK(w_codes == std::vector<uint8_t>(w.size(), 0));
}

TEST_CASE("quantise: a NaN or an infinity stays in its own group, and a NaN in its own element") {
  std::vector<float> x(3 * kScaleBlock, 2.0f);
  x[5] = std::nanf("");
  x[kScaleBlock + 7] = -kInfinity;
  std::vector<uint8_t> codes(x.size());
  float scales[3];
  quantise_activations(x.data(), 1, 3 * kScaleBlock, codes.data(), scales);
  CHECK(scales[0] == 2.0f / 448.0f);
  CHECK(scales[1] == kInfinity);
  CHECK(scales[2] == 2.0f / 448.0f);
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(i);
    const bool is_nan = i == 5 || i == kScaleBlock + 7;
    const bool zeroed = i / kScaleBlock == 1;
    CHECK(codes[i] == (is_nan ? 0x7F : zeroed ? 0x00 : 0x7E));
  }
}

TEST_CASE("quantise: blocks of a larger matrix are reached through the pitches") {
  std::vector<float> w(size_t{kScaleBlock} * 200, 1e30f);
  std::vector<uint8_t> codes(size_t{kScaleBlock} * 150, 0x55);
  for (size_t row = 0; row < kScaleBlock; ++row) {
    for (size_t i = 0; i < kScaleBlock; ++i) w[row * 200 + i] = static_cast<float>(row);
  }
  CHECK(quantise_weight_block(w.data(), 200, codes.data(), 150) == 127.0f / 448.0f);
  CHECK(codes[127 * 150] == 0x7E);
  CHECK(codes[127 * 150 + 127] == 0x7E);
  CHECK(codes[kScaleBlock] == 0x55);
}

}  // namespace
}  // namespace moetwin
