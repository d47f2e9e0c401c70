// The closed form of the smallest safe ring from both sides: at its size nothing deadlocks, one
// block short of it something does.
#include <doctest/doctest.h>

#include <string>

#include "common/ring_pool.h"
#include "cpu_sim/simulate.h"
#include "fuzz/exhaustive.h"
#include "fuzz/ring_witness.h"

using namespace moetwin;

namespace {

Shape small_shape(uint32_t ranks, uint32_t experts, uint32_t intermediate, uint32_t tokens) {
  return {ranks, experts * ranks, 2, 128, intermediate, tokens};
}

bool deadlocks(const Case& c, const std::string& schedule = "") {
  RunOptions options;
  options.threads = 1;
  options.unsafe_ring = true;
  options.schedule = schedule;
  for (const Finding& f : simulate(c, options).findings)
    if (f.kind == FindingClass::Deadlock) return true;
  return false;
}

void check_tight(const Shape& shape, const KernelOptions& kernel) {
  const std::optional<Case> shorter = find_ring_deadlock(shape, kernel);
  const uint64_t safe =
      smallest_safe_ring(shape, {kernel.block_m, kernel.block_n}, kernel.sms_per_rank);
  CAPTURE(safe);
  REQUIRE(shorter.has_value() == (safe > 1));
  if (!shorter) return;
  CHECK(shorter->kernel.ring_blocks == safe - 1);
  const Case read_back = parse_case(case_to_json(*shorter), "");
  CHECK(deadlocks(read_back));
  Case whole = read_back;
  whole.kernel.ring_blocks = static_cast<uint32_t>(safe);
  for (const char* schedule : {"fifo", "random:1", "pct:2:3", "slow:math@0", "slow:load_a@0"})
    CHECK(!deadlocks(whole, schedule));
}

}  // namespace

TEST_CASE("ring_witness: one block less than the closed form deadlocks, on every small shape") {
  for (const uint32_t sms : {1u, 2u, 3u, 5u})
    for (const uint32_t intermediate : {128u, 256u})
      for (const uint32_t experts : {1u, 2u, 5u}) {
        CAPTURE(sms);
        CAPTURE(intermediate);
        CAPTURE(experts);
        KernelOptions kernel;
        kernel.sms_per_rank = sms;
        check_tight(small_shape(1, experts, intermediate, 20), kernel);
      }
}

TEST_CASE("ring_witness: few stages, tall tiles and a second rank do not change the closed form") {
  KernelOptions kernel;
  kernel.stages = 1;
  kernel.block_m = 128;
  kernel.sms_per_rank = 2;
  check_tight(small_shape(2, 3, 128, 4), kernel);
}

TEST_CASE("ring_witness: waves have no ring that could be too small") {
  KernelOptions kernel;
  kernel.scheduler = SchedulerPolicy::Wave;
  CHECK(!find_ring_deadlock(small_shape(1, 4, 128, 8), kernel));
}

TEST_CASE("ring_witness: at the closed form's size no order of two SMs' operations deadlocks") {
  Case c;
  c.shape = small_shape(1, 2, 128, 1);
  c.kernel.sms_per_rank = 2;
  route_blocks_to_rank0(c, 2);
  ExhaustiveOptions options;
  options.run.math = false;
  options.run.threads = 1;
  options.schedules = 3000;
  options.preemptions = 1;
  uint64_t deadlocked = 0;
  const ExhaustiveResult result =
      explore_exhaustively(c, options, [&](const RunResult& run, const CoverageObserver&) {
        deadlocked += run.failed() ? 1 : 0;
        return true;
      });
  CHECK(deadlocked == 0);
  CHECK(result.exhausted);
  CHECK(result.schedules > 10);
}

TEST_CASE("ring_witness: one block less deadlocks on large shapes too [slow]") {
  for (const uint32_t sms : {16u, 64u, 132u})
    for (const uint32_t intermediate : {256u, 2048u}) {
      CAPTURE(sms);
      CAPTURE(intermediate);
      KernelOptions kernel;
      kernel.sms_per_rank = sms;
      check_tight({2, 64, 8, 1024, intermediate, 512}, kernel);
    }
}
