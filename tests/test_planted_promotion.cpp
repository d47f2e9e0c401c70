// Promotion under a planted fault: what the fault does not touch is worked out as ever.
#include <doctest/doctest.h>

#include <vector>

#include "cpu_sim/schedule.h"
#include "cpu_sim/tile_jobs.h"

namespace moetwin {
namespace {

/// A tile of two blocks of `steps` K = 32 steps each, asked for `asked` times.
std::vector<float> tile_values(LayerFault fault, uint32_t steps, int asked) {
  constexpr uint32_t kRows = 3;
  std::vector<uint8_t> codes(kSliceN * kBlockK);
  TileJobs tiles(1, fault);
  TileJob* job = tiles.acquire(kRows);
  for (uint64_t block = 0; block < 2; ++block) {
    for (size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<uint8_t>(counter_random(7, block, i) & 0xB7);  // finite, below 32
    const uint32_t number = tiles.multiply(*job, codes.data(), codes.data(), kBlockK, steps);
    for (float& scale : job->blocks[number].row_scales) scale = 0x1.921fb6p-3f;
    job->blocks[number].even_scale = 0x1.4p-2f;
    job->blocks[number].odd_scale = 0x1.2p-1f;
    tiles.make_ready(*job, number);
  }
  for (int i = 0; i < asked; ++i) tiles.finish(*job);
  std::vector<float> values(job->values.begin(), job->values.begin() + kRows * kSliceN);
  tiles.release(job);
  return values;
}

}  // namespace

TEST_CASE(
    "planted promotion: a tile that the fault leaves alone keeps its bits, however often asked") {
  constexpr uint32_t kLinear1Steps = kBlockK / kMmaK;
  const std::vector<float> right = tile_values(LayerFault::None, kLinear1Steps, 1);
  CHECK(right[kSliceN] != 0);
  CHECK(tile_values(LayerFault::None, kLinear1Steps, 2) == right);
  CHECK(tile_values(LayerFault::Linear2Unfused, kLinear1Steps, 1) == right);
  CHECK(tile_values(LayerFault::Linear2Unfused, kLinear1Steps, 2) == right);
  constexpr uint32_t kLinear2Steps = kLinear1Steps / 2;
  CHECK(tile_values(LayerFault::Linear1Unfused, kLinear2Steps, 1) ==
        tile_values(LayerFault::None, kLinear2Steps, 1));
}

TEST_CASE("planted promotion: a product and a sum differ from one fma in the layer planted alone") {
  constexpr uint32_t kLinear1Steps = kBlockK / kMmaK;
  constexpr uint32_t kLinear2Steps = kLinear1Steps / 2;
  CHECK(tile_values(LayerFault::Linear1Unfused, kLinear1Steps, 1) !=
        tile_values(LayerFault::None, kLinear1Steps, 1));
  CHECK(tile_values(LayerFault::Linear2Unfused, kLinear2Steps, 1) !=
        tile_values(LayerFault::None, kLinear2Steps, 1));
}

TEST_CASE(
    "planted promotion: one promotion for all of K is told from one a block, asked twice too") {
  constexpr uint32_t kSteps = 2;
  const std::vector<float> wrong = tile_values(LayerFault::PromotedOnce, kSteps, 1);
  CHECK(wrong != tile_values(LayerFault::None, kSteps, 1));
  CHECK(tile_values(LayerFault::PromotedOnce, kSteps, 2) == wrong);
}

}  // namespace moetwin
