#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "model/trace_files.h"
#include "tests/paths.h"
#include "tests/routing_checks.h"

namespace moetwin {
namespace {
using namespace test;

const std::string kOlmoeTrace = test_data("derived_topk_olmoe_arxiv_layer15.csv");

RoutingSpec explicit_spec() {
  RoutingSpec spec = spec_of(RoutingKind::Explicit);
  spec.topk_idx = {{{3, 3}, {0, -1}}, {}, {{7, 1}}};
  return spec;
}

std::string refused(const RoutingSpec& spec, const Shape& shape,
                    const std::vector<uint32_t>& tokens) {
  return refusal([&] { route(spec, shape, tokens); });
}

RoutingSpec trace_spec(const std::string& path) {
  RoutingSpec spec = spec_of(RoutingKind::Trace);
  spec.path = path;
  return spec;
}

RoutingSpec counts_spec(const std::string& path) {
  RoutingSpec spec = spec_of(RoutingKind::Counts);
  spec.path = path;
  spec.model = "m";
  spec.domain = "d";
  spec.layer = 0;
  return spec;
}

std::string counts_csv(const std::vector<uint64_t>& counts) {
  std::string text = "model,domain,layer,expert,count\n";
  for (size_t e = 0; e < counts.size(); ++e) {
    text += "m,d,0," + std::to_string(e) + "," + std::to_string(counts[e]) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("routing: explicit ids are taken as they are, duplicates and -1 included") {
  RoutingSpec spec = explicit_spec();
  spec.masked = 1;  // belongs to drawn kinds
  Ranks ranks = route(spec, shape_of(3, 9, 2, 2), {2, 0, 1});
  CHECK(ranks[0].topk_idx == std::vector<int32_t>{3, 3, 0, -1});
  CHECK(ranks[1].topk_idx.empty());
  CHECK(ranks[2].topk_idx == std::vector<int32_t>{7, 1});
  CHECK(ranks[0].topk_weights[3] == 0);
  CHECK(ranks[0].topk_weights[2] > 0);

  spec.topk_weights = {{{0.5, -2}, {0.1, 3}}, {}, {{0, 1}}};
  ranks = route(spec, shape_of(3, 9, 2, 2), {2, 0, 1});
  CHECK(ranks[0].topk_weights == std::vector<float>{0.5f, -2, 0.1f, 3});
  CHECK(ranks[2].topk_weights == std::vector<float>{0, 1});
}

TEST_CASE("routing: explicit lists of other lengths, ids or weights are refused with their place") {
  const Shape shape = shape_of(3, 9, 2, 2);
  CHECK(refused(explicit_spec(), shape, {1, 0, 1}) ==
        "routing.topk_idx[0]: 2 tokens; tokens[0] is 1");
  CHECK(refused(explicit_spec(), shape_of(1, 9, 2, 2), {2}) ==
        "routing.topk_idx: 3 ranks; shape.ranks is 1");
  CHECK(refused(explicit_spec(), shape_of(3, 6, 2, 2), {2, 0, 1}) ==
        "routing.topk_idx[2][0][0]: 7 is not -1 to 5");
  RoutingSpec spec = explicit_spec();
  spec.topk_idx[0][1] = {1, 2, 3};
  CHECK(refused(spec, shape, {2, 0, 1}) == "routing.topk_idx[0][1]: 3 ids; shape.topk is 2");
  for (const int64_t id : {int64_t{-2}, int64_t{9}, std::numeric_limits<int64_t>::min(),
                           std::numeric_limits<int64_t>::max(), int64_t{1} << 32}) {
    spec.topk_idx[0][1] = {1, id};
    CHECK(contains(refused(spec, shape, {2, 0, 1}), "routing.topk_idx[0][1][1]: "));
  }
  spec = explicit_spec();
  spec.topk_weights = {{{1, 1}, {1}}, {}, {{1, 1}}};
  CHECK(refused(spec, shape, {2, 0, 1}) ==
        "routing.topk_weights[0][1]: 1 weights; shape.topk is 2");
  spec.topk_weights = {{{1, 1}, {1, 1e39}}, {}, {{1, 1}}};
  CHECK(contains(refused(spec, shape, {2, 0, 1}), "routing.topk_weights[0][1][1]: "));
}

TEST_CASE("routing: a trace's rows go to the ranks in order, from the offset on") {
  RoutingSpec spec = trace_spec(kOlmoeTrace);
  const Shape shape = shape_of(8, 64, 8, 1024);
  const Ranks all = route(spec, shape, std::vector<uint32_t>(8, 1024));
  CHECK(std::vector<int32_t>(all[0].topk_idx.begin(), all[0].topk_idx.begin() + 8) ==
        std::vector<int32_t>{30, 35, 36, 17, 44, 57, 43, 53});
  // Sums over the whole file, taken from it by other means.
  uint64_t sum = 0;
  for (const RankInput& rank : all) {
    for (const int32_t e : rank.topk_idx) sum += static_cast<uint64_t>(e);
  }
  CHECK(sum == 1980594);

  spec.offset = 1000;
  const Ranks part = route(spec, shape_of(2, 64, 8, 100), {30, 20});
  for (uint32_t token = 0; token < 50; ++token) {
    const uint32_t row = 1000 + token;
    const auto expected = slots_of(all[row / 1024], row % 1024, 8);
    const auto got = token < 30 ? slots_of(part[0], token, 8) : slots_of(part[1], token - 30, 8);
    CHECK(std::equal(expected.begin(), expected.end(), got.begin()));
  }

  spec.offset = 8192 - 49;
  CHECK(refused(spec, shape_of(2, 64, 8, 100), {30, 20}) ==
        "routing.path: the trace has 8192 rows; routing.offset 8143 and 50 tokens need more");
  spec.offset = ~uint64_t{0} >> 1;
  CHECK(contains(refused(spec, shape_of(2, 64, 8, 100), {0, 0}), "the trace has 8192 rows"));
  spec.offset = 0;
  CHECK(contains(refused(spec, shape_of(2, 64, 4, 100), {1, 1}), "shape.topk is 4"));
  CHECK(contains(refused(spec, shape_of(2, 32, 8, 100), {1, 1}), "shape.experts is 32"));
}

TEST_CASE("routing: a trace's own weights are used, and it can be masked") {
  const TemporaryFile file(".csv", "e0,e1,w0,w1\n0,1,0.25,0.5\n2,-1,1,-3\n");
  RoutingSpec spec = trace_spec(file.path());
  Ranks ranks = route(spec, shape_of(1, 4, 2, 2), {2});
  CHECK(ranks[0].topk_weights == std::vector<float>{0.25f, 0.5f, 1, -3});
  spec.masked = 1;
  ranks = route(spec, shape_of(1, 4, 2, 2), {2});
  CHECK(ranks[0].topk_idx == std::vector<int32_t>{-1, -1, -1, -1});
  CHECK(ranks[0].topk_weights == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("routing: counts give every expert its share of the recorded load") {
  for (const char* domain : {"arxiv", "tulu"}) {
    for (const uint32_t layer : {0u, 7u, 15u}) {
      CAPTURE(domain);
      CAPTURE(layer);
      RoutingSpec spec = spec_of(RoutingKind::Counts);
      spec.domain = domain;
      spec.layer = layer;
      const std::vector<uint64_t> counts =
          read_expert_counts(spec.path, {spec.model, domain, layer}, 64);
      uint64_t total = 0;
      for (const uint64_t count : counts) total += count;
      const Shape shape = shape_of(1, 64, 8, 20000);
      const std::vector<double> got = loads(route(spec, shape, {20000}), 64);
      for (uint32_t e = 0; e < 64; ++e) {
        const double chance = 8.0 * static_cast<double>(counts[e]) / static_cast<double>(total);
        REQUIRE(chance <= 1);
        const double deviation = std::sqrt(20000 * chance * (1 - chance));
        CAPTURE(e);
        CHECK(std::abs(got[e] - 20000 * chance) <= 4.5 * deviation + 1);
      }
    }
  }
}

TEST_CASE("routing: counts never give a token an expert twice, and hand on what that cuts off") {
  // Expert 0 would be taken 2.4 times a token: once, and the other slots shared 1 : 2 : 3.
  const TemporaryFile file(".csv", counts_csv({24, 1, 2, 3}));
  const std::vector<double> got =
      loads(route(counts_spec(file.path()), shape_of(1, 4, 2, 12000), {12000}), 4);
  CHECK(got[0] == 12000);
  CHECK(std::abs(got[1] - 2000) < 170);
  CHECK(std::abs(got[2] - 4000) < 210);
  CHECK(std::abs(got[3] - 6000) < 220);

  // With a third slot expert 3's chance is above one too.
  const std::vector<double> three =
      loads(route(counts_spec(file.path()), shape_of(1, 4, 3, 9000), {9000}), 4);
  CHECK(three[0] == 9000);
  CHECK(three[3] == 9000);
  CHECK(std::abs(three[1] - 3000) < 180);

  const TemporaryFile unused(".csv", counts_csv({5, 0, 0, 9, 0}));
  const std::vector<double> filled =
      loads(route(counts_spec(unused.path()), shape_of(1, 5, 4, 3000), {3000}), 5);
  CHECK(filled[0] == 3000);
  CHECK(filled[3] == 3000);
  for (const uint32_t e : {1u, 2u, 4u}) CHECK(std::abs(filled[e] - 2000) < 110);
}

TEST_CASE("routing: the data file's routing must have exactly one row a token") {
  const std::vector<int32_t> ids = {0, 1, 2, -1, 3, 3};
  const std::vector<float> weights = {1, 2, 3, std::nanf(""), 5, -6};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), {tensor_source("topk.idx", Dtype::I32, {3, 2}, ids),
                                  tensor_source("topk.weights", Dtype::F32, {3, 2}, weights)});
  RoutingSpec spec = spec_of(RoutingKind::File);
  spec.path = file.path();
  const Ranks ranks = route(spec, shape_of(2, 4, 2, 3), {1, 2});
  CHECK(ranks[0].topk_idx == std::vector<int32_t>{0, 1});
  CHECK(ranks[1].topk_idx == std::vector<int32_t>{2, -1, 3, 3});
  CHECK(std::isnan(ranks[1].topk_weights[1]));
  CHECK(ranks[1].topk_weights[3] == -6);

  CHECK(contains(refused(spec, shape_of(2, 4, 2, 3), {1, 1}), "shape [3, 2] is not [2, 2]"));
  CHECK(contains(refused(spec, shape_of(2, 4, 1, 3), {1, 2}), "shape [3, 2] is not [3, 1]"));
  CHECK(contains(refused(spec, shape_of(1, 3, 2, 3), {3}), "topk.idx[2][0]: 3 is not -1 to 2"));
  const TemporaryFile lacking(".safetensors");
  write_safetensors(lacking.path(), {tensor_source("topk.idx", Dtype::I32, {3, 2}, ids)});
  spec.path = lacking.path();
  CHECK(contains(refused(spec, shape_of(1, 4, 2, 3), {3}), "has no tensor \"topk.weights\""));
  spec.path = "/nonexistent/t.safetensors";
  CHECK(contains(refused(spec, shape_of(1, 4, 2, 3), {3}), "/nonexistent/t.safetensors: cannot"));
}

}  // namespace moetwin
