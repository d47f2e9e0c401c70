// The naive path against a second one that shares nothing with it but the hardware's operations: a
// scalar program that follows NUMERICS an element at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "common/float_ops.h"
#include "common/number_formats.h"
#include "model/compare.h"
#include "model/naive.h"
#include "model/tensor_core.h"
#include "tests/sample_problem.h"

namespace moetwin {
namespace {

using test::Codes;
using test::draw_problem;

/// NUMERICS S2 to S11 once more, an element at a time.
class Scalar {
 public:
  explicit Scalar(const Problem& problem) : problem_(problem), shape_(problem.shape) {}

  struct Row {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    std::vector<uint16_t> l2;
  };

  Row row(const RankInput& input, uint64_t token, uint32_t expert_id, float weight) const {
    const auto expert = problem_.weights->expert(expert_id);
    const uint64_t h = shape_.hidden;
    const uint64_t i = shape_.intermediate;
    const uint8_t* x = input.x_codes.data() + token * h;
    const float* x_scales = input.x_scales.data() + token * (h / 128);
    const auto linear1 = [&](uint64_t n) {
      float final = 0.0f;
      for (uint64_t block = 0; block < h / 128; ++block) {
        const float acc = chain(x + block * 128, expert->w1_codes.data() + n * h + block * 128, 4);
        const float scales = x_scales[block] * expert->w1_scales[n / 128 * (h / 128) + block];
        final = std::fma(scales, acc, final);
      }
      return final;
    };
    Row out;
    for (uint64_t group = 0; group < i / 64; ++group) {
      float w[64];
      float amax = 0.0f;
      for (uint64_t j = 0; j < 64; ++j) {
        const uint64_t n = group * 64 + j;
        w[j] = swiglu(linear1(n), linear1(i + n)) * weight;
        if (amax < std::fabs(w[j])) amax = std::fabs(w[j]);
      }
      const auto [scale, inverse] = scale_of(amax);
      out.scales.push_back(scale);
      for (const float value : w) out.codes.push_back(encode_e4m3(value * inverse));
    }
    for (uint64_t n = 0; n < h; ++n) {
      float final = 0.0f;
      for (uint64_t half = 0; half < i / 64; ++half) {
        const float acc =
            chain(out.codes.data() + half * 64, expert->w2_codes.data() + n * i + half * 64, 2);
        const float scales = out.scales[half] * expert->w2_scales[n / 128 * (i / 128) + half / 2];
        final = std::fma(scales, acc, final);
      }
      out.l2.push_back(encode_bf16(final));
    }
    return out;
  }

 private:
  static float chain(const uint8_t* a, const uint8_t* b, int steps) {
    float acc = 0.0f;
    for (int s = 0; s < steps; ++s) acc = tensor_core_step(a + s * 32, b + s * 32, acc);
    return acc;
  }

  float swiglu(float g, float u) const {
    const float c = problem_.clamp;
    if (std::isfinite(c)) {
      g = g < c ? g : c;
      u = u < -c ? -c : u;
      u = u < c ? u : c;
    }
    const float e = ex2_approx(g * -1.44269502162933349609375f);
    const float sigmoid = rcp_approx(1.0f + e);
    return g * sigmoid * u;
  }

  static std::pair<float, float> scale_of(float amax) {
    const float s = amax * float_of_bits(0x3B124925);
    const auto bits = static_cast<int64_t>(bits_of_float(s));
    const int64_t e = ((bits >> 23) & 0xFF) - 127 + ((bits & 0x7FFFFF) != 0 ? 1 : 0);
    return {float_of_bits(static_cast<uint32_t>((e + 127) << 23)),
            float_of_bits(static_cast<uint32_t>((127 - e) << 23))};
  }

  const Problem& problem_;
  const Shape& shape_;
};

void check_against_scalar(const Problem& problem) {
  const Scalar scalar(problem);
  LayerResult expected;
  expected.shape = problem.shape;
  const Shape& shape = problem.shape;
  expected.slots.resize(uint64_t{shape.experts} * shape.ranks);
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const RankInput& input = problem.ranks[rank];
    expected.tokens.push_back(input.num_tokens);
    for (uint32_t token = 0; token < input.num_tokens; ++token) {
      std::vector<float> sum(shape.hidden, 0.0f);
      for (uint32_t k = 0; k < shape.topk; ++k) {
        const uint32_t slot = token * shape.topk + k;
        if (input.topk_idx[slot] < 0) continue;
        const auto expert = static_cast<uint32_t>(input.topk_idx[slot]);
        const float weight = input.topk_weights[slot];
        expected.slots[uint64_t{expert} * shape.ranks + rank].push_back(slot);
        expected.rows.push_back({rank, token, k, expert, weight});
        const Scalar::Row row = scalar.row(input, token, expert, weight);
        expected.l1_codes.insert(expected.l1_codes.end(), row.codes.begin(), row.codes.end());
        expected.l1_scales.insert(expected.l1_scales.end(), row.scales.begin(), row.scales.end());
        expected.l2.insert(expected.l2.end(), row.l2.begin(), row.l2.end());
        for (uint32_t h = 0; h < shape.hidden; ++h) sum[h] = sum[h] + decode_bf16(row.l2[h]);
      }
      for (const float value : sum) expected.y.push_back(encode_bf16(value));
    }
  }
  const Comparison comparison = compare_results(run_naive(problem), expected);
  INFO(describe(comparison, "naive", "scalar"));
  CHECK(comparison.equal());
  for (const Stage stage : kStages) CHECK(comparison.stage(stage).compared());
}

TEST_CASE("naive: every stage equals a scalar program that follows NUMERICS element by element") {
  check_against_scalar(draw_problem({1, 2, 2, 256, 128, 4}, {3}, 1));
  check_against_scalar(draw_problem({2, 4, 3, 128, 256, 4}, {2, 3}, 2));
  check_against_scalar(draw_problem({3, 3, 4, 128, 128, 4}, {2, 0, 1}, 3));
  Problem clamped = draw_problem({1, 2, 2, 128, 128, 4}, {4}, 4);
  clamped.clamp = 0.5f;
  check_against_scalar(clamped);
}

TEST_CASE("naive: any code, NaN included, gives the scalar program's bits too") {
  for (uint64_t seed = 10; seed < 12; ++seed) {
    check_against_scalar(draw_problem({1, 2, 2, 128, 128, 4}, {2}, seed, Codes::Any));
  }
  Problem clamped = draw_problem({1, 2, 2, 128, 128, 4}, {2}, 13, Codes::Any);
  clamped.clamp = 7.0f;
  check_against_scalar(clamped);
}

}  // namespace
}  // namespace moetwin
