#include <doctest/doctest.h>

#include <set>
#include <vector>

#include "common/routing.h"
#include "common/slot_table.h"

using namespace moetwin;

TEST_CASE("slot_table: round robin takes slot i of each rank that has more than i, ascending") {
  const std::vector<std::vector<uint32_t>> samples{{3},          {0, 2},       {1, 1, 1},
                                                   {5, 0, 2, 1}, {0, 0, 0, 4}, {2, 7, 7, 0, 1, 3}};
  for (const auto& counts : samples) {
    std::vector<SlotSource> expected;
    for (uint32_t i = 0; i < 8; ++i)
      for (uint32_t rank = 0; rank < counts.size(); ++rank)
        if (counts[rank] > i) expected.push_back({rank, i});
    for (uint32_t row = 0; row < expected.size(); ++row) {
      const SlotSource got = round_robin_source(static_cast<uint32_t>(counts.size()), row,
                                                [&](uint32_t rank) { return counts[rank]; });
      CHECK(got.rank == expected[row].rank);
      CHECK(got.slot == expected[row].slot);
    }
  }
}

TEST_CASE("slot_table: no two (expert, source rank, slot) share a place, and the table is full") {
  const Shape shape{3, 6, 4, 128, 128, 5};
  std::set<uint64_t> places;
  for (uint32_t expert = 0; expert < shape.num_local_experts(); ++expert)
    for (uint32_t rank = 0; rank < shape.ranks; ++rank)
      for (uint32_t slot = 0; slot < shape.slots_per_source(); ++slot)
        REQUIRE(places.insert(slot_index(shape, expert, rank, slot)).second);
  CHECK(*places.rbegin() + 1 == places.size());
}

TEST_CASE("slot_table: one packed add counts rows in the low half and SMs in the high half") {
  uint64_t word = 0;
  for (const uint32_t count : {0u, 7u, 0xFFFFu}) word += packed_send_count(count);
  CHECK(send_count_rows(word) == 7 + 0xFFFF);
  CHECK(send_count_sms(word) == 3);
}

TEST_CASE("routing: a warp's lanes cover whole tokens for every top-k") {
  for (uint32_t topk = 1; topk <= kMaxTopk; ++topk) {
    CHECK(route_lanes(topk) <= kWarpLanes);
    CHECK(route_lanes(topk) % topk == 0);
    CHECK(tokens_per_warp(topk) >= 1);
    for (uint32_t lane = 0; lane < route_lanes(topk); ++lane) {
      const uint32_t flat = static_cast<uint32_t>(flat_route(10, lane, topk));
      CHECK(route_token(flat, topk) == 10 + lane / topk);
      CHECK(route_k(flat, topk) == lane % topk);
    }
  }
}
