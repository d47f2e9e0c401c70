#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>

#include "tests/routing_checks.h"

namespace moetwin {
namespace {
using namespace test;
}  // namespace

TEST_CASE("routing: every drawn kind gives in-range ids that differ within a token") {
  const Shape shape = shape_of(4, 64, 8, 500);
  for (const RoutingKind kind : kDrawnKinds) {
    CAPTURE(static_cast<int>(kind));
    const Ranks ranks = route(spec_of(kind), shape, {500, 0, 17, 300});
    REQUIRE(ranks.size() == 4);
    for (const RankInput& rank : ranks) {
      REQUIRE(rank.topk_idx.size() == size_t{rank.num_tokens} * 8);
      REQUIRE(rank.topk_weights.size() == rank.topk_idx.size());
      for (uint32_t token = 0; token < rank.num_tokens; ++token) {
        const auto slots = slots_of(rank, token, 8);
        CHECK(are_distinct(slots));
        CHECK(*std::min_element(slots.begin(), slots.end()) >= 0);
        CHECK(*std::max_element(slots.begin(), slots.end()) < 64);
      }
    }
  }
}

TEST_CASE("routing: values depend neither on capacity nor on other tokens nor on threads") {
  for (const RoutingKind kind : kDrawnKinds) {
    CAPTURE(static_cast<int>(kind));
    RoutingSpec spec = spec_of(kind, 7);
    spec.masked = 0.2;
    const Ranks base = route(spec, shape_of(4, 64, 6, 40), {10, 20, 30, 0});
    const Ranks roomy = route(spec, shape_of(4, 64, 6, 1000), {10, 20, 30, 0});
    const Ranks longer = route(spec, shape_of(4, 64, 6, 40), {10, 20, 40, 5});
    for (uint32_t rank = 0; rank < 4; ++rank) CHECK(same_routing(base[rank], roomy[rank]));
    CHECK(same_routing(base[0], longer[0]));
    CHECK(same_routing(base[1], longer[1]));
    CHECK(std::equal(base[2].topk_idx.begin(), base[2].topk_idx.end(), longer[2].topk_idx.begin()));
    if (kind != RoutingKind::RoundRobin) {
      const Ranks earlier = route(spec, shape_of(4, 64, 6, 40), {11, 0, 30, 0});
      CHECK(same_routing(base[2], earlier[2]));
    }
    const int threads = omp_get_max_threads();
    for (const int team : {1, 3}) {
      omp_set_num_threads(team);
      CHECK(digest_of(route(spec, shape_of(4, 64, 6, 40), {10, 20, 30, 0})) == digest_of(base));
    }
    omp_set_num_threads(threads);
  }
}

TEST_CASE("routing: each seed draws anew") {
  const Shape shape = shape_of(2, 64, 4, 50);
  for (const RoutingKind kind : kDrawnKinds) {
    CAPTURE(static_cast<int>(kind));
    CHECK(digest_of(route(spec_of(kind, 1), shape, {50, 50})) !=
          digest_of(route(spec_of(kind, 2), shape, {50, 50})));
  }
}

TEST_CASE("routing: a token masks each slot by itself and changes nothing else") {
  const Shape shape = shape_of(2, 64, 8, 5000);
  for (const RoutingKind kind : kDrawnKinds) {
    CAPTURE(static_cast<int>(kind));
    RoutingSpec spec = spec_of(kind, 5);
    const Ranks plain = route(spec, shape, {2000, 100});
    spec.masked = 0.1;
    const Ranks masked = route(spec, shape, {2000, 100});
    double count = 0;
    for (size_t i = 0; i < 16000; ++i) {
      if (masked[0].topk_idx[i] == kMaskedExpert) {
        ++count;
        REQUIRE(masked[0].topk_weights[i] == 0);
      } else {
        REQUIRE(masked[0].topk_idx[i] == plain[0].topk_idx[i]);
        REQUIRE(masked[0].topk_weights[i] == plain[0].topk_weights[i]);
      }
    }
    CHECK(std::abs(count - 1600) < 4 * 38);
    spec.masked = 1;
    const Ranks none = route(spec, shape, {20, 0});
    CHECK(std::count(none[0].topk_idx.begin(), none[0].topk_idx.end(), kMaskedExpert) == 160);
  }
}

TEST_CASE("routing: weights are normalised, uniform or raw as asked") {
  const Shape shape = shape_of(1, 16, 6, 5000);
  RoutingSpec spec = spec_of(RoutingKind::Uniform);
  Ranks ranks = route(spec, shape, {5000});
  for (uint32_t token = 0; token < 5000; ++token) {
    double sum = 0;
    for (uint32_t k = 0; k < 6; ++k) {
      const float weight = ranks[0].topk_weights[token * 6 + k];
      REQUIRE(weight > 0);
      REQUIRE(weight <= 1);
      sum += weight;
    }
    REQUIRE(std::abs(sum - 1) < 1e-6);
  }
  spec.weights = RoutingWeights::Uniform;
  ranks = route(spec, shape, {5000});
  for (const float weight : ranks[0].topk_weights) REQUIRE(weight == 1.0f / 6.0f);

  spec.weights = RoutingWeights::Raw;
  ranks = route(spec, shape, {5000});
  double zeros = 0;
  double negative = 0;
  double squares = 0;
  for (const float weight : ranks[0].topk_weights) {
    zeros += weight == 0 ? 1 : 0;
    negative += weight < 0 ? 1 : 0;
    squares += double{weight} * weight;
  }
  CHECK(std::abs(zeros - 30000 / 16.0) < 4 * std::sqrt(30000 / 16.0));
  CHECK(std::abs(negative - 30000 * 15 / 32.0) < 4 * 87);
  CHECK(std::abs(squares - 30000 * 15 / 16.0) < 900);

  spec.weights = RoutingWeights::Normalized;
  ranks = route(spec, shape_of(1, 16, 1, 50), {50});
  for (const float weight : ranks[0].topk_weights) CHECK(weight == 1.0f);
}

TEST_CASE("routing: token counts and fields outside their limits are refused by name") {
  const auto refused = [](const RoutingSpec& spec, const Shape& shape,
                          const std::vector<uint32_t>& tokens) {
    return refusal([&] { route(spec, shape, tokens); });
  };
  const Shape shape = shape_of(2, 8, 2, 4);
  RoutingSpec spec;
  CHECK(refused(spec, shape, {1}) == "tokens: 1 entries; shape.ranks is 2");
  CHECK(refused(spec, shape, {1, 5}) == "tokens[1]: 5 is above shape.max_tokens_per_rank, 4");
  CHECK(contains(refused(spec, shape_of(3, 8, 2, 4), {1, 1, 1}), "shape.experts: 8"));
  spec.masked = 1.5;
  CHECK(contains(refused(spec, shape, {1, 1}), "routing.masked: 1.5"));
  spec = spec_of(RoutingKind::Zipf);
  spec.alpha = std::nan("");
  CHECK(contains(refused(spec, shape, {1, 1}), "routing.alpha: nan"));
  spec = spec_of(RoutingKind::HotExpert);
  spec.expert = 8;
  CHECK(refused(spec, shape, {1, 1}) == "routing.expert: 8 is not below shape.experts, 8");
  spec = spec_of(RoutingKind::HotRank);
  spec.rank = 2;
  CHECK(refused(spec, shape, {1, 1}) == "routing.rank: 2 is not below shape.ranks, 2");
  spec.rank = 0;
  spec.share = -0.1;
  CHECK(contains(refused(spec, shape, {1, 1}), "routing.share: -0.1"));
  spec = spec_of(RoutingKind::GroupLimited);
  spec.groups = 3;
  CHECK(refused(spec, shape, {1, 1}) == "routing.groups: 3 is not a divisor of shape.experts, 8");
  spec.groups = 4;
  spec.topk_groups = 5;
  CHECK(refused(spec, shape, {1, 1}) == "routing.topk_groups: 5 is not 1 to 4");
}

TEST_CASE("routing: the bits of every drawn kind are those of format 1") {
  const std::string kRecorded[] = {"f72881abdfa2c1c7", "8544ec60bb3d65e4", "c606a6be4a7054c4",
                                   "f0dee4f11b8334d8", "a34bf7a0ed87d871", "303edfff63e1d0b8",
                                   "e44e7b4c242973e1"};
  const Shape shape = shape_of(4, 64, 8, 40);
  for (size_t i = 0; i < std::size(kDrawnKinds); ++i) {
    CAPTURE(i);
    RoutingSpec spec = spec_of(kDrawnKinds[i], 42);
    spec.masked = 0.05;
    spec.weights = static_cast<RoutingWeights>(i % 3);
    CHECK(digest_of(route(spec, shape, {40, 0, 7, 33})) == kRecorded[i]);
  }
}

}  // namespace moetwin
