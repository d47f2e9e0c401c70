// Tiles of 256 weight rows: the simulator's bits are the naive path's in them too, and what the
// plan says of them fits the shape and the card.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "common/kernel_plan.h"
#include "common/roles/math_part.h"
#include "cpu_sim/simulate.h"
#include "fuzz/generator.h"
#include "model/compare.h"
#include "model/kernel_choice.h"
#include "model/naive.h"

using namespace moetwin;

TEST_CASE("wide_tiles: generated cases give the naive path's bits in tiles of 256 weight rows") {
  constexpr uint64_t kSeed = 256;
  uint32_t widened = 0;
  for (uint64_t i = 0; widened < 120; ++i) {
    Case c = random_case(kSeed, i);
    if (!widen_tiles(c)) continue;
    ++widened;
    CAPTURE(i);
    const RunResult simulated = simulate(c, {});
    CHECK(simulated.findings.empty());
    REQUIRE(simulated.launches.size() == c.launches.size());
    WeightCache cache;
    for (size_t launch = 0; launch < c.launches.size(); ++launch)
      REQUIRE(compare_results(simulated.launches[launch], run_naive(make_problem(c, launch, cache)))
                  .equal());
  }
}

TEST_CASE("wide_tiles: tasks of one slice give the naive path's bits") {
  for (const uint32_t block_m : {64u, 128u})
    for (const uint32_t sms : {3u, 8u, 16u}) {
      Case c;
      c.shape = {2, 4, 2, 512, 256, 40};
      c.tokens = {40, 3};
      c.kernel.block_m = block_m;
      c.kernel.block_n = 256;
      c.kernel.stages = 2;
      c.kernel.sms_per_rank = sms;
      c.kernel.scheduler = SchedulerPolicy::Wave;
      c.kernel.experts_per_wave = 1;  // 2 tiles of Linear1 and of Linear2 a block
      set_launches(c, 2);
      CAPTURE(block_m);
      CAPTURE(sms);
      RunOptions options;
      options.check = true;
      const RunResult simulated = simulate(c, options);
      CHECK(simulated.findings.empty());
      REQUIRE(simulated.launches.size() == 2);
      WeightCache cache;
      for (size_t launch = 0; launch < 2; ++launch)
        CHECK(compare_results(simulated.launches[launch], run_naive(make_problem(c, launch, cache)))
                  .equal());
    }
}

TEST_CASE("wide_tiles: the math warpgroups' parts are every valid row times every slice, once") {
  const Shape shape{2, 4, 2, 512, 128, 16};
  for (const uint32_t block_m : {64u, 128u})
    for (const uint32_t block_n : {128u, 256u}) {
      KernelOptions options;
      options.block_m = block_m;
      options.block_n = block_n;
      const KernelPlan plan = make_plan(shape, options).plan;
      for (uint32_t rows = 1; rows <= block_m; ++rows) {
        const TaskEntry task{TileKind::Linear1, 0, 3, 0, rows, 0, plan.slices(), 0};
        std::vector<uint32_t> times(size_t{rows} * plan.slices(), 0);
        uint32_t busy = 0;
        for (uint32_t warpgroup = 0; warpgroup < plan.math_warpgroups; ++warpgroup) {
          const MathPart part = math_part(plan, warpgroup, task);
          busy += part.valid != 0;
          REQUIRE(part.first + part.valid <= rows + (part.valid == 0 ? block_m : 0));
          CHECK(part.first_slice == task.n * plan.slices() + part.slice);
          for (uint32_t row = 0; row < part.valid; ++row)
            for (uint32_t slice = 0; slice < part.slices; ++slice)
              ++times[(part.first + row) * plan.slices() + part.slice + slice];
        }
        CHECK(std::all_of(times.begin(), times.end(), [](uint32_t n) { return n == 1; }));
        CHECK(math_part(plan, 0, task).valid != 0);
        if (block_n == 256) CHECK(busy == plan.math_warpgroups);
        for (uint32_t slice = 0; slice < plan.slices(); ++slice) {
          const TaskEntry alone{TileKind::Linear1, 0, 3, 0, rows, slice, 1, 0};
          uint32_t multiplied = 0;
          for (uint32_t warpgroup = 0; warpgroup < plan.math_warpgroups; ++warpgroup) {
            const MathPart part = math_part(plan, warpgroup, alone);
            if (part.valid == 0) continue;
            CHECK(part.first == multiplied);
            CHECK(part.slice == 0);  // it is the only one that is staged
            CHECK(part.first_slice == 3 * plan.slices() + slice);
            CHECK(part.slices == 1);
            multiplied += part.valid;
          }
          CHECK(multiplied == rows);
        }
      }
    }
}

TEST_CASE("wide_tiles: a hidden size that is no multiple of BLOCK_N is refused by name") {
  KernelOptions options;
  options.block_n = 256;
  CHECK(!make_plan(Shape{2, 4, 2, 512, 128, 16}, options).error);
  const PlanResult odd = make_plan(Shape{2, 4, 2, 384, 128, 16}, options);
  REQUIRE(odd.error);
  CHECK(std::string(odd.error.field) == "kernel.block_n");
  options.block_n = 192;
  CHECK(std::string(make_plan(Shape{2, 4, 2, 384, 128, 16}, options).error.field) ==
        "kernel.block_n");
}

TEST_CASE("wide_tiles: a tile's box holds its rows and no more of the next size than it must") {
  for (uint32_t rows = 1; rows <= 128; ++rows) {
    const uint32_t box = box_of(rows);
    CHECK(box_rows(box) >= rows);
    if (box > 0) CHECK(box_rows(box - 1) < rows);
  }
}

TEST_CASE("wide_tiles: the chosen kernel fits every shape it is chosen for") {
  for (const uint32_t hidden : {128u, 384u, 4096u, 7168u, 16384u})
    for (const uint32_t experts : {1u, 32u, 256u, 4096u})
      for (const uint32_t tokens : {1u, 100u, 8192u}) {
        const Shape shape{1, experts, 1, hidden, 2048, tokens};
        const KernelOptions options = choose_kernel(shape, 132);
        CHECK(!make_plan(shape, options).error);
        CHECK(options.stages >= 2);
      }
}

TEST_CASE("wide_tiles: the chosen kernel keeps the whole pool while a card can spare it") {
  const auto policy = [](uint32_t ranks, uint32_t tokens) {
    return choose_kernel({ranks, 32 * ranks, 8, 7168, 2048, tokens}, 132).scheduler;
  };
  CHECK(policy(1, 1) == SchedulerPolicy::Wave);
  CHECK(policy(1, 8192) == SchedulerPolicy::Wave);   // 0.7 GB
  CHECK(policy(8, 4096) == SchedulerPolicy::Wave);   // 2.6 GB
  CHECK(policy(8, 16384) == SchedulerPolicy::Ring);  // 10 GB
}
