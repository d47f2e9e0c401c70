// Clocks of the race checker against plain arrays: sharing rows must never show.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cpu_sim/race_clocks.h"
#include "model/counter_random.h"
#include "tests/simd_targets.h"

using namespace moetwin;

namespace {

constexpr uint32_t kRows = 3;
constexpr uint32_t kPlaces = 37;  // of a few vectors, the last one partly filled
constexpr uint32_t kClocks = 6;
using Plain = std::vector<uint32_t>;

bool equal(const VectorClock& clock, const Plain& plain) {
  for (uint32_t row = 0; row < kRows; ++row)
    for (uint32_t place = 0; place < kPlaces; ++place)
      if (clock.at(row, place) != plain[row * kPlaces + place]) return false;
  return true;
}

void compare_with_arrays(uint64_t operations) {
  ClockSpace space(kRows, kPlaces);
  std::vector<VectorClock> clocks;
  std::vector<Plain> plain(kClocks, Plain(kRows * kPlaces, 0));
  // Two of each home, and two of none.
  for (const uint32_t home : {0u, 0u, 1u, 1u, VectorClock::kNoHome, VectorClock::kNoHome})
    clocks.emplace_back(space, home);
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t random = detail::mix64(i);
    const auto a = static_cast<uint32_t>(random % kClocks);
    const auto b = static_cast<uint32_t>(random >> 8) % kClocks;
    const auto row = static_cast<uint32_t>(random >> 16) % kRows;
    const auto place = static_cast<uint32_t>(random >> 24) % kPlaces;
    const auto what = random >> 32 & 15;
    if (what < 8) {
      const uint32_t epoch = static_cast<uint32_t>(i);
      clocks[a].raise(row, place, epoch);
      plain[a][row * kPlaces + place] = std::max(plain[a][row * kPlaces + place], epoch);
    } else if (what < 13) {
      clocks[a].join(clocks[b]);
      for (uint32_t p = 0; p < kRows * kPlaces; ++p)
        plain[a][p] = std::max(plain[a][p], plain[b][p]);
    } else if (what == 13 && a != b) {
      clocks[a] = std::move(clocks[b]);
      plain[a] = plain[b];
      plain[b].assign(kRows * kPlaces, 0);
    } else if (what > 13) {
      if (random >> 40 & 1)
        clocks[a].clear();
      else
        clocks[a].forget();
      plain[a].assign(kRows * kPlaces, 0);
    }
    REQUIRE(equal(clocks[a], plain[a]));
    REQUIRE(equal(clocks[b], plain[b]));
  }
}

}  // namespace

TEST_CASE("race_clocks: a clock that learnt nothing is zero everywhere") {
  ClockSpace space(kRows, kPlaces);
  VectorClock clock(space);
  CHECK(equal(clock, Plain(kRows * kPlaces, 0)));
  VectorClock other(space);
  clock.join(other);
  CHECK(equal(clock, Plain(kRows * kPlaces, 0)));
}

TEST_CASE("race_clocks: a clock keeps what it learnt when its teacher learns more") {
  ClockSpace space(kRows, kPlaces);
  VectorClock teacher(space);
  VectorClock pupil(space);
  teacher.raise(1, 2, 7);
  pupil.join(teacher);
  teacher.raise(1, 2, 9);
  CHECK(pupil.at(1, 2) == 7);
  pupil.raise(1, 3, 4);
  CHECK(teacher.at(1, 3) == 0);
}

TEST_CASE("race_clocks: joins, raises, moves and clears in any order equal plain arrays") {
  test::for_each_simd_target([] { compare_with_arrays(8000); });
}
