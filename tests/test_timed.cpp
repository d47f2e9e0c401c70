#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cpu_sim/measured_launches.h"
#include "cpu_sim/shared_bandwidth.h"
#include "cpu_sim/timed_launch.h"
#include "model/case.h"

namespace moetwin {
namespace {

Case layer(uint32_t ranks, uint32_t tokens) {
  Case c = parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":1024,"intermediate":512,
    "max_tokens_per_rank":512},"kernel":{"sms_per_rank":8}})",
                      "");
  c.shape.ranks = ranks;
  c.tokens.assign(ranks, tokens);
  set_launches(c, 1);
  return c;
}

}  // namespace

TEST_CASE("timed: a queue serves requests one after the other, and idles when there are none") {
  BandwidthQueue queue;
  CHECK(queue.serve(100, 3000, 1000) == 3100);    // 1000 bytes a microsecond
  CHECK(queue.serve(200, 1000, 1000) == 4100);    // behind the first
  CHECK(queue.serve(9000, 1000, 1000) == 10000);  // nobody before it
  CHECK(queue.serve(9000, 1, 3000) == 10001);     // rounded up
}

TEST_CASE("timed: the more was read since, the less of a piece is left in L2") {
  RecentlyRead recent;
  const auto missing = [&](uint64_t piece, uint64_t bytes) {
    return recent.touch(piece, bytes, 100, 200);
  };
  CHECK(missing(1, 60) == 60);
  CHECK(missing(2, 100) == 100);
  CHECK(missing(1, 60) == 0);  // 100 bytes since
  CHECK(missing(3, 150) == 150);
  CHECK(missing(1, 60) == 30);  // 150 since
  CHECK(missing(4, 1000) == 1000);
  CHECK(missing(1, 60) == 60);  // 1000 since
  CHECK(missing(1, 60) == 0);
}

TEST_CASE("timed: SMs that share a card's memory wait for each other, SMs of two cards do not") {
  SharedBandwidth bandwidth;
  const CostTable costs;
  bandwidth.start(2, 2, costs);
  constexpr uint64_t kBytes = 39'000'000;
  const uint64_t alone = bandwidth.weights(0, 0, 1, kBytes);
  CHECK(bandwidth.weights(0, 2, 1, kBytes) == alone);
  bandwidth.start(2, 2, costs);
  uint64_t last = 0;
  for (uint64_t piece = 0; piece < 100; ++piece)
    last = std::max(last, bandwidth.weights(0, piece % 2, piece, kBytes));
  // A hundred pieces of 39 MB at 3.9 TB/s; the two SMs' ports would take longer.
  CHECK(last >= 100 * kBytes * 1000 / costs.dram_rate);
  CHECK(last >= 50 * kBytes * 1000 / costs.sm_rate);
  // Again from L2: its rate, not memory's.
  CHECK(bandwidth.tensor_cores(0, 0, 10) == 10 * costs.mma_step);
  CHECK(bandwidth.tensor_cores(0, 0, 10) == 20 * costs.mma_step);
  CHECK(bandwidth.tensor_cores(0, 1, 10) == 10 * costs.mma_step);
}

TEST_CASE("timed: the clock is the same on every run, and more work takes longer") {
  uint64_t before = 0;
  for (const uint32_t tokens : {32u, 128u, 512u}) {
    CAPTURE(tokens);
    const TimedRun run = run_timed(layer(2, tokens));
    CHECK(!run.result.failed());
    CHECK(run.nanoseconds > before);
    CHECK(run_timed(layer(2, tokens)).nanoseconds == run.nanoseconds);
    before = run.nanoseconds;
  }
}

TEST_CASE("timed: launches of the layer it was fitted on take 15 % more or less than on the card") {
  size_t compared = 0;
  for (const MeasuredLaunch& launch : kMeasuredLaunches) {
    // Larger ones take long here; moetwin bench timed has them.
    if (!is_claimed(launch) || launch.tokens > 512) continue;
    CAPTURE(launch.tokens);
    CAPTURE(std::string(kMeasuredLayers[launch.layer].name));
    const TimedRun run = run_timed(measured_case(launch));
    const double ratio = static_cast<double>(run.nanoseconds) / 1000 / launch.microseconds;
    const double allowed = kMeasuredLayers[launch.layer].fitted ? 0.15 : 0.25;
    CHECK(ratio > 1 - allowed);
    CHECK(ratio < 1 + allowed);
    ++compared;
  }
  CHECK(compared == 6);
}

TEST_CASE("timed: every launch measured is predicted, large ones too [slow]") {
  for (const MeasuredLaunch& launch : kMeasuredLaunches) {
    if (!is_claimed(launch)) continue;
    CAPTURE(launch.tokens);
    CAPTURE(std::string(kMeasuredLayers[launch.layer].name));
    const TimedRun run = run_timed(measured_case(launch));
    CHECK(!run.result.failed());
    const double ratio = static_cast<double>(run.nanoseconds) / 1000 / launch.microseconds;
    const double allowed = kMeasuredLayers[launch.layer].fitted ? 0.15 : 0.25;
    CHECK(ratio > 1 - allowed);
    CHECK(ratio < 1 + allowed);
  }
}

}  // namespace moetwin
