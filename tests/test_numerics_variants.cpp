// Every variant shows the effect it is known by, the contract does not; and the statistics that the
// published forms are known for.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "model/case.h"
#include "model/numerics/bench.h"
#include "model/numerics/expert.h"
#include "tests/numerics_hallmarks.h"
#include "tests/numerics_rules.h"
#include "tests/numerics_witness.h"
#include "tests/paths.h"

namespace moetwin::numerics {
namespace {

struct Measured {
  std::vector<VariantResult> results;

  const VariantResult& of(const std::string& name) const {
    for (const VariantResult& result : results)
      if (result.variant->name == name) return result;
    throw std::runtime_error(name);
  }
  double linear1_rms(const std::string& name) const {
    return of(name).stage(BenchStage::Linear1).relative_rms();
  }
  double linear1_bias(const std::string& name) const {
    return of(name).stage(BenchStage::Linear1).bias();
  }
};

/// One expert, 32 tokens, intermediate 128.
Measured measure(const std::string& data, uint32_t hidden, const std::vector<std::string>& names) {
  const Case c = parse_case(
      R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":)" + std::to_string(hidden) +
          R"(,"intermediate":128,"max_tokens_per_rank":32},"data":{"kind":")" + data + R"("}})",
      "");
  WeightCache cache;
  std::vector<const Variant*> variants;
  for (const std::string& name : names) variants.push_back(find_variant(name));
  return {run_bench(make_problem(c, 0, cache), UnquantisedSpecs{c.data, c.data}, variants)};
}

}  // namespace

TEST_CASE("numerics: each variant has its hallmark and the contract has none of them") {
  std::set<std::string> known = {"contract"};
  const Variant& contract = *find_variant("contract");
  for (const test::Hallmark& hallmark : test::hallmarks()) {
    CAPTURE(std::string(hallmark.variant));
    CAPTURE(std::string(hallmark.what));
    const Variant* variant = find_variant(hallmark.variant);
    REQUIRE(variant != nullptr);
    CHECK(hallmark.holds(*variant));
    CHECK_FALSE(hallmark.holds(contract));
    CHECK(known.insert(hallmark.variant).second);
  }
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.name);
    CHECK(known.count(variant.name) == 1);
  }
  CHECK(all_variants().size() == known.size());
  CHECK(all_variants().size() >= 24);
}

TEST_CASE("numerics: names are lower case, summaries are half a line, no two rules are equal") {
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.name);
    CHECK(variant.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
          std::string::npos);
    CHECK(variant.summary.size() < 120);
    for (const Variant& other : all_variants())
      CHECK((&other == &variant || !(other.ffn == variant.ffn) ||
             !(other.combine == variant.combine)));
  }
  CHECK(find_variant("contract") == &all_variants().front());
  CHECK(find_variant("Contract") == nullptr);
}

TEST_CASE("numerics: the table in docs has a row for every variant, in order") {
  std::ifstream file(source_root() + "/docs/numerics.md");
  std::vector<std::string> documented;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("| `", 0) == 0 && line.find("hidden") == std::string::npos)
      documented.push_back(line.substr(3, line.find('`', 3) - 3));
  std::vector<std::string> expected;
  for (const Variant& variant : all_variants()) expected.push_back(variant.name);
  CHECK(documented == expected);
}

TEST_CASE("numerics: an accumulator kept over all of K costs more the longer K is") {
  // 8 to 17 times were published for K = 2048 to 7168; how much it is depends on the data's tails.
  for (const auto& range : {std::tuple{2048u, 7.0, 9.0}, {7168u, 16.0, 21.0}}) {
    const uint32_t hidden = std::get<0>(range);
    const double least = std::get<1>(range);
    const double most = std::get<2>(range);
    CAPTURE(hidden);
    const Measured m =
        measure("normal", hidden, {"contract", "reuse-rescale", "reuse-rescale-ratio"});
    for (const char* name : {"reuse-rescale", "reuse-rescale-ratio"}) {
      const double ratio = m.linear1_rms(name) / m.linear1_rms("contract");
      CHECK(ratio > least);
      CHECK(ratio < most);
    }
    CHECK(m.of("reuse-rescale").y != m.of("reuse-rescale-ratio").y);
  }
}

TEST_CASE("numerics: on same-sign data a sum kept over all of K is pulled toward zero") {
  const Measured m =
      measure("same_sign", 4096,
              {"contract", "reuse-rescale", "promote-whole", "promote-32", "accumulate-exact"});
  CHECK(m.linear1_bias("reuse-rescale") < -0.03);
  CHECK(m.linear1_bias("promote-whole") < -0.03);
  CHECK(m.linear1_bias("contract") < 0);
  CHECK(m.linear1_bias("contract") > -0.002);
  CHECK(m.linear1_bias("promote-32") > m.linear1_bias("contract"));
  CHECK(std::abs(m.linear1_bias("accumulate-exact")) < 1e-6);
  CHECK(m.linear1_rms("reuse-rescale") > 50 * m.linear1_rms("contract"));
}

TEST_CASE("numerics: the contract follows every rule where its change would show") {
  const FfnRules contract;
  for (const test::ChangeInfo& info : test::all_changes()) {
    if (!test::seen_in_layer(info)) continue;
    const std::string change = info.id;
    CAPTURE(change);
    const std::optional<Problem> problem = test::find_layer_witness(info.change);
    REQUIRE(problem);
    const LayerResult expected = test::eval_layer(*problem, test::Change::None);
    const std::vector<VariantResult> results =
        run_bench(*problem, std::nullopt, {find_variant("contract")});
    CHECK(results[0].y == expected.y);
    const RankInput& input = problem->ranks[0];
    const auto weights = problem->weights->expert(static_cast<uint32_t>(input.topk_idx[0]));
    CodedRows x;
    x.codes = input.x_codes;
    x.scales = input.x_scales;
    CodedWeights w;
    w.w1.codes = weights->w1_codes;
    w.w1.scales = weights->w1_scales;
    w.w2.codes = weights->w2_codes;
    w.w2.scales = weights->w2_scales;
    const ExpertStages stages =
        expert_stages(contract, problem->shape, problem->clamp, x, w, {input.topk_weights[0]});
    // The first routed row of the layer is this expert's.
    CHECK(std::equal(stages.l1.codes.begin(), stages.l1.codes.end(), expected.l1_codes.begin()));
    CHECK(std::memcmp(stages.l1.scales.data(), expected.l1_scales.data(),
                      stages.l1.scales.size() * sizeof(float)) == 0);
    CHECK(std::equal(stages.l2.begin(), stages.l2.end(), expected.l2.begin()));
  }
}

}  // namespace moetwin::numerics
