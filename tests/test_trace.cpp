#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "common/wait_table.h"
#include "cpu_sim/agent_numbers.h"
#include "cpu_sim/simulate.h"
#include "model/case.h"
#include "model/checked_plan.h"
#include "model/presets.h"
#include "model/trace.h"
#include "tests/trace_reader.h"

namespace moetwin {
namespace {

struct Traced {
  RunResult run;
  ShownTrace trace;
  uint64_t bytes = 0;
};

Traced run_traced(const Case& c, const std::string& schedule, bool math) {
  const auto path = std::filesystem::temp_directory_path() / "moetwin_test_trace.pftrace";
  RunOptions options;
  options.schedule = schedule;
  options.math = math;
  options.trace_path = path.string();
  Traced traced;
  traced.run = simulate(c, options);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  traced.bytes = bytes.size();
  traced.trace = read_trace(bytes);
  std::filesystem::remove(path);
  return traced;
}

Case two_ranks() {
  return parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
    "max_tokens_per_rank":48},"tokens":[48,29],"kernel":{"sms_per_rank":2},"launches":2})",
                    "");
}

/// Where an arrow begins and where it ends; 0 or 1 event each.
struct Ends {
  const ShownEvent* from = nullptr;
  const ShownEvent* to = nullptr;
};

std::map<uint64_t, Ends> arrows_of(const ShownTrace& trace) {
  std::map<uint64_t, Ends> arrows;
  for (const ShownEvent& e : trace.events) {
    for (const uint64_t flow : e.flows_out) {
      CHECK(arrows[flow].from == nullptr);
      arrows[flow].from = &e;
    }
    for (const uint64_t flow : e.flows_in) {
      CHECK(arrows[flow].to == nullptr);
      arrows[flow].to = &e;
    }
  }
  return arrows;
}

void check_times_and_slices(const ShownTrace& trace) {
  std::map<uint64_t, uint64_t> clock;
  std::map<uint64_t, int> depth;
  for (const ShownEvent& e : trace.events) {
    REQUIRE(trace.tracks.count(e.track) == 1);
    REQUIRE(e.time >= clock[e.track]);
    clock[e.track] = e.time;
    if (e.type == perfetto::kSliceBegin) ++depth[e.track];
    if (e.type == perfetto::kSliceEnd) REQUIRE(--depth[e.track] >= 0);
  }
  for (const auto& [track, open] : depth) CHECK(open == 0);
}

}  // namespace

TEST_CASE("trace: every agent has a track, time never goes back, every slice ends") {
  for (const char* schedule : {"fifo", "timed", "random:5"}) {
    CAPTURE(schedule);
    const Traced traced = run_traced(two_ranks(), schedule, true);
    REQUIRE(!traced.run.failed());
    std::set<std::string> threads;
    for (const auto& [id, track] : traced.trace.tracks)
      if (!track.thread.empty()) threads.insert(std::to_string(track.pid) + " " + track.thread);
    CHECK(threads.size() == 2 * 2 * 5);
    CHECK(threads.count("2 SM 1 load_b 0") == 1);
    CHECK(threads.count("1 SM 0 math 0") == 1);
    check_times_and_slices(traced.trace);
  }
}

TEST_CASE("trace: every arrow has both ends, and none points back in time") {
  const Traced traced = run_traced(two_ranks(), "timed", true);
  std::map<std::string, uint64_t> from_to;
  for (const auto& [flow, ends] : arrows_of(traced.trace)) {
    REQUIRE(ends.from != nullptr);
    REQUIRE(ends.to != nullptr);
    CHECK(ends.from->time <= ends.to->time);
    ++from_to[ends.from->name + " " + ends.to->name];
  }
  // One of each way to wait: an mbarrier, a counter, a peer's word, a copy in, a copy out.
  CHECK(from_to["MathReleaseStage LoadATile"] == 0);
  CHECK(from_to["MathReleaseStage LoadAWaitsForStage"] > 0);
  CHECK(from_to["PullPublishRow LoadAWaitsForRows"] > 0);
  CHECK(from_to["RankSignal RankWait"] > 0);
  CHECK(from_to["LoadATile MathWaitsForStage"] > 0);
  CHECK(from_to["Linear1Store Linear1Stored"] > 0);
  // Each copy lands: as many arrows as copies.
  uint64_t copies = 0;
  uint64_t landings = 0;
  for (const ShownEvent& e : traced.trace.events) copies += e.category == "copy";
  for (const auto& [flow, ends] : arrows_of(traced.trace))
    landings += ends.from->category == "copy";
  CHECK(copies > 1000);
  CHECK(landings == copies);
}

namespace {

/// What the machine itself says ended each wait: the arrival that completed the phase or round, the
/// last addition to the word.
class ReleaseObserver : public SyncObserver {
 public:
  ReleaseObserver(uint32_t ranks, const KernelPlan& plan) : ranks_(ranks), plan_(plan) {}

  void on_sync(const Observation& e) override {
    const bool landing = agent_place(plan_, ranks_, e.agent).landing;
    switch (e.op) {
      case SyncOp::Arrive:
        if (e.completes) released_[{e.object, e.number}] = {e.agent, e.step, landing};
        return;
      case SyncOp::Add:
      case SyncOp::Fetch:
        released_[{e.object, 0}] = {e.agent, e.step, false};
        return;
      case SyncOp::WaitPhase:
      case SyncOp::WaitRound:
        return count(e, released_[{e.object, e.number}]);
      case SyncOp::WaitAtLeast:
      case SyncOp::WaitFlip:
      case SyncOp::WaitEqual:
        return count(e, released_[{e.object, 0}]);
      default:
        return;
    }
  }

  /// "thread step -> thread step", and how often. A phase that a landing completed is left out: its
  /// arrow comes from the copy's issue.
  const std::map<std::string, uint64_t>& releases() const { return releases_; }

  std::string name(uint32_t agent, Step step) const {
    const AgentPlace a = agent_place(plan_, ranks_, agent);
    return std::to_string(a.rank) + " SM " + std::to_string(a.sm) + " " + role_name(a.role) + " " +
           std::to_string(a.number) + " " + step_name(step);
  }

 private:
  struct Release {
    uint32_t agent = 0;
    Step step = Step::None;
    bool landing = false;
  };
  void count(const Observation& wait, const Release& by) {
    if (!by.landing && by.agent != wait.agent)
      ++releases_[name(by.agent, by.step) + " -> " + name(wait.agent, wait.step)];
  }

  uint32_t ranks_;
  const KernelPlan& plan_;
  std::map<std::pair<uint64_t, uint64_t>, Release> released_;
  std::map<std::string, uint64_t> releases_;
};

}  // namespace

TEST_CASE("trace: arrows come from the arrival that ended the wait, as the machine tells it") {
  Case c = two_ranks();
  set_launches(c, 1);
  const KernelPlan plan = checked_plan(c.shape, c.kernel, false, false);
  for (const char* schedule : {"fifo", "random:6", "timed"}) {
    CAPTURE(schedule);
    ReleaseObserver observer(2, plan);
    Probes probes;
    probes.observer = &observer;
    const auto path = std::filesystem::temp_directory_path() / "moetwin_test_trace_by.pftrace";
    RunOptions options;
    options.schedule = schedule;
    options.math = false;
    options.trace_path = path.string();
    REQUIRE(!simulate(c, options, Mutant{}, probes).failed());
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    std::filesystem::remove(path);
    const ShownTrace trace = read_trace(bytes);
    std::map<std::string, uint64_t> drawn;
    const auto name = [&](const ShownEvent& e) {
      const ShownTrack& track = trace.tracks.at(e.track);
      return std::to_string(track.pid - 1) + " " + track.thread + " " + e.name;
    };
    for (const auto& [flow, ends] : arrows_of(trace))
      if (ends.from->category != "copy") ++drawn[name(*ends.from) + " -> " + name(*ends.to)];
    REQUIRE(observer.releases().size() > 100);
    for (const auto& release : observer.releases())
      CHECK_MESSAGE(drawn[release.first] >= release.second, release.first);
  }
}

TEST_CASE("trace: the counters end where a finished run must end") {
  const Traced traced = run_traced(two_ranks(), "random:3", true);
  const std::map<std::string, int64_t> wanted = {
      {"bytes in flight", 0}, {"pool ring, slots in use", 0}, {"Linear1 ring, slots in use", 0}};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    std::map<uint64_t, int64_t> last;
    std::map<uint64_t, int64_t> most;
    for (const ShownEvent& e : traced.trace.events) {
      if (e.type != perfetto::kCounterEvent) continue;
      CHECK(e.counter >= 0);
      last[e.track] = e.counter;
      most[e.track] = std::max(most[e.track], e.counter);
    }
    for (const auto& [named, value] : wanted) {
      const std::string name = named;
      CAPTURE(name);
      const uint64_t track = traced.trace.counter_track(rank, name);
      REQUIRE(track != 0);
      CHECK(last[track] == value);
      CHECK(most[track] > 0);
    }
    CHECK(last[traced.trace.counter_track(rank, "tokens done")] == (rank == 0 ? 48 : 29));
  }
}

TEST_CASE("trace: a run that hangs leaves its timeline up to there") {
  const Case c = two_ranks();
  const auto path = std::filesystem::temp_directory_path() / "moetwin_test_trace_hang.pftrace";
  RunOptions options;
  options.trace_path = path.string();
  const RunResult run = simulate(c, options, {MutantKind::Drop, Step::PullPublishRow});
  REQUIRE(run.failed());
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::filesystem::remove(path);
  std::map<uint64_t, std::vector<std::string>> open;
  for (const ShownEvent& e : read_trace(bytes).events) {
    if (e.type == perfetto::kSliceBegin) open[e.track].push_back(e.name);
    if (e.type == perfetto::kSliceEnd) open[e.track].pop_back();
  }
  uint64_t waiting = 0;
  for (const auto& [track, names] : open)
    waiting += !names.empty() && names.back() == "LoadAWaitsForRows";
  CHECK(waiting > 0);
}

TEST_CASE(
    "trace: tracing changes neither bits nor schedule, and four ranks of eight SMs fit 20 MB") {
  Case c = parse_case(preset_json("small"), "");
  c.kernel.sms_per_rank = 8;
  REQUIRE(c.shape.ranks == 4);
  const Traced traced = run_traced(c, "timed", true);
  REQUIRE(!traced.run.failed());
  CHECK(traced.bytes > 1'000'000);
  CHECK(traced.bytes < 20'000'000);
  check_times_and_slices(traced.trace);
  RunOptions options;
  options.schedule = "timed";
  const RunResult plain = simulate(c, options);
  CHECK(plain.state_digest == traced.run.state_digest);
  CHECK(plain.schedule_digest == traced.run.schedule_digest);
}

}  // namespace moetwin
