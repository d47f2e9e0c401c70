#include <doctest/doctest.h>

#include <set>
#include <string>

#include "common/symmetric_layout.h"
#include "common/weight_layout.h"

using namespace moetwin;

TEST_CASE("layout: regions start aligned, in order, and never overlap") {
  for (const bool taps : {false, true})
    for (const Shape& shape : {Shape{1, 1, 1, 128, 128, 1}, Shape{4, 32, 8, 1024, 512, 64},
                               Shape{72, 288, 8, 7168, 2048, 4096}}) {
      const PlanResult planned = make_plan(shape, {}, false, taps);
      REQUIRE(!planned.error);
      const SymmetricLayout layout = make_layout(shape, planned.plan);
      uint64_t end = 0;
      for (uint32_t r = 0; r < kNumRegions; ++r) {
        CHECK(layout.offsets[r] % 1024 == 0);
        CHECK(layout.offsets[r] >= end);
        end = layout.offsets[r] + layout.bytes[r];
      }
      CHECK(layout.total >= end);
    }
}

TEST_CASE("layout: sizes above 32 bits stay exact") {
  const Shape shape{8, 8, 32, 16384, 128, 1048576};
  const PlanResult planned = make_plan(shape, {});
  REQUIRE(!planned.error);
  const SymmetricLayout layout = make_layout(shape, planned.plan);
  CHECK(layout.size(Region::CombineRows) == uint64_t{32} * 1048576 * 16384 * 2);
  CHECK(layout.size(Region::Tokens) == uint64_t{1048576} * 16384);
}

TEST_CASE("layout: regions have distinct names") {
  std::set<std::string> names;
  for (uint32_t r = 0; r < kNumRegions; ++r)
    CHECK(names.insert(region_info(static_cast<Region>(r)).name).second);
}

TEST_CASE("layout: combine rows of all (k, token) tile the region") {
  const Shape shape{1, 4, 3, 128, 128, 5};
  std::set<uint64_t> places;
  for (uint32_t k = 0; k < 3; ++k)
    for (uint32_t token = 0; token < 5; ++token)
      REQUIRE(places.insert(combine_index(shape, k, token, 0)).second);
  CHECK(*places.rbegin() == 14 * 128);
}

TEST_CASE(
    "layout: the memory order of W1's rows is a permutation that pairs gate and up by eight") {
  for (const uint32_t intermediate : {128u, 256u, 384u}) {
    std::set<uint32_t> rows;
    for (uint32_t row = 0; row < 2 * intermediate; ++row) {
      const uint32_t source = w1_source_row(row, intermediate);
      REQUIRE(rows.insert(source).second);
      // A gate row's up row lies eight rows further.
      if (row / 8 % 2 == 0) CHECK(w1_source_row(row + 8, intermediate) == source + intermediate);
    }
    CHECK(*rows.rbegin() == 2 * intermediate - 1);
  }
}

TEST_CASE("kernel_plan: mbarriers have places of their own and arrivals that the roles can bring") {
  for (const uint32_t block_m : {64u, 128u})
    for (uint32_t stages = 1; stages <= 6; ++stages) {
      KernelOptions options;
      options.block_m = block_m;
      options.stages = stages;
      const PlanResult planned = make_plan(Shape{2, 4, 2, 256, 256, 16}, options);
      REQUIRE(!planned.error);
      const KernelPlan& plan = planned.plan;
      std::set<uint32_t> places;
      for (uint32_t s = 0; s < stages; ++s) {
        CHECK(places.insert(plan.full(s).index).second);
        CHECK(places.insert(plan.empty(s).index).second);
      }
      for (uint32_t e = 0; e < kTaskQueueEntries; ++e) {
        CHECK(places.insert(plan.task_full(e).index).second);
        CHECK(places.insert(plan.task_empty(e).index).second);
      }
      for (uint32_t w = 0; w < kDispatchWarps; ++w) CHECK(places.insert(plan.pull(w).index).second);
      for (uint32_t g = 0; g < plan.math_warpgroups; ++g)
        for (uint32_t s = 0; s < plan.combine_stages; ++s)
          CHECK(places.insert(plan.combine(g, s).index).second);
      CHECK(places.size() == plan.num_mbarriers());
      CHECK(*places.rbegin() + 1 == plan.num_mbarriers());
      CHECK(plan.threads() % kWarpgroupThreads == 0);
      CHECK(plan.shared.total <= kMaxSharedBytes);
    }
}

TEST_CASE("kernel_plan: a row is pulled in as few chunks as there can be, of one size") {
  for (uint32_t hidden = 128; hidden <= 16384; hidden += 128) {
    CAPTURE(hidden);
    KernelOptions options;
    options.stages = 1;
    const KernelPlan plan = make_plan(Shape{1, 4, 2, hidden, 256, 16}, options).plan;
    const uint32_t fewest = (hidden + 4095) / 4096;
    CHECK(plan.pull_chunk_bytes <= 4096);
    CHECK(plan.pull_chunk_bytes % 16 == 0);  // a bulk copy
    CHECK((hidden + plan.pull_chunk_bytes - 1) / plan.pull_chunk_bytes == fewest);
    CHECK(plan.pull_chunk_bytes < hidden / fewest + 128);
  }
}

TEST_CASE("kernel_plan: stages that do not fit a CTA's shared memory are refused by name") {
  KernelOptions options;
  options.block_m = 128;
  options.stages = 8;
  const PlanResult planned = make_plan(Shape{1, 4, 2, 4096, 256, 16}, options);
  REQUIRE(planned.error);
  CHECK(std::string(planned.error.field) == "kernel.stages");
}

TEST_CASE("shape: every limit is enforced on both sides") {
  const Shape good{2, 4, 2, 256, 256, 16};
  CHECK(!validate(good));
  const auto refused = [&](auto change) {
    Shape shape = good;
    change(shape);
    return static_cast<bool>(validate(shape));
  };
  CHECK(refused([](Shape& s) { s.ranks = 0; }));
  CHECK(refused([](Shape& s) { s.ranks = 129, s.experts = 129; }));
  CHECK(refused([](Shape& s) { s.experts = 0; }));
  CHECK(refused([](Shape& s) { s.experts = 3; }));
  CHECK(refused([](Shape& s) { s.experts = 4098; }));
  CHECK(refused([](Shape& s) { s.topk = 0; }));
  CHECK(refused([](Shape& s) { s.topk = 33; }));
  CHECK(refused([](Shape& s) { s.hidden = 0; }));
  CHECK(refused([](Shape& s) { s.hidden = 192; }));
  CHECK(refused([](Shape& s) { s.hidden = 16512; }));
  CHECK(refused([](Shape& s) { s.intermediate = 100; }));
  CHECK(refused([](Shape& s) { s.intermediate = 32896; }));
  CHECK(refused([](Shape& s) { s.max_tokens_per_rank = 0; }));
  CHECK(refused([](Shape& s) { s.max_tokens_per_rank = 1048577; }));
}
