#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/check.h"
#include "cuda/run_gpu.h"
#include "fuzz/generator.h"
#include "model/compare.h"
#include "model/naive.h"

namespace moetwin {
namespace {

/// Whether there is a card; says so where there is none.
bool has_card() {
  try {
    device_info();
    return true;
  } catch (const NoCudaDevice& error) {
    MESSAGE("skipped, ", std::string(error.what()));
    return false;
  }
}

Case small_case() {
  Case c;
  c.shape = {2, 4, 2, 256, 128, 40};
  c.tokens = {40, 17};
  set_launches(c, 2);
  return c;
}

}  // namespace

TEST_CASE("cuda: without a card a run ends in one line that says so") {
  try {
    device_info();
  } catch (const NoCudaDevice& error) {
    const std::string text = error.what();
    CHECK(text.rfind("no CUDA device: ", 0) == 0);
    CHECK(text.find('\n') == std::string::npos);
    CHECK_THROWS_AS(run_gpu(small_case(), {}), NoCudaDevice);
  }
}

TEST_CASE("cuda: generated cases give the bits of the naive path at every stage [gpu]") {
  if (!has_card()) return;
  GpuSession session;
  for (uint64_t index = 0; index < 60; ++index) {
    const Case c = random_case(11, index);
    CAPTURE(index);
    WeightCache cache;
    for (size_t i = 0; i < c.launches.size(); ++i) {
      const Problem problem = make_problem(c, i, cache);
      const GpuLaunch launch = session.launch(problem, c.kernel, {false, true, c.world.poison});
      REQUIRE(launch.finished);
      CHECK(launch.findings.empty());
      const Comparison comparison = compare_results(launch.result, run_naive(problem));
      CHECK_MESSAGE(comparison.equal(), describe(comparison, "gpu", "naive"));
      for (const Stage stage : kStages) CHECK(comparison.stage(stage).compared());
    }
  }
}

TEST_CASE("cuda: y does not depend on tile height, stages, policy, SMs or launch index [gpu]") {
  if (!has_card()) return;
  GpuSession session;
  const Case c = small_case();
  WeightCache cache;
  const Problem problem = make_problem(c, 0, cache);
  std::optional<std::vector<uint16_t>> y;
  for (const uint32_t block_m : {64u, 128u})
    for (const uint32_t stages : {1u, 3u, 5u})
      for (const SchedulerPolicy policy : {SchedulerPolicy::Ring, SchedulerPolicy::Wave})
        for (const uint32_t sms : {1u, 5u, 33u})
          for (uint32_t launch = 0; launch < 2; ++launch) {
            KernelOptions kernel;
            kernel.block_m = block_m;
            kernel.stages = stages;
            kernel.scheduler = policy;
            kernel.sms_per_rank = sms;
            const GpuLaunch got = session.launch(problem, kernel);
            REQUIRE(got.finished);
            CHECK(got.findings.empty());
            if (!y) y = got.result.y;
            CHECK(got.result.y == *y);
          }
}

TEST_CASE("cuda: a missing arrive is reported within the limit and the card works on [gpu]") {
  if (!has_card()) return;
  Case c = small_case();
  c.kernel.sms_per_rank = 1;  // so that every step is needed more often than there is room
  c.kernel.stages = 1;
  WeightCache cache;
  const Problem problem = make_problem(c, 0, cache);
  for (const Step step : {Step::MathReleaseStage, Step::TaskPublish, Step::TaskRelease,
                          Step::PullPublishRow, Step::Linear1Publish}) {
    GpuOptions broken;
    broken.wait_limit_seconds = 0.5;
    broken.skipped_arrive = step;
    GpuSession session(broken);
    const GpuLaunch hung = session.launch(problem, c.kernel);
    CHECK(!hung.finished);
    REQUIRE(!hung.findings.empty());
    for (const Finding& finding : hung.findings) CHECK(finding.kind == FindingClass::Deadlock);
    CHECK(hung.milliseconds > 400);
    CHECK(hung.milliseconds < 5000);
  }
  GpuSession session;
  const GpuLaunch launch = session.launch(problem, c.kernel);
  REQUIRE(launch.finished);
  CHECK(compare_results(launch.result, run_naive(problem)).equal());
}

TEST_CASE("cuda: what a card cannot run is refused with one line [gpu]") {
  if (!has_card()) return;
  GpuSession session;
  KernelOptions kernel;
  kernel.sms_per_rank = 100;
  const Shape two_ranks = {2, 4, 2, 256, 128, 40};
  CHECK_THROWS_AS(session.check(two_ranks, kernel), InputError);
  kernel.sms_per_rank = 1;
  CHECK_NOTHROW(session.check(two_ranks, kernel));
  CHECK_THROWS_AS(session.check({32, 32, 2, 256, 128, 40}, kernel), InputError);
}

}  // namespace moetwin
