#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/kernel_plan.h"
#include "common/slot_table.h"

using namespace moetwin;

namespace {

/// The most blocks by trying every way to give `rows` rows to `experts` experts.
uint64_t most_blocks(uint32_t experts, uint32_t rows, uint32_t block_m) {
  if (experts == 1) return blocks_of(rows, block_m);
  uint64_t most = 0;
  for (uint32_t first = 0; first <= rows; ++first)
    most =
        std::max(most, blocks_of(first, block_m) + most_blocks(experts - 1, rows - first, block_m));
  return most;
}

}  // namespace

TEST_CASE("ring_pool: no routing needs more blocks than max_pool_blocks, and one needs them all") {
  for (uint32_t experts = 1; experts <= 3; ++experts)
    for (uint32_t tokens = 1; tokens <= 14; ++tokens)
      for (const uint32_t block_m : {4u, 5u}) {
        const Shape shape{1, experts, 1, 128, 128, tokens};
        CHECK(max_pool_blocks(shape, block_m) == most_blocks(experts, tokens, block_m));
      }
}

TEST_CASE("ring_pool: the rows of a block add BLOCK_M to x_full, whatever the count") {
  for (const uint32_t block_m : {64u, 128u})
    for (uint32_t rows = 1; rows <= 3 * block_m + 1; ++rows) {
      std::vector<uint32_t> added(blocks_of(rows, block_m), 0);
      for (uint32_t row = 0; row < rows; ++row)
        added[row / block_m] += x_full_share(row, rows, block_m);
      for (const uint32_t sum : added) REQUIRE(sum == block_m);
    }
}

TEST_CASE("ring_pool: every target grows by what one block adds from lap to lap") {
  const TileCounts tiles{6, 3, 2};
  for (uint32_t lap = 0; lap < 5; ++lap) {
    CHECK(x_full_target(lap + 1, 192) - x_full_target(lap, 192) == 192);
    CHECK(x_empty_target(lap + 1, tiles) - x_empty_target(lap, tiles) == 12);
    CHECK(l1_full_target(lap + 1, tiles, 2) - l1_full_target(lap, tiles, 2) == 24);
    CHECK(l1_empty_target(lap + 1, tiles) - l1_empty_target(lap, tiles) == 6);
  }
  CHECK(x_empty_target(0, tiles) == 0);
  CHECK(ring_slot(7, 3).index == 1);
  CHECK(ring_slot(7, 3).lap == 2);
}

TEST_CASE(
    "ring_pool: in ring order everything a tile waits for stands before it, at the safe size") {
  const TileCounts tiles{4, 3};
  for (uint32_t warm_up = 1; warm_up <= 5; ++warm_up)
    for (uint32_t blocks = 1; blocks <= 12; ++blocks) {
      const uint32_t ring = std::min(warm_up, blocks);
      std::vector<uint32_t> l1_done(blocks, 0);
      std::vector<uint32_t> l2_done(blocks, 0);
      for (uint32_t task = 0;; ++task) {
        const Tile tile = ring_tile(task, blocks, tiles, warm_up);
        if (tile.kind == TileKind::None) break;
        if (tile.kind == TileKind::Linear1) {
          if (tile.block >= ring) REQUIRE(l2_done[tile.block - ring] == tiles.n2);
          ++l1_done[tile.block];
        } else {
          REQUIRE(l1_done[tile.block] == tiles.n1);
          ++l2_done[tile.block];
        }
      }
      for (uint32_t block = 0; block < blocks; ++block) {
        REQUIRE(l1_done[block] == tiles.n1);
        REQUIRE(l2_done[block] == tiles.n2);
      }
    }
}

TEST_CASE("ring_pool: one slot fewer than the safe size puts a tile before what it waits for") {
  const TileCounts tiles{4, 3};
  const uint32_t warm_up = 3;
  const uint32_t blocks = 6;
  std::vector<uint32_t> l2_done(blocks, 0);
  bool violated = false;
  for (uint32_t task = 0;; ++task) {
    const Tile tile = ring_tile(task, blocks, tiles, warm_up);
    if (tile.kind == TileKind::None) break;
    if (tile.kind == TileKind::Linear2) ++l2_done[tile.block];
    if (tile.kind == TileKind::Linear1 && tile.block >= warm_up - 1)
      violated |= l2_done[tile.block - (warm_up - 1)] < tiles.n2;
  }
  CHECK(violated);
}

TEST_CASE("ring_pool: a plan refuses a ring below the smallest safe one, and takes that one") {
  const Shape shape{2, 8, 4, 256, 256, 256};
  KernelOptions options;
  const uint64_t safe =
      smallest_safe_ring(shape, {options.block_m, options.block_n}, options.sms_per_rank);
  REQUIRE(safe > 1);
  CHECK(make_plan(shape, options).plan.ring_blocks == safe);
  options.ring_blocks = static_cast<uint32_t>(safe);
  CHECK(!make_plan(shape, options).error);
  options.ring_blocks = static_cast<uint32_t>(safe) - 1;
  const PlanResult refused = make_plan(shape, options);
  REQUIRE(refused.error);
  CHECK(std::string(refused.error.field) == "kernel.ring_blocks");
  CHECK(!make_plan(shape, options, true).error);
}
