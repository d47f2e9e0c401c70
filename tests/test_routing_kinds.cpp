#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/routing_checks.h"

namespace moetwin {
namespace {
using namespace test;
}  // namespace

TEST_CASE("routing: uniform loads every expert alike, whatever the slot") {
  const Shape shape = shape_of(2, 32, 8, 10000);
  const Ranks ranks = route(spec_of(RoutingKind::Uniform), shape, {10000, 10000});
  for (uint32_t k = 0; k < 8; ++k) {
    std::vector<double> counts(32, 0);
    for (const RankInput& rank : ranks) {
      for (uint32_t token = 0; token < rank.num_tokens; ++token) {
        ++counts[static_cast<size_t>(slots_of(rank, token, 8)[k])];
      }
    }
    double chi_square = 0;
    for (const double count : counts) chi_square += (count - 625) * (count - 625) / 625;
    CAPTURE(k);
    CHECK(chi_square < 61.1);  // 31 degrees of freedom, one in a thousand
    CHECK(chi_square > 11.0);
  }
}

TEST_CASE("routing: a token that takes all experts takes each once") {
  const Shape shape = shape_of(1, 32, 32, 20);
  for (const RoutingKind kind : kDrawnKinds) {
    if (kind == RoutingKind::Counts) continue;
    const Ranks ranks = route(spec_of(kind), shape, {20});
    for (uint32_t token = 0; token < 20; ++token) {
      CHECK(are_distinct(slots_of(ranks[0], token, 32)));
    }
  }
}

TEST_CASE("routing: slots are drawn by themselves with duplicates and where K exceeds E") {
  for (const RoutingKind kind : kDrawnKinds) {
    if (kind == RoutingKind::RoundRobin) continue;
    CAPTURE(static_cast<int>(kind));
    RoutingSpec spec = spec_of(kind);
    spec.duplicates = true;
    const Ranks ranks = route(spec, shape_of(4, 64, 8, 500), {500, 500, 0, 0});
    uint32_t repeats = 0;
    for (uint32_t token = 0; token < 500; ++token) {
      repeats += are_distinct(slots_of(ranks[0], token, 8)) ? 0 : 1;
    }
    CHECK(repeats > 100);
    if (kind == RoutingKind::Counts) continue;
    const Ranks few = route(spec_of(kind), shape_of(2, 4, 8, 100), {100, 100});
    CHECK_FALSE(are_distinct(slots_of(few[0], 0, 8)));
    for (const double load : loads(few, 4)) CHECK(load > 0);
  }
}

TEST_CASE("routing: zipf's first slot follows the power of each expert's place") {
  RoutingSpec spec = spec_of(RoutingKind::Zipf, 3);
  const Ranks ranks = route(spec, shape_of(2, 16, 1, 50000), {50000, 50000});
  std::vector<double> counts = loads(ranks, 16);
  CHECK_FALSE(std::is_sorted(counts.rbegin(), counts.rend()));  // the order is a seeded one
  std::sort(counts.rbegin(), counts.rend());
  double sum = 0;
  for (uint32_t place = 0; place < 16; ++place) sum += std::pow(place + 1, -1.2);
  for (uint32_t place = 0; place < 16; ++place) {
    const double expected = 100000 * std::pow(place + 1, -1.2) / sum;
    CAPTURE(place);
    CHECK(std::abs(counts[place] - expected) < 4 * std::sqrt(expected));
  }
}

TEST_CASE("routing: zipf draws distinct experts even where one has all the weight") {
  RoutingSpec spec = spec_of(RoutingKind::Zipf);
  spec.alpha = 10;
  const Ranks ranks = route(spec, shape_of(1, 512, 32, 50), {50});
  for (uint32_t token = 0; token < 50; ++token) CHECK(are_distinct(slots_of(ranks[0], token, 32)));
  std::vector<double> counts = loads(ranks, 512);
  std::sort(counts.rbegin(), counts.rend());
  for (uint32_t place = 0; place < 8; ++place) CHECK(counts[place] == 50);
  spec.alpha = 0;
  counts = loads(route(spec, shape_of(1, 8, 1, 8000), {8000}), 8);
  for (const double count : counts) CHECK(std::abs(count - 1000) < 4 * std::sqrt(1000.0));
}

TEST_CASE("routing: hot_expert takes slot 0 with its share and no other slot of that token") {
  const Shape shape = shape_of(2, 32, 4, 5000);
  RoutingSpec spec = spec_of(RoutingKind::HotExpert);
  spec.expert = 21;
  for (const double share : {0.0, 0.3, 0.9, 1.0}) {
    CAPTURE(share);
    spec.share = share;
    const Ranks ranks = route(spec, shape, {5000, 5000});
    double hot = 0;
    for (const RankInput& rank : ranks) {
      for (uint32_t token = 0; token < rank.num_tokens; ++token) {
        hot += slots_of(rank, token, 4)[0] == 21 ? 1 : 0;
      }
    }
    const double expected = 10000 * (share + (1 - share) / 32);
    CHECK(std::abs(hot - expected) <= 4 * std::sqrt(expected * (1 - expected / 10000) + 1e-9));
  }
  spec.share = 0;
  CHECK(digest_of(route(spec, shape, {100, 100})) ==
        digest_of(route(spec_of(RoutingKind::Uniform), shape, {100, 100})));
}

TEST_CASE("routing: hot_rank fills its own experts first and then the others") {
  RoutingSpec spec = spec_of(RoutingKind::HotRank);
  spec.rank = 2;
  for (const uint32_t topk : {3u, 4u, 7u, 16u}) {
    CAPTURE(topk);
    const Ranks ranks = route(spec, shape_of(4, 16, topk, 200), {200, 0, 0, 0});
    for (uint32_t token = 0; token < 200; ++token) {
      const auto slots = slots_of(ranks[0], token, topk);
      REQUIRE(are_distinct(slots));
      for (uint32_t k = 0; k < topk; ++k) {
        const bool on_rank = slots[k] >= 8 && slots[k] < 12;
        REQUIRE(on_rank == (k < 4));
      }
    }
    if (topk == 7) {
      const std::vector<double> counts = loads(ranks, 16);
      for (uint32_t e = 0; e < 16; ++e) {
        if (e < 8 || e >= 12) CHECK(std::abs(counts[e] - 50) < 30);
      }
    }
  }
  spec.share = 0.5;
  const Ranks half = route(spec, shape_of(4, 16, 1, 4000), {4000, 0, 0, 0});
  const std::vector<double> counts = loads(half, 16);
  const double on_rank = counts[8] + counts[9] + counts[10] + counts[11];
  CHECK(std::abs(on_rank - 4000 * (0.5 + 0.5 / 4)) < 130);
}

TEST_CASE("routing: group_limited stays within its groups and takes more only to hold K experts") {
  RoutingSpec spec = spec_of(RoutingKind::GroupLimited);
  spec.groups = 8;
  for (const uint32_t topk_groups : {1u, 2u, 3u, 8u}) {
    spec.topk_groups = topk_groups;
    // Eight groups of four: six experts need two groups.
    const Ranks ranks = route(spec, shape_of(2, 32, 6, 2000), {2000, 0});
    const uint32_t allowed = std::max(topk_groups, 2u);
    uint32_t largest = 0;
    for (uint32_t token = 0; token < 2000; ++token) {
      std::set<int32_t> groups;
      for (const int32_t e : slots_of(ranks[0], token, 6)) groups.insert(e / 4);
      largest = std::max(largest, static_cast<uint32_t>(groups.size()));
    }
    CAPTURE(topk_groups);
    CHECK(largest == std::min(allowed, 6u));
    for (const double load : loads(ranks, 32)) CHECK(std::abs(load - 375) < 100);
  }
  spec.groups = 0;
  spec.topk_groups = 0;
  const Ranks defaults = route(spec, shape_of(8, 64, 8, 500), {500, 0, 0, 0, 0, 0, 0, 0});
  for (uint32_t token = 0; token < 500; ++token) {
    std::set<int32_t> groups;
    for (const int32_t e : slots_of(defaults[0], token, 8)) groups.insert(e / 8);
    CHECK(groups.size() <= 4);
  }
}

TEST_CASE("routing: round_robin counts tokens over all ranks") {
  RoutingSpec spec = spec_of(RoutingKind::RoundRobin);
  spec.offset = (uint64_t{1} << 63) - 1;
  const Ranks ranks = route(spec, shape_of(3, 12, 5, 9), {4, 0, 9});
  uint64_t global = 0;
  for (const RankInput& rank : ranks) {
    for (uint32_t token = 0; token < rank.num_tokens; ++token, ++global) {
      for (uint64_t k = 0; k < 5; ++k) {
        const uint64_t expected = (global * 5 + k + spec.offset % 12) % 12;
        CHECK(slots_of(rank, token, 5)[k] == static_cast<int32_t>(expected));
      }
    }
  }
}

}  // namespace moetwin
