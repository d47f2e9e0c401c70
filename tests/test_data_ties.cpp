#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "common/epilogue_math.h"
#include "model/data.h"

namespace moetwin {
namespace {

DataSpec ties_spec(uint64_t seed) {
  DataSpec spec;
  spec.kind = DataKind::Ties;
  spec.seed = seed;
  return spec;
}

/// Whether a value lies half way between two neighbouring E4M3 values, and how many ulps from the
/// nearest such place otherwise (at most `reach`; reach + 1 if further).
uint32_t ulps_from_code_tie(float value, uint32_t reach) {
  const float size = magnitude(value);
  const uint8_t code = encode_e4m3(size);
  uint32_t nearest = reach + 1;
  for (int low = int{code} - 1; low <= int{code}; ++low) {
    if (low < 0 || low >= kE4m3MaxCode) continue;
    const float tie =
        (decode_e4m3(static_cast<uint8_t>(low)) + decode_e4m3(static_cast<uint8_t>(low + 1))) *
        0.5f;
    const uint32_t a = bits_of_float(tie);
    const uint32_t b = bits_of_float(size);
    nearest = std::min(nearest, a > b ? a - b : b - a);
  }
  return nearest;
}

bool is_bf16_tie(double value) {
  const auto single = static_cast<float>(value);
  return single == value && (bits_of_float(single) & 0xFFFF) == 0x8000;
}

/// Within 256 ulps of a tie, but not on it.
bool is_beside_bf16_tie(double value) {
  const uint32_t low = bits_of_float(static_cast<float>(value)) & 0xFFFF;
  return !is_bf16_tie(value) && low >= 0x8000 - 256 && low <= 0x8000 + 256;
}

/// One row of codes times one row of weight codes with their scales, exact in double for sparse
/// rows. Activation scales are one a `group` columns.
double dot(const uint8_t* x, const float* x_scales, uint32_t group, const uint8_t* w,
           const float* w_scales, uint32_t columns) {
  double sum = 0;
  for (uint32_t c = 0; c < columns; ++c) {
    if ((w[c] & 0x7F) == 0) continue;
    sum += double{decode_e4m3(x[c])} * decode_e4m3(w[c]) * x_scales[c / group] *
           w_scales[c / kScaleBlock];
  }
  return sum;
}

}  // namespace

TEST_CASE("data: ties puts activations on ties of their quantisation and one ulp beside") {
  const Shape shape{1, 1, 1, 512, 128, 400};
  const std::vector<uint32_t> tokens = {400};
  std::vector<std::vector<float>> x;
  std::vector<RankInput> ranks;
  make_unquantised_activations(ties_spec(1), shape, tokens, x);
  make_activations(ties_spec(1), shape, tokens, ranks);
  double on_tie = 0;
  double beside = 0;
  double power_tokens = 0;
  for (size_t i = 0; i < x[0].size(); ++i) {
    const float scale = ranks[0].x_scales[i / kScaleBlock];
    const uint32_t ulps = ulps_from_code_tie(x[0][i] * (1.0f / scale), 2);
    on_tie += ulps == 0 ? 1 : 0;
    beside += ulps == 1 || ulps == 2 ? 1 : 0;
    if (i % 512 == 0) power_tokens += (bits_of_float(scale) & kFloatMantissaMask) == 0 ? 1 : 0;
  }
  const auto elements = static_cast<double>(x[0].size());
  CHECK(on_tie / elements > 0.4);
  CHECK(beside / elements > 0.4);
  CHECK(std::abs(power_tokens - 200) < 40);
}

TEST_CASE("data: ties puts Linear1 values, Linear2 rows and their sums on ties of S8, S10, S11") {
  const Shape shape{1, 2, 2, 512, 256, 64};
  const std::vector<uint32_t> tokens = {64};
  std::vector<RankInput> ranks;
  make_activations(ties_spec(3), shape, tokens, ranks);
  const auto source = make_weights(ties_spec(3), shape);
  const uint32_t inner = shape.intermediate;
  double values = 0;
  double code_ties = 0;
  double near_code_ties = 0;
  double rows = 0;
  double row_ties = 0;
  double near_row_ties = 0;
  double sum_ties = 0;
  for (uint32_t token = 0; token < 64; ++token) {
    const uint8_t* x = &ranks[0].x_codes[size_t{token} * 512];
    const float* x_scales = &ranks[0].x_scales[size_t{token} * 4];
    std::vector<float> sums(shape.hidden, 0);
    for (uint32_t expert = 0; expert < 2; ++expert) {
      const auto w = source->expert(expert);
      std::vector<float> v(inner);
      for (uint32_t n = 0; n < inner; ++n) {
        const auto linear1 = [&](uint32_t row) {
          return static_cast<float>(dot(x, x_scales, kScaleBlock, &w->w1_codes[size_t{row} * 512],
                                        &w->w1_scales[row / kScaleBlock * 4], 512));
        };
        v[n] = swiglu(linear1(n), linear1(inner + n));
      }
      std::vector<uint8_t> codes(inner);
      std::vector<float> scales;
      for (uint32_t n = 0; n < inner; n += kLinear1ScaleGroup) {
        float amax = 0;
        for (uint32_t i = 0; i < kLinear1ScaleGroup; ++i) amax = amax_step(amax, v[n + i]);
        const GroupScale scale = group_scale(amax);
        scales.push_back(scale.scale);
        for (uint32_t i = 0; i < kLinear1ScaleGroup; ++i) {
          codes[n + i] = requantise(v[n + i], scale.inverse);
          const uint32_t ulps = ulps_from_code_tie(v[n + i] * scale.inverse, 256);
          ++values;
          code_ties += ulps == 0 ? 1 : 0;
          near_code_ties += ulps > 0 && ulps <= 256 ? 1 : 0;
        }
      }
      for (uint32_t row = 0; row < shape.hidden; ++row) {
        const double out =
            dot(codes.data(), scales.data(), kLinear1ScaleGroup, &w->w2_codes[size_t{row} * inner],
                &w->w2_scales[row / kScaleBlock * (inner / kScaleBlock)], inner);
        ++rows;
        row_ties += is_bf16_tie(out) ? 1 : 0;
        near_row_ties += is_beside_bf16_tie(out) ? 1 : 0;
        sums[row] = combine_step(sums[row], output_element(static_cast<float>(out)));
        if (expert == 1) sum_ties += is_bf16_tie(sums[row]) ? 1 : 0;
      }
    }
  }
  CHECK(code_ties / values > 0.04);
  CHECK(near_code_ties / values > 0.01);
  CHECK(row_ties / rows > 0.05);
  CHECK(near_row_ties / rows > 0.02);
  CHECK(sum_ties / (rows / 2) > 0.1);
}

}  // namespace moetwin
