#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include "common/block_scheduler.h"

using namespace moetwin;

namespace {

using TileKey = std::tuple<TileKind, uint32_t, uint32_t>;

/// First blocks of experts with these block counts, with the total at the end.
std::vector<uint32_t> first_blocks(const std::vector<uint32_t>& blocks) {
  std::vector<uint32_t> first{0};
  for (const uint32_t count : blocks) first.push_back(first.back() + count);
  return first;
}

}  // namespace

TEST_CASE("block_scheduler: ring order names every tile exactly once") {
  for (uint32_t n1 = 1; n1 <= 4; ++n1)
    for (uint32_t n2 = 1; n2 <= 4; ++n2)
      for (uint32_t blocks = 0; blocks <= 9; ++blocks)
        for (uint32_t warm_up = 1; warm_up <= 11; ++warm_up) {
          std::set<TileKey> seen;
          uint32_t task = 0;
          for (;; ++task) {
            const Tile tile = ring_tile(task, blocks, {n1, n2}, warm_up);
            if (tile.kind == TileKind::None) break;
            REQUIRE(tile.block < blocks);
            REQUIRE(tile.n < (tile.kind == TileKind::Linear1 ? n1 : n2));
            REQUIRE(seen.insert({tile.kind, tile.block, tile.n}).second);
          }
          REQUIRE(task == uint64_t{blocks} * (n1 + n2));
          REQUIRE(ring_tile(task + 1000, blocks, {n1, n2}, warm_up).kind == TileKind::None);
        }
}

TEST_CASE(
    "block_scheduler: wave order names every slice once, also when waves do not divide experts") {
  const std::vector<uint32_t> blocks{0, 2, 1, 0, 3, 0, 1};
  const std::vector<uint32_t> first = first_blocks(blocks);
  for (const TileCounts tiles : {TileCounts{3, 2, 1}, TileCounts{3, 2, 2}})
    for (uint32_t wave = 1; wave <= 8; ++wave)
      for (uint32_t sms = 1; sms <= 45; ++sms) {
        std::set<TileKey> seen;  // of slices
        for (uint32_t sm = 0; sm < sms; ++sm) {
          WaveCursor cursor;
          for (uint32_t task = sm;; task += sms) {
            const Tile tile =
                wave_tile(cursor, task, 7, wave, tiles, sms, [&](uint32_t e) { return first[e]; });
            if (tile.kind == TileKind::None) break;
            REQUIRE(tile.n < (tile.kind == TileKind::Linear1 ? tiles.n1 : tiles.n2));
            REQUIRE(tile.slice + tile.slices <= tiles.slices);
            for (uint32_t slice = 0; slice < tile.slices; ++slice)
              REQUIRE(
                  seen.insert({tile.kind, tile.block, tile.n * tiles.slices + tile.slice + slice})
                      .second);
          }
        }
        REQUIRE(seen.size() == first.back() * (tiles.linear1_slices() + tiles.linear2_slices()));
      }
}

TEST_CASE("block_scheduler: in a wave Linear1 of all its blocks comes before Linear2 of any") {
  const std::vector<uint32_t> first = first_blocks({2, 1, 1});
  WaveCursor cursor;
  std::vector<TileKind> kinds;
  for (uint32_t task = 0;; ++task) {
    const Tile tile =
        wave_tile(cursor, task, 3, 2, {2, 1}, 1, [&](uint32_t e) { return first[e]; });
    if (tile.kind == TileKind::None) break;
    kinds.push_back(tile.kind);
  }
  const auto l1 = TileKind::Linear1;
  const auto l2 = TileKind::Linear2;
  CHECK(kinds == std::vector<TileKind>{l1, l1, l1, l1, l1, l1, l2, l2, l2, l1, l1, l2});
}

TEST_CASE("block_scheduler: in a wave all blocks of an expert come before its next weight rows") {
  const std::vector<uint32_t> first = first_blocks({2, 0, 1});
  WaveCursor cursor;
  std::vector<std::pair<uint32_t, uint32_t>> order;
  for (uint32_t task = 0;; ++task) {
    const Tile tile =
        wave_tile(cursor, task, 3, 3, {2, 3}, 1, [&](uint32_t e) { return first[e]; });
    if (tile.kind == TileKind::None) break;
    order.push_back({tile.block, tile.n});
  }
  CHECK(order == std::vector<std::pair<uint32_t, uint32_t>>{{0, 0},
                                                            {1, 0},
                                                            {0, 1},
                                                            {1, 1},
                                                            {2, 0},
                                                            {2, 1},
                                                            {0, 0},
                                                            {1, 0},
                                                            {0, 1},
                                                            {1, 1},
                                                            {0, 2},
                                                            {1, 2},
                                                            {2, 0},
                                                            {2, 1},
                                                            {2, 2}});
}

TEST_CASE("block_scheduler: a GEMM that leaves half of the SMs idle is dealt out slice by slice") {
  const std::vector<uint32_t> first = first_blocks({1, 1});
  const auto tasks = [&](uint32_t sms, TileKind kind) {
    WaveCursor cursor;
    std::vector<uint32_t> slices;
    for (uint32_t task = 0;; ++task) {
      const Tile tile =
          wave_tile(cursor, task, 2, 2, {3, 2, 2}, sms, [&](uint32_t e) { return first[e]; });
      if (tile.kind == TileKind::None) return slices;
      if (tile.kind == kind) slices.push_back(tile.slices);
    }
  };
  // Six tiles of Linear1, four of Linear2.
  CHECK(tasks(7, TileKind::Linear1) == std::vector<uint32_t>(6, 2));
  CHECK(tasks(7, TileKind::Linear2) == std::vector<uint32_t>(4, 2));
  CHECK(tasks(8, TileKind::Linear1) == std::vector<uint32_t>(6, 2));
  CHECK(tasks(8, TileKind::Linear2) == std::vector<uint32_t>(8, 1));
  CHECK(tasks(12, TileKind::Linear1) == std::vector<uint32_t>(12, 1));
}

TEST_CASE("block_scheduler: the last tiles of a launch are dealt out slice by slice") {
  // Sixteen tiles of Linear1 and twenty of Linear2 in the first wave, eight and ten in the second.
  const std::vector<uint32_t> first = first_blocks({2, 2, 1, 1});
  const TileCounts tiles{4, 5, 2};
  const auto slices = [&](uint32_t sms, TileKind kind) {
    WaveCursor cursor;
    std::vector<uint32_t> found;
    for (uint32_t task = 0;; ++task) {
      const Tile tile =
          wave_tile(cursor, task, 4, 2, tiles, sms, [&](uint32_t e) { return first[e]; });
      if (tile.kind == TileKind::None) return found;
      if (tile.kind == kind) found.push_back(tile.slices);
    }
  };
  const auto whole = [](size_t tiles, size_t behind) {
    std::vector<uint32_t> all(tiles, 2);
    all.insert(all.end(), behind, 1);
    return all;
  };
  // Of the second wave's ten tiles of Linear2 one SM has the eight it takes, two have not.
  CHECK(slices(1, TileKind::Linear1) == whole(24, 0));
  CHECK(slices(1, TileKind::Linear2) == whole(29, 2));
  CHECK(slices(2, TileKind::Linear2) == whole(30, 0));
  // 312 in a single wave: a quarter of the SMs' number, rounded up, is dealt out so.
  const auto one_wave = [&](uint32_t sms) {
    WaveCursor cursor;
    uint32_t halves = 0;
    for (uint32_t task = 0;; ++task) {
      const Tile tile =
          wave_tile(cursor, task, 4, 4, {4, 52, 2}, sms, [&](uint32_t e) { return first[e]; });
      if (tile.kind == TileKind::None) return halves;
      halves += tile.slices == 1;
    }
  };
  CHECK(one_wave(4) == 2);
  CHECK(one_wave(5) == 4);
  CHECK(one_wave(36) == 18);
  CHECK(one_wave(39) == 20);
  CHECK(one_wave(40) == 0);
}

TEST_CASE("block_scheduler: a block belongs to the expert whose range holds it") {
  const std::vector<uint32_t> blocks{0, 0, 2, 0, 1, 3, 0};
  const std::vector<uint32_t> first = first_blocks(blocks);
  for (uint32_t expert = 0; expert < blocks.size(); ++expert)
    for (uint32_t block = first[expert]; block < first[expert + 1]; ++block)
      CHECK(expert_of_block(7, block, [&](uint32_t e) { return first[e]; }) == expert);
}
