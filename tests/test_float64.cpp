#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/number_formats.h"
#include "model/data.h"
#include "model/float64_reference.h"
#include "model/naive.h"
#include "tests/sample_problem.h"

namespace moetwin {
namespace {

using test::Codes;
using test::draw_problem;

/// The layer in double with plain loops over one element at a time.
std::vector<double> plain_loops(const Problem& problem) {
  const uint64_t h = problem.shape.hidden;
  const uint64_t i = problem.shape.intermediate;
  const double c = problem.clamp;
  std::vector<double> y;
  for (const RankInput& input : problem.ranks) {
    for (uint64_t token = 0; token < input.num_tokens; ++token) {
      std::vector<double> sum(h, 0.0);
      for (uint64_t k = 0; k < problem.shape.topk; ++k) {
        const uint64_t slot = token * problem.shape.topk + k;
        if (input.topk_idx[slot] == kMaskedExpert) continue;
        const auto expert = problem.weights->expert(static_cast<uint32_t>(input.topk_idx[slot]));
        const auto linear1 = [&](uint64_t n) {
          double total = 0;
          for (uint64_t j = 0; j < h; ++j) {
            total += double{decode_e4m3(input.x_codes[token * h + j])} *
                     double{input.x_scales[token * (h / 128) + j / 128]} *
                     double{decode_e4m3(expert->w1_codes[n * h + j])} *
                     double{expert->w1_scales[n / 128 * (h / 128) + j / 128]};
          }
          return total;
        };
        std::vector<double> activated;
        for (uint64_t n = 0; n < i; ++n) {
          const double gate = std::fmin(linear1(n), c);
          const double up = std::fmax(std::fmin(linear1(i + n), c), -c);
          activated.push_back(gate * up / (1 + std::exp(-gate)) * double{input.topk_weights[slot]});
        }
        for (uint64_t n = 0; n < h; ++n) {
          for (uint64_t j = 0; j < i; ++j) {
            sum[n] += activated[j] * double{decode_e4m3(expert->w2_codes[n * i + j])} *
                      double{expert->w2_scales[n / 128 * (i / 128) + j / 128]};
          }
        }
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
  }
  return y;
}

void check_plain_loops(const Problem& problem) {
  const Float64Result result = run_float64(problem);
  const std::vector<double> expected = plain_loops(problem);
  REQUIRE(result.y.size() == expected.size());
  double largest = 0;
  double worst = 0;
  for (size_t at = 0; at < expected.size(); ++at) {
    largest = std::fmax(largest, std::fabs(expected[at]));
    worst = std::fmax(worst, std::fabs(result.y[at] - expected[at]));
  }
  CHECK(largest > 0);
  CHECK(worst <= 1e-13 * largest);
}

TEST_CASE("float64: the matrix form equals plain loops in double to the last few bits") {
  check_plain_loops(draw_problem({2, 4, 3, 256, 128, 4}, {3, 2}, 1));
  check_plain_loops(draw_problem({3, 3, 4, 128, 256, 4}, {2, 0, 1}, 2));
  Problem clamped = draw_problem({1, 2, 2, 128, 128, 4}, {4}, 3);
  const std::vector<double> unclamped = plain_loops(clamped);
  clamped.clamp = 0.5f;
  CHECK(plain_loops(clamped) != unclamped);
  check_plain_loops(clamped);
}

TEST_CASE("float64: neither threads nor the cut into blocks of rows changes a bit") {
  const Shape shape{1, 2, 1, 128, 128, 300};
  Problem problem = draw_problem(shape, {290}, 4);
  for (int32_t& expert : problem.ranks[0].topk_idx) expert = 1;
  const Float64Result one = run_float64(problem, {1});
  CHECK(run_float64(problem, {2}).y == one.y);
  CHECK(run_float64(problem, {4}).y == one.y);
  const std::vector<double> expected = plain_loops(problem);
  for (const uint64_t at : {uint64_t{0}, uint64_t{255 * 128}, uint64_t{256 * 128 + 3}}) {
    CHECK(std::fabs(one.y[at] - expected[at]) <= 1e-12 * std::fabs(expected[at]) + 1e-12);
  }
}

TEST_CASE("float64: the contract's result lies within the error of one requantisation") {
  // Rounding to three mantissa bits alone costs 2.0 to 2.7 %; a wrong scale, weight or order costs
  // tens of percent, and no requantisation at all less than one.
  for (uint64_t seed = 20; seed < 24; ++seed) {
    Problem problem = draw_problem({2, 4, 3, 256, 256, 16}, {16, 9}, seed);
    if (seed % 2 == 1) problem.clamp = 1.0f;
    const ErrorMetrics error = error_against(run_float64(problem), run_naive(problem));
    CAPTURE(error.relative_rms);
    CHECK(error.relative_rms > 0.01);
    CHECK(error.relative_rms < 0.035);
    CHECK(error.cosine > 0.999);
    CHECK(error.calc_diff < 1e-3);
    CHECK(error.calc_diff > 0);
    CHECK(error.non_finite_result == 0);
    CHECK(error.non_finite_reference == 0);
  }
}

TEST_CASE("float64: a dropped slot or a wrong routing weight shows as a large error") {
  const Problem problem = draw_problem({1, 4, 3, 128, 128, 16}, {16}, 30);
  const Float64Result reference = run_float64(problem);
  Problem wrong = problem;
  for (uint32_t token = 0; token < 16; ++token) {
    wrong.ranks[0].topk_idx[token * 3 + 1] = kMaskedExpert;
  }
  CHECK(error_against(reference, run_naive(wrong)).relative_rms > 0.1);
  wrong = problem;
  for (float& weight : wrong.ranks[0].topk_weights) weight *= weight;
  CHECK(error_against(reference, run_naive(wrong)).relative_rms > 0.1);
}

/// Two ranks with one token each and H = 128; everything but the first columns is zero.
struct Pair {
  Float64Result reference;
  LayerResult result;

  Pair() {
    reference.shape = result.shape = {2, 2, 1, 128, 128, 1};
    reference.tokens = result.tokens = {1, 1};
    reference.y.assign(256, 0.0);
    result.y.assign(256, 0);
  }
  void set(uint64_t at, double expected, float got) {
    reference.y[at] = expected;
    result.y[at] = encode_bf16(got);
  }
};

TEST_CASE("float64: error metrics of numbers that can be checked by hand") {
  Pair pair;
  pair.set(0, 3.0, 3.0f);
  pair.set(1, 4.0, 3.0f);
  pair.set(130, 0.0, -2.0f);
  const ErrorMetrics error = error_against(pair.reference, pair.result);
  CHECK(error.relative_rms == doctest::Approx(std::sqrt(5.0 / 25.0)));
  CHECK(error.max_abs == 2.0);
  CHECK(error.worst_rank == 1);
  CHECK(error.worst_token == 0);
  CHECK(error.worst_column == 2);
  CHECK(error.cosine == doctest::Approx(21.0 / (5.0 * std::sqrt(22.0))));
  CHECK(error.calc_diff == doctest::Approx(1.0 - 2.0 * 21.0 / 47.0));
}

TEST_CASE("float64: equal numbers have no error, also if all are zero") {
  Pair pair;
  ErrorMetrics error = error_against(pair.reference, pair.result);
  CHECK(error.relative_rms == 0);
  CHECK(error.cosine == 1);
  CHECK(error.calc_diff == 0);
  pair.set(7, -1.5, -1.5f);
  error = error_against(pair.reference, pair.result);
  CHECK(error.relative_rms == 0);
  CHECK(error.max_abs == 0);
  CHECK(error.cosine == doctest::Approx(1.0));
  CHECK(error.calc_diff == doctest::Approx(0.0));
  pair.set(7, 0.0, -1.5f);
  error = error_against(pair.reference, pair.result);
  CHECK(error.relative_rms == std::numeric_limits<double>::infinity());
  CHECK(error.cosine == 0);
  CHECK(error.calc_diff == 1);
}

TEST_CASE("float64: numbers that are not finite are counted and leave the rest alone") {
  const double inf = std::numeric_limits<double>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Pair pair;
  pair.set(0, 2.0, 1.0f);
  pair.set(1, 2.0, nan);
  pair.set(2, inf, 1.0f);
  pair.set(3, -inf, -std::numeric_limits<float>::infinity());
  const ErrorMetrics error = error_against(pair.reference, pair.result);
  CHECK(error.non_finite_result == 2);
  CHECK(error.non_finite_reference == 2);
  CHECK(error.relative_rms == 0.5);
  CHECK(error.max_abs == 1.0);
}

TEST_CASE("float64: a NaN code reaches its own token and no other") {
  Problem problem = draw_problem({1, 2, 2, 128, 128, 4}, {3}, 40);
  for (int32_t& expert : problem.ranks[0].topk_idx) expert = 0;
  problem.ranks[0].x_codes[128 + 5] = kE4m3Nan;
  const Float64Result result = run_float64(problem);
  for (uint64_t at = 0; at < 3 * 128; ++at) {
    CHECK(std::isnan(result.y[at]) == (at / 128 == 1));
  }
}

TEST_CASE(
    "float64: against unquantised tensors the error is larger, as input rounding adds to it") {
  const Shape shape{2, 4, 2, 256, 256, 12};
  DataSpec data;
  data.seed = 5;
  Problem problem = draw_problem(shape, {12, 6}, 50);
  make_activations(data, shape, std::vector<uint32_t>{12, 6}, problem.ranks);
  problem.weights = make_weights(data, shape);
  const LayerResult result = run_naive(problem);
  const double quantised = error_against(run_float64(problem), result).relative_rms;
  const Float64Result total = run_float64_unquantised(problem, data, data);
  const ErrorMetrics error = error_against(total, result);
  CHECK(quantised > 0.01);
  CHECK(quantised < 0.035);
  CHECK(error.relative_rms > 1.5 * quantised);
  CHECK(error.relative_rms < 0.1);
  CHECK(error.cosine > 0.99);
  CHECK(run_float64_unquantised(problem, data, data, {1}).y == total.y);
}

}  // namespace
}  // namespace moetwin
