// Number formats and tensor-core steps that only variants use.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "model/numerics/quantisation.h"
#include "model/numerics/small_floats.h"
#include "model/numerics/wide_steps.h"
#include "model/quantise.h"
#include "model/tensor_core.h"
#include "tests/sample_problem.h"

namespace moetwin::numerics {
namespace {

/// NUMERICS 2a in double and by loops, for operands decoded to values.
float plain_step(CodeFormat fa, const uint8_t* a, CodeFormat fb, const uint8_t* b, float c) {
  const auto exponent = [](CodeFormat format, uint8_t code) {
    const double value = std::abs(double{code_values(format)[code]});
    return std::max(std::ilogb(value), format == CodeFormat::E4m3 ? -6 : -14);
  };
  int largest = c == 0 ? -126 : std::max(std::ilogb(c), -126);
  for (uint32_t k = 0; k < kTensorCoreK; ++k)
    if ((a[k] & 0x7F) != 0 && (b[k] & 0x7F) != 0)
      largest = std::max(largest, exponent(fa, a[k]) + exponent(fb, b[k]));
  const double unit = std::ldexp(1.0, largest - kTensorCoreFractionBits);
  double sum = std::trunc(double{c} / unit);
  for (uint32_t k = 0; k < kTensorCoreK; ++k)
    sum += std::trunc(double{code_values(fa)[a[k]]} * double{code_values(fb)[b[k]]} / unit);
  if (sum == 0) return 0;
  const double kept = std::ldexp(1.0, std::ilogb(sum) - kTensorCoreFractionBits);
  return static_cast<float>(std::trunc(sum / kept) * kept * unit);
}

bool finite_code(CodeFormat format, uint8_t code) {
  return std::isfinite(code_values(format)[code]);
}

}  // namespace

TEST_CASE("numerics: a step of two E4M3 operands is the tensor core's, NaN codes included") {
  test::Draw draw(1);
  constexpr uint32_t kRows = 5;
  constexpr uint32_t kColumns = 19;
  constexpr uint32_t kSteps = 3;
  constexpr uint32_t kDepth = kSteps * kTensorCoreK;
  for (const test::Codes codes : {test::Codes::Common, test::Codes::Any}) {
    for (int round = 0; round < 30; ++round) {
      std::vector<uint8_t> a(kRows * kDepth);
      std::vector<uint8_t> b(kColumns * kDepth);
      for (uint8_t& code : a) code = draw_code(draw, codes);
      for (uint8_t& code : b) code = draw_code(draw, codes);
      // A NaN in every row would hide the rest.
      for (uint32_t i = 0; i < 4 * kDepth; ++i)
        if (is_e4m3_nan(a[i])) a[i] = 0;
      for (uint32_t i = 0; i < 15 * kDepth; ++i)
        if (is_e4m3_nan(b[i])) b[i] = 0;
      std::vector<float> expected(kRows * kColumns);
      std::vector<float> got(kRows * kColumns);
      tile_steps(a.data(), kDepth, kRows, b.data(), kDepth, kColumns, kSteps, expected.data());
      wide_tile_steps({CodeFormat::E4m3, a.data(), kDepth, kRows},
                      {CodeFormat::E4m3, b.data(), kDepth, kColumns}, kSteps, got.data());
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(bits_of_float(got[i]) == bits_of_float(expected[i]));
    }
  }
}

TEST_CASE("numerics: a step with E5M2 operands cuts and aligns as the E4M3 one does") {
  test::Draw draw(2);
  for (const CodeFormat fa : {CodeFormat::E4m3, CodeFormat::E5m2}) {
    for (int round = 0; round < 400; ++round) {
      // Exponents of some rounds lie close together, so that sums cancel.
      const uint8_t spread = round % 2 == 0 ? 0xFF : 0x8F;
      const auto code = [&](CodeFormat format) {
        const auto drawn =
            static_cast<uint8_t>((draw.bits() >> 8 & spread) | (spread == 0xFF ? 0 : 0x30));
        return finite_code(format, drawn) ? drawn : uint8_t{0};
      };
      std::vector<uint8_t> a(2 * kTensorCoreK);
      std::vector<uint8_t> b(2 * kTensorCoreK);
      for (uint8_t& c : a) c = code(fa);
      for (uint8_t& c : b) c = code(CodeFormat::E5m2);
      float got = 0;
      wide_tile_steps({fa, a.data(), a.size(), 1}, {CodeFormat::E5m2, b.data(), b.size(), 1}, 2,
                      &got);
      const float first = plain_step(fa, a.data(), CodeFormat::E5m2, b.data(), 0);
      const float expected =
          plain_step(fa, a.data() + kTensorCoreK, CodeFormat::E5m2, b.data() + kTensorCoreK, first);
      CHECK(bits_of_float(got) == bits_of_float(expected));
    }
  }
}

TEST_CASE("numerics: E5M2 codes decode and encode to themselves, ties go to the even code") {
  for (uint32_t code = 0; code < 256; ++code) {
    const auto c = static_cast<uint8_t>(code);
    CAPTURE(code);
    const float value = decode_e5m2(c);
    if (!std::isfinite(value)) continue;
    CHECK(encode_e5m2(value) == c);
    const float next = decode_e5m2(static_cast<uint8_t>(c + 1));
    if ((code & 0x7F) >= 0x7B) continue;
    const float tie = (value + next) / 2;
    CHECK(encode_e5m2(tie) == (code % 2 == 0 ? c : c + 1));
    CHECK(encode_e5m2(std::nextafter(tie, value)) == c);
    CHECK(encode_e5m2(std::nextafter(tie, next)) == c + 1);
  }
  CHECK(encode_e5m2(INFINITY) == 0x7B);
  CHECK(encode_e5m2(-1e30f) == 0xFB);
  CHECK(encode_e5m2(NAN) == kE5m2Nan);
  CHECK(decode_e5m2(0x7B) == kE5m2Max);
}

TEST_CASE("numerics: FP16 and E2M1 round to nearest even and end where the formats end") {
  CHECK(round_to_fp16(1 + 0x1p-11f) == 1);
  CHECK(round_to_fp16(1 + 3 * 0x1p-11f) == 1 + 0x1p-9f);
  CHECK(round_to_fp16(65519.0f) == kFp16Max);
  CHECK(round_to_fp16(65520.0f) == INFINITY);
  CHECK(round_to_fp16(-65520.0f) == -INFINITY);
  CHECK(round_to_fp16(-1e38f) == -INFINITY);
  CHECK(round_to_fp16(0x1p-25f) == 0);
  CHECK(round_to_fp16(3 * 0x1p-25f) == 0x1p-23f);
  CHECK(std::isnan(round_to_fp16(NAN)));
  const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (size_t i = 0; i + 1 < std::size(values); ++i) {
    const float tie = (values[i] + values[i + 1]) / 2;
    CHECK(round_to_e2m1(values[i]) == values[i]);
    CHECK(round_to_e2m1(-tie) == -values[i % 2 == 0 ? i : i + 1]);
    CHECK(round_to_e2m1(std::nextafter(tie, 0.0f)) == values[i]);
    CHECK(round_to_e2m1(std::nextafter(tie, 9.0f)) == values[i + 1]);
  }
  CHECK(round_to_e2m1(100) == 6);
}

TEST_CASE("numerics: the contract's rules of quantisation give the codes of the quantisers") {
  test::Draw draw(4);
  std::vector<float> w(kScaleBlock * 256);
  for (float& value : w) value = draw.scale(static_cast<int>(draw.below(12)) - 8) - 1;
  std::vector<uint8_t> codes(w.size());
  std::vector<float> scales(2 * kScaleBlock);
  quantise_activations(w.data(), kScaleBlock, 256, codes.data(), scales.data());
  const CodedRows rows = code_rows({}, w.data(), kScaleBlock, 256);
  CHECK(rows.codes == codes);
  CHECK(rows.scales == scales);
  scales.resize(2);
  quantise_weights(w.data(), kScaleBlock, 256, codes.data(), scales.data());
  const CodedMatrix matrix = code_matrix({}, w.data(), kScaleBlock, 256);
  CHECK(matrix.codes == codes);
  CHECK(matrix.scales == scales);
}

TEST_CASE("numerics: saturated, flushed and NaN codes are counted, and nothing else") {
  RowRule rule;
  rule.scale = ScaleRule::PowerOfTwoNearest;
  std::vector<float> x(128, 0.0f);
  x[0] = 600;       // scale 1: cut to 448
  x[1] = 463;       // rounds to 448
  x[2] = 0x1p-11f;  // below half of the smallest code
  x[3] = 1;
  x[4] = NAN;
  const CodedRows coded = code_rows(rule, x.data(), 1, 128);
  const CodeCounts counts = count_codes(coded, x.data(), 128);
  CHECK(counts.values == 128);
  CHECK(counts.saturated == 1);
  CHECK(counts.flushed == 1);
  CHECK(counts.non_finite == 1);
}

TEST_CASE("numerics: MXFP4 groups of 32 have a power of two of their own") {
  std::vector<float> w(64, 0.0f);
  w[0] = 6;
  w[1] = 2.4f;
  w[32] = 0x1p-10f;
  w[33] = 0.4f * 0x1p-10f;
  w[34] = -7;
  std::vector<float> out(64);
  round_through_mxfp4(w.data(), 32, out.data());
  CHECK(out[0] == 6);
  CHECK(out[1] == 2);
  round_through_mxfp4(w.data(), 64, out.data());
  CHECK(out[34] == -6);  // floor(log2(7)) = 2: the largest value saturates
  CHECK(out[32] == 0);
  w[34] = 0;
  round_through_mxfp4(w.data(), 64, out.data());
  CHECK(out[32] == 0x1p-10f);
  CHECK(out[33] == 0.375f * 0x1p-10f);
}

}  // namespace moetwin::numerics
