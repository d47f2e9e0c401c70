#include <doctest/doctest.h>

#include <vector>

#include "common/ring_pool.h"
#include "common/weight_layout.h"

namespace moetwin {

TEST_CASE("weight_layout: the memory order of W1 is a permutation of its rows") {
  for (const uint32_t intermediate : {128u, 256u, 384u, 2048u}) {
    std::vector<uint32_t> seen(2 * intermediate, 0);
    for (uint32_t row = 0; row < 2 * intermediate; ++row) {
      const uint32_t source = w1_source_row(row, intermediate);
      REQUIRE(source < 2 * intermediate);
      ++seen[source];
    }
    for (const uint32_t count : seen) REQUIRE(count == 1);
  }
}

TEST_CASE("weight_layout: tile n holds gate and up columns 64 n to 64 n + 63, eight by eight") {
  constexpr uint32_t kIntermediate = 384;
  for (uint32_t tile = 0; tile < 2 * kIntermediate / kSliceN; ++tile)
    for (uint32_t chunk = 0; chunk < kSliceN / 8; ++chunk)
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t column = 64 * tile + 8 * (chunk / 2) + i;
        const uint32_t expected = chunk % 2 == 0 ? column : kIntermediate + column;
        REQUIRE(w1_source_row(tile * kSliceN + 8 * chunk + i, kIntermediate) == expected);
      }
}

}  // namespace moetwin
