#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "cpu_sim/simulate.h"
#include "model/case.h"
#include "model/timeline.h"

namespace moetwin {
namespace {

Timeline timeline_of(const std::string& schedule, const Mutant& mutant = {}) {
  const Case c = parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,
    "intermediate":128,"max_tokens_per_rank":150},"kernel":{"sms_per_rank":2}})",
                            "");
  Timeline timeline;
  Probes probes;
  probes.timeline = &timeline;
  RunOptions options;
  options.schedule = schedule;
  options.math = false;
  simulate(c, options, mutant, probes);
  return timeline;
}

TraceEvent event(uint64_t time, TraceKind kind, Step step, uint8_t place, uint64_t object) {
  return {time, object, 0, 0, 0, place, kind, step, TraceObject::Mbarrier};
}

}  // namespace

TEST_CASE("timeline: waits are added up by role and step, and name what ended most of their time") {
  Timeline timeline = timeline_of("timed");
  timeline.launches.resize(1);
  const uint8_t load_a = agent_place(Role::LoadA, 0);
  const uint8_t math = agent_place(Role::Math, 0);
  constexpr uint64_t kBar = 3;
  timeline.events = {
      event(10, TraceKind::Begin, Step::LoadAWaitsForStage, load_a, kBar),
      event(30, TraceKind::Arrive, Step::MathReleaseStage, math, kBar),
      event(30, TraceKind::End, Step::LoadAWaitsForStage, load_a, kBar),
      event(40, TraceKind::Begin, Step::LoadAWaitsForStage, load_a, kBar),
      event(45, TraceKind::Arrive, Step::TaskRelease, math, kBar),
      event(45, TraceKind::End, Step::LoadAWaitsForStage, load_a, kBar),
      event(50, TraceKind::Begin, Step::MathWaitsForStage, math, kBar),
      event(57, TraceKind::TokenDone, Step::CombineWriteY, load_a, 0),
  };
  const std::vector<WaitSummary> waits = summarise_waits(timeline);
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].step == Step::LoadAWaitsForStage);
  CHECK(waits[0].role == Role::LoadA);
  CHECK(waits[0].waits == 2);
  CHECK(waits[0].unended == 0);
  CHECK(waits[0].total == 25);
  CHECK(waits[0].longest == 20);
  CHECK(waits[0].ended_by_others);
  CHECK(waits[0].provider == Role::Math);
  CHECK(waits[0].provider_step == Step::MathReleaseStage);
  CHECK(waits[1].step == Step::MathWaitsForStage);
  CHECK(waits[1].unended == 1);
  CHECK(waits[1].total == 7);
}

TEST_CASE("timeline: a run's waits add up to no more than its agents had time for") {
  for (const char* schedule : {"timed", "fifo", "random:4"}) {
    CAPTURE(schedule);
    const Timeline timeline = timeline_of(schedule);
    const TimeSpan span = time_span(timeline.events);
    std::map<std::pair<uint32_t, Role>, uint64_t> waited;
    for (const WaitSummary& wait : summarise_waits(timeline)) {
      CHECK(wait.unended == 0);
      CHECK(wait.longest <= wait.total);
      waited[{wait.rank, wait.role}] += wait.total;
    }
    for (const auto& [agents, total] : waited) {
      const uint64_t count = 2 * (agents.second == Role::Dispatch ? kDispatchWarps : 1);
      CHECK(total <= count * (span.last - span.first));
    }
    CHECK(waited.size() == 2 * kNumRoles);
  }
}

TEST_CASE("timeline: counters stay within the ring and end where a finished run must end") {
  const Timeline timeline = timeline_of("random:9");
  const auto ring = int64_t{timeline.launches.front().plan.ring_blocks};
  const CounterSeries series = counter_series(timeline);
  REQUIRE(series.size() == 2);
  for (const auto& rank : series) {
    for (const RankCounter counter : {RankCounter::PoolRing, RankCounter::Linear1Ring}) {
      int64_t most = 0;
      for (const CounterPoint& point : rank[static_cast<uint32_t>(counter)]) {
        CHECK(point.value >= 0);
        most = std::max(most, point.value);
      }
      CHECK(most > 0);
      CHECK(most <= ring);
      CHECK(rank[static_cast<uint32_t>(counter)].back().value == 0);
    }
    uint64_t before = 0;
    for (const CounterPoint& point : rank[static_cast<uint32_t>(RankCounter::BytesInFlight)]) {
      CHECK(point.time >= before);
      before = point.time;
    }
    CHECK(rank[static_cast<uint32_t>(RankCounter::BytesInFlight)].back().value == 0);
    CHECK(rank[static_cast<uint32_t>(RankCounter::TokensDone)].back().value == 150);
  }
}

TEST_CASE("timeline: waits that never end are told apart") {
  uint64_t unended = 0;
  for (const WaitSummary& wait :
       summarise_waits(timeline_of("fifo", {MutantKind::Drop, Step::PullPublishRow})))
    if (wait.step == Step::LoadAWaitsForRows) unended += wait.unended;
  CHECK(unended == 4);
}

}  // namespace moetwin
