// Exploration: what conflicts, what the reduced search covers, and that its findings repeat.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "fuzz/conflicts.h"
#include "fuzz/exhaustive.h"
#include "fuzz/explore.h"

using namespace moetwin;

namespace {

/// Two ranks of one SM, a token each for the other's expert: the smallest case with every barrier.
constexpr const char* kTiny =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[1]],[[0]]]},
        "kernel":{"sms_per_rank":1}})";
/// Three SMs and a ring one block short: only some orders of claims deadlock.
constexpr const char* kShortRing =
    R"({"shape":{"ranks":1,"experts":2,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1]]]},
        "kernel":{"sms_per_rank":3,"ring_blocks":1}})";

Operation word(SyncOp op, uint64_t number, uint64_t before = 0) {
  return {op, number, before, false};
}

bool has_deadlock(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.kind == FindingClass::Deadlock; });
}

/// Follows the default schedule but for one place, where it lets `agent` go instead.
class OneDeviation : public Chooser {
 public:
  OneDeviation(uint64_t place, uint32_t which) : place_(place), which_(which) {}
  uint32_t choose(std::span<const uint32_t> runnable, uint32_t) override {
    const bool here = choices_++ == place_;
    if (!here) return runnable.front();
    width_ = static_cast<uint32_t>(runnable.size());
    return runnable[std::min<size_t>(which_, runnable.size() - 1)];
  }
  uint64_t choices() const { return choices_; }
  uint32_t width() const { return width_; }

 private:
  uint64_t place_;
  uint32_t which_;
  uint64_t choices_ = 0;
  uint32_t width_ = 0;
};

}  // namespace

TEST_CASE("conflicts: additions nobody reads commute, those that are read do not") {
  CHECK(conflict_of(word(SyncOp::Add, 1), word(SyncOp::Add, 2, 1)) == Conflict::None);
  CHECK(conflict_of(word(SyncOp::Fetch, 1), word(SyncOp::Fetch, 2, 1)) == Conflict::Race);
  CHECK(conflict_of(word(SyncOp::Add, 1), word(SyncOp::Read, 0)) == Conflict::Race);
  CHECK(conflict_of(word(SyncOp::Read, 0), word(SyncOp::Read, 0)) == Conflict::None);
}

TEST_CASE("conflicts: a wait is ordered behind the addition it needed and minds no other") {
  const Operation wait = word(SyncOp::WaitAtLeast, 4);
  CHECK(conflict_of(word(SyncOp::Add, 4, 3), wait) == Conflict::Ordered);
  CHECK(conflict_of(word(SyncOp::Add, 5, 4), wait) == Conflict::None);
  CHECK(conflict_of(wait, word(SyncOp::Add, 5, 4)) == Conflict::None);
  CHECK(conflict_of(word(SyncOp::WaitEqual, 4), word(SyncOp::Add, 5, 4)) == Conflict::Race);
}

TEST_CASE(
    "conflicts: an arrival of a later phase races with an mbarrier's wait only when it ends it") {
  const Operation wait{SyncOp::WaitPhase, 3, 0, false};
  CHECK(conflict_of({SyncOp::Arrive, 3, 0, true}, wait) == Conflict::Ordered);
  CHECK(conflict_of(wait, {SyncOp::Arrive, 4, 0, true}) == Conflict::Race);
  CHECK(conflict_of(wait, {SyncOp::Arrive, 4, 0, false}) == Conflict::None);
  CHECK(conflict_of({SyncOp::Arrive, 3, 0, false}, {SyncOp::Arrive, 3, 0, true}) == Conflict::None);
}

TEST_CASE("explore: the smallest case is exhausted, and every schedule has the same behaviour") {
  ExploreOptions options;
  options.policy = ExplorePolicy::Exhaustive;
  options.schedules = 100000;
  options.run.math = false;
  const ExploreResult result = explore(parse_case(kTiny, ""), options);
  CHECK(result.exhausted);
  CHECK(result.cut == 0);
  CHECK(result.findings.empty());
  CHECK(result.behaviours.size() == 1);
  CHECK(result.coverage.pair(Step::PullPublishRow, Step::LoadAWaitsForRows));
}

TEST_CASE("explore: two tokens a rank are exhausted too, and a search that is cut says so") {
  ExploreOptions options;
  options.policy = ExplorePolicy::Exhaustive;
  options.schedules = 100000;
  options.run.math = false;
  const ExploreResult two = explore(parse_case(
                                        R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,
                                            "intermediate":128,"max_tokens_per_rank":2},
                                            "kernel":{"sms_per_rank":1}})",
                                        ""),
                                    options);
  CHECK(two.exhausted);
  CHECK(two.findings.empty());
  options.schedules = 5;
  options.run.unsafe_ring = true;
  const ExploreResult cut = explore(parse_case(kShortRing, ""), options);
  CHECK(!cut.exhausted);
  CHECK(cut.schedules > 0);
  CHECK(cut.schedules <= 5);
  CHECK(cut.choices > 100);
}

TEST_CASE("explore: unreduced, one step anywhere out of turn leads to no other behaviour") {
  const Case c = parse_case(kTiny, "");
  RunOptions run;
  run.threads = 1;
  run.math = false;
  run.full_k_loop = true;
  const KernelPlan plan = make_plan(c.shape, c.kernel).plan;
  OneDeviation straight(UINT64_MAX, 0);
  CoverageObserver expected(plan, c.shape.ranks);
  simulate(c, run, Mutant{}, {&expected, &straight});
  REQUIRE(straight.choices() > 100);
  for (uint64_t place = 0; place < straight.choices(); place += 3)
    for (uint32_t which = 1;; which += 2) {
      OneDeviation deviation(place, which);
      CoverageObserver observer(plan, c.shape.ranks);
      const RunResult result = simulate(c, run, Mutant{}, {&observer, &deviation});
      REQUIRE(result.findings.empty());
      REQUIRE(observer.behaviour() == expected.behaviour());
      if (which >= deviation.width()) break;
    }
}

TEST_CASE("explore: the exhaustive policy finds a planted missing arrival") {
  ExploreOptions options;
  options.policy = ExplorePolicy::Exhaustive;
  options.run.math = false;
  options.mutant = {MutantKind::Drop, Step::MathReleaseBlock};
  const ExploreResult none = explore(parse_case(kTiny, ""), options);
  CHECK(none.findings.empty());  // nobody waits for a ring slot on the first lap
  options.mutant = {MutantKind::Drop, Step::Linear1Publish};
  const ExploreResult result = explore(parse_case(kTiny, ""), options);
  REQUIRE(!result.findings.empty());
  CHECK(result.findings[0].finding.kind == FindingClass::Deadlock);
  CHECK(result.exhausted);
}

TEST_CASE("explore: a case's own planted fault is on under every policy") {
  Case c = parse_case(kTiny, "");
  c.plant = "F22b";
  for (const ExplorePolicy policy :
       {ExplorePolicy::Slow, ExplorePolicy::Random, ExplorePolicy::Exhaustive}) {
    ExploreOptions options;
    options.policy = policy;
    options.schedules = 3;
    options.run.math = false;
    const ExploreResult result = explore(c, options);
    REQUIRE(!result.findings.empty());
    CHECK(result.findings.front().finding.kind == FindingClass::Deadlock);
    c.plant.clear();
    CHECK(explore(c, options).findings.empty());
    c.plant = "F22b";
  }
}

TEST_CASE("explore: a deadlock that fifo and the sweep miss is found by exhausting, and repeats") {
  const Case c = parse_case(kShortRing, "");
  ExploreOptions options;
  options.policy = ExplorePolicy::Slow;
  options.run.math = false;
  options.run.unsafe_ring = true;
  CHECK(explore(c, options).findings.empty());

  ExhaustiveOptions all;
  all.run = options.run;
  all.run.threads = 1;
  all.schedules = 5000;
  std::string schedule;
  const ExhaustiveResult result =
      explore_exhaustively(c, all, [&](const RunResult& run, const CoverageObserver&) {
        if (has_deadlock(run.findings)) schedule = run.schedule_string;
        return schedule.empty();
      });
  REQUIRE(!schedule.empty());
  CHECK(result.schedules > 1);
  RunOptions again = all.run;
  again.schedule = schedule;
  again.full_k_loop = true;
  CHECK(has_deadlock(simulate(c, again).findings));
}

TEST_CASE("explore: results do not depend on how many schedules run at a time") {
  ExploreOptions options;
  options.policy = ExplorePolicy::Random;
  options.schedules = 6;
  options.run.math = false;
  const Case c = parse_case(
      R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":128,
          "max_tokens_per_rank":8},"kernel":{"sms_per_rank":2}})",
      "");
  const ExploreResult one = explore(c, options);
  options.jobs = 2;
  const ExploreResult two = explore(c, options);
  CHECK(one.behaviours == two.behaviours);
  CHECK(one.behaviours.size() > 1);
  CHECK(one.coverage.pairs == two.coverage.pairs);
  CHECK(one.events == two.events);
  CHECK(one.findings.empty());
}
