// The bench against the references it must agree with: the naive path bit for bit, the
// double-precision layer to rounding.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/case.h"
#include "model/float64_reference.h"
#include "model/naive.h"
#include "model/numerics/bench.h"
#include "tests/sample_problem.h"

namespace moetwin::numerics {
namespace {

using test::draw_problem;

std::vector<const Variant*> every_variant() {
  std::vector<const Variant*> variants;
  for (const Variant& variant : all_variants()) variants.push_back(&variant);
  return variants;
}

struct Generated {
  Problem problem;
  UnquantisedSpecs specs;
};

Generated generated(const std::string& data, const std::string& more = "") {
  const Case c =
      parse_case(R"({"shape":{"ranks":2,"experts":8,"topk":4,"hidden":512,"intermediate":256,)"
                 R"("max_tokens_per_rank":8},"data":{"kind":")" +
                     data + "\"" + more + R"(},"routing":{"kind":"uniform","masked":0.2}})",
                 "");
  WeightCache cache;
  return {make_problem(c, 0, cache), {c.data, c.data}};
}

}  // namespace

TEST_CASE("numerics: the contract gives the naive path's bits, whatever the codes") {
  const Shape shape = {2, 4, 3, 256, 384, 5};
  for (const test::Codes codes : {test::Codes::Common, test::Codes::Any}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(seed);
      Problem problem = draw_problem(shape, {5, 3}, seed, codes);
      if (seed % 2 == 0) problem.clamp = 0.5f;
      const std::vector<VariantResult> results =
          run_bench(problem, std::nullopt, {find_variant("contract")});
      CHECK(results[0].y == run_naive(problem).y);
    }
  }
}

TEST_CASE("numerics: the contract gives the naive path's bits on every kind of generated data") {
  for (const char* data : {"normal", "outlier", "same_sign", "heavy_tail", "ties", "extreme"}) {
    CAPTURE(std::string(data));
    const Generated g = generated(data);
    const std::vector<VariantResult> results =
        run_bench(g.problem, g.specs, {find_variant("contract")});
    CHECK(results[0].y == run_naive(g.problem).y);
  }
}

TEST_CASE("numerics: errors of y are those that the double-precision layer gives") {
  const Generated g = generated("normal");
  const std::vector<VariantResult> results =
      run_bench(g.problem, g.specs, {find_variant("contract")});
  const LayerResult naive = run_naive(g.problem);
  const ErrorMetrics same_codes = error_against(run_float64(g.problem), naive);
  const ErrorSums& y = results[0].stage(BenchStage::Y);
  CHECK(y.relative_rms() == doctest::Approx(same_codes.relative_rms).epsilon(1e-9));
  CHECK(y.calc_diff() == doctest::Approx(same_codes.calc_diff).epsilon(1e-6));
  CHECK(y.cosine() == doctest::Approx(same_codes.cosine).epsilon(1e-12));
  CHECK(y.max_abs() == doctest::Approx(same_codes.max_abs).epsilon(1e-9));
  const ErrorMetrics total =
      error_against(run_float64_unquantised(g.problem, g.specs.x, g.specs.weights), naive);
  REQUIRE(results[0].total.has_value());
  CHECK(results[0].total->relative_rms() == doctest::Approx(total.relative_rms).epsilon(1e-9));
  CHECK(results[0].total->relative_rms() > y.relative_rms());
  CHECK(results[0].requantised.relative_rms() < y.relative_rms());
}

TEST_CASE("numerics: no bit of a report depends on threads or on which variants share work") {
  const Generated g = generated("normal");
  const std::vector<VariantResult> all = run_bench(g.problem, g.specs, every_variant(), {1, {}});
  const std::vector<VariantResult> again = run_bench(g.problem, g.specs, every_variant(), {3, {}});
  REQUIRE(all.size() == again.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].variant->name);
    const std::vector<VariantResult> alone =
        run_bench(g.problem, g.specs, {all[i].variant}, {1, {}});
    for (const VariantResult* other : {&again[i], &alone[0]}) {
      CHECK(other->y == all[i].y);
      CHECK(other->token_rms == all[i].token_rms);
      CHECK(other->l1_codes == all[i].l1_codes);
      for (size_t s = 0; s < kBenchStages; ++s)
        CHECK(other->stages[s].relative_rms() == all[i].stages[s].relative_rms());
      CHECK(other->requantised.relative_rms() == all[i].requantised.relative_rms());
      CHECK(other->total->relative_rms() == all[i].total->relative_rms());
    }
  }
}

}  // namespace moetwin::numerics
