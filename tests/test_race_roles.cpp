// The role programs under the race checker: as they are, nothing is found; with one synchronising
// call weakened, dropped or moved, the finding names the class, the step and what would help.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cpu_sim/simulate.h"
#include "fuzz/generator.h"

using namespace moetwin;

namespace {

/// One rank and one SM, two k blocks, ten laps of a ring of one block.
constexpr const char* kOneSm =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":600},"kernel":{"sms_per_rank":1,"stages":2}})";
/// Two ranks of two SMs, two launches.
constexpr const char* kTwoRanks =
    R"({"shape":{"ranks":2,"experts":4,"topk":3,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":40},"kernel":{"sms_per_rank":2,"stages":2},"launches":2})";
/// Rows of two pull chunks, and three of them a token to combine through two stages.
constexpr const char* kWide =
    R"({"shape":{"ranks":1,"experts":1,"topk":3,"hidden":4224,"intermediate":128,
        "max_tokens_per_rank":4},"kernel":{"sms_per_rank":1}})";

RunResult run(const Case& c, bool math, const Mutant& mutant = {},
              const std::string& schedule = "") {
  RunOptions options;
  options.threads = 1;
  options.check = true;
  options.math = math;
  options.schedule = schedule;
  return simulate(c, options, mutant);
}

struct Broken {
  MutantKind kind;
  Step step;
  const char* on;
  FindingClass found;
  Step at;
  const char* words;
  int64_t delta = 0;
};

/// What the checker must say of each; `words` come from the two sites or the remedy.
const Broken kBroken[] = {
    // A tile stored by many threads, published by one: no fence, the leader's alone, no rendezvous.
    {MutantKind::Drop, Step::Linear1Fence, kOneSm, FindingClass::Proxy, Step::Linear1Store,
     "executed a proxy fence before Linear1Together"},
    {MutantKind::LeaderOnly, Step::Linear1Fence, kOneSm, FindingClass::Proxy, Step::Linear1Store,
     "if every lane executed the fence Linear1Fence"},
    {MutantKind::Drop, Step::Linear1Together, kOneSm, FindingClass::Race, Step::Linear1Store,
     "met before Linear1Store"},
    {MutantKind::Swap, Step::Linear1Fence, kOneSm, FindingClass::Proxy, Step::Linear1Store,
     "Linear1Fence stood before Linear1Together", 1},
    {MutantKind::Drop, Step::PullFence, kTwoRanks, FindingClass::Proxy, Step::LoadAScales,
     "PullScales"},
    {MutantKind::LeaderOnly, Step::PullFence, kTwoRanks, FindingClass::Proxy, Step::LoadAScales,
     "if every lane executed the fence PullFence"},
    {MutantKind::Drop, Step::PullTogether, kTwoRanks, FindingClass::Proxy, Step::LoadAScales,
     "met before PullPublishRow"},
    {MutantKind::Swap, Step::PullFence, kTwoRanks, FindingClass::Proxy, Step::LoadAScales,
     "PullFence stood before PullTogether", 2},
    // "Arrive, then fence".
    {MutantKind::Swap, Step::MathFence, kOneSm, FindingClass::Proxy, Step::LoadAScales,
     "MathFence stood before MathReleaseStage", 2},
    {MutantKind::Drop, Step::MathFence, kOneSm, FindingClass::Proxy, Step::LoadAScales,
     "MathReadScales"},
    {MutantKind::LeaderOnly, Step::MathFenceAll, kTwoRanks, FindingClass::Proxy, Step::CombineLoad,
     "if every lane executed the fence MathFenceAll"},
    {MutantKind::Drop, Step::MathFenceAll, kTwoRanks, FindingClass::Proxy, Step::CombineLoad,
     "math 0 warp 0, which writes them at Linear2Scatter"},
    // A stage that is refilled while lanes still read it.
    {MutantKind::Drop, Step::CombineFence, kTwoRanks, FindingClass::Proxy, Step::CombineLoad,
     "CombineSum"},
    {MutantKind::Drop, Step::CombineTogether, kWide, FindingClass::Race, Step::CombineLoad,
     "met before CombineLoad"},
    {MutantKind::Drop, Step::Linear1StagingFree, kOneSm, FindingClass::Race, Step::Linear1Epilogue,
     "staging of math 0"},
    {MutantKind::Drop, Step::Linear2StagingFree, kOneSm, FindingClass::Race, Step::Linear2Epilogue,
     "Linear1Store"},
    // Orders.
    {MutantKind::Order, Step::PullPublishRow, kOneSm, FindingClass::Race, Step::LoadATile,
     "if PullPublishRow released or acquired"},
    {MutantKind::Order, Step::LoadAWaitsForRows, kOneSm, FindingClass::Race, Step::LoadATile,
     "if LoadAWaitsForRows released or acquired"},
    {MutantKind::Order, Step::PullWaitsForRingSlot, kOneSm, FindingClass::Race, Step::PullStore,
     "if PullWaitsForRingSlot released or acquired"},
    {MutantKind::Order, Step::MathReleaseBlock, kOneSm, FindingClass::Race, Step::PullStore,
     "if MathReleaseBlock released or acquired"},
    {MutantKind::Order, Step::Linear1Publish, kTwoRanks, FindingClass::Race, Step::LoadATile,
     "if Linear1Publish released or acquired"},
    {MutantKind::Order, Step::GridArrive, kTwoRanks, FindingClass::Race, Step::BroadcastCounts,
     "if GridArrive released or acquired"},
    {MutantKind::Order, Step::RankSignal, kTwoRanks, FindingClass::Race, Step::PoolTableBuild,
     "if RankSignal released or acquired"},
    {MutantKind::Order, Step::RankWait, kTwoRanks, FindingClass::Race, Step::PoolTableBuild,
     "if RankWait released or acquired"},
    // Scopes.
    {MutantKind::Scope, Step::RankSignal, kTwoRanks, FindingClass::Scope, Step::RankSignal,
     "if RankSignal had scope sys"},
    {MutantKind::Scope, Step::RankSignal, kTwoRanks, FindingClass::Scope, Step::PoolTableBuild,
     "if RankSignal had scope sys"},
    {MutantKind::Scope, Step::RankWait, kTwoRanks, FindingClass::Scope, Step::PoolTableBuild,
     "if RankWait had scope sys"},
    {MutantKind::Scope, Step::GridArrive, kTwoRanks, FindingClass::Scope, Step::BroadcastCounts,
     "if GridArrive had scope sys"},
    {MutantKind::Scope, Step::TaskClaim, kTwoRanks, FindingClass::Scope, Step::TaskClaim,
     "if TaskClaim had scope sys"},
    // Asynchronous ends.
    {MutantKind::Swap, Step::PullStored, kTwoRanks, FindingClass::Race, Step::LoadATile,
     "waited for its bulk stores before PullTogether", 2},
    {MutantKind::Drop, Step::PullBufferFree, kWide, FindingClass::Race, Step::PullLoad,
     "waited for its bulk stores before"},
    {MutantKind::Drop, Step::Linear1Stored, kOneSm, FindingClass::Race, Step::LoadATile,
     "waited for its bulk stores before Linear1Publish"},
    {MutantKind::Drop, Step::MathMmaWait, kOneSm, FindingClass::Race, Step::LoadATile,
     "waited for its tensor-core product before MathReleaseStage"},
    // Life cycles.
    {MutantKind::Drop, Step::TaskWaitsForEntry, kTwoRanks, FindingClass::Barrier, Step::TaskRelease,
     "before anybody has waited for the one before it"},
    {MutantKind::Drop, Step::PullCommit, kOneSm, FindingClass::Barrier, Step::PullBufferFree,
     "in no committed group"},
    {MutantKind::Drop, Step::PoolTableReady, kOneSm, FindingClass::Stale, Step::PoolTableReady,
     "nobody has written"},
};

std::string all_words(const RunResult& result) {
  std::string all;
  for (const Finding& f : result.findings)
    all +=
        std::string("\n  ") + finding_class_name(f.kind) + " " + step_name(f.step) + ": " + f.text;
  return all.empty() ? " none" : all;
}

bool found(const RunResult& result, const Broken& broken) {
  for (const Finding& f : result.findings)
    if (f.kind == broken.found && f.step == broken.at &&
        f.text.find(broken.words) != std::string::npos)
      return true;
  return false;
}

std::string description(const Broken& broken) {
  return std::string(step_name(broken.step)) + ", mutant kind " +
         std::to_string(static_cast<int>(broken.kind)) + ", must give " +
         finding_class_name(broken.found) + " at " + step_name(broken.at) + " with '" +
         broken.words + "'";
}

}  // namespace

TEST_CASE("race_roles: every weakened, dropped or moved call is found where it matters") {
  for (const Broken& broken : kBroken) {
    const Case c = parse_case(broken.on, "");
    const RunResult result = run(c, true, {broken.kind, broken.step, broken.delta});
    if (!found(result, broken)) FAIL_CHECK(description(broken), "; findings:", all_words(result));
  }
}

TEST_CASE("race_roles: without tile arithmetic the same races are found") {
  for (const Broken& broken : kBroken) {
    if (broken.found != FindingClass::Race && broken.found != FindingClass::Proxy) continue;
    const Case c = parse_case(broken.on, "");
    const RunResult result = run(c, false, {broken.kind, broken.step, broken.delta});
    if (!found(result, broken)) FAIL_CHECK(description(broken), "; findings:", all_words(result));
  }
}

TEST_CASE("race_roles: a checked run has the bits and the schedule of an unchecked one") {
  const Case c = parse_case(kTwoRanks, "");
  for (const char* schedule : {"fifo", "random:3"}) {
    RunOptions options;
    options.threads = 1;
    options.schedule = schedule;
    const RunResult plain = simulate(c, options);
    const RunResult checked = run(c, true, {}, schedule);
    CHECK(checked.findings.empty());
    CHECK(checked.schedule_digest == plain.schedule_digest);
    CHECK(checked.state_digest == plain.state_digest);
  }
}

TEST_CASE("race_roles: the role programs have no finding on generated cases and schedules") {
  const std::vector<std::string> schedules = {
      "",        "random:1",        "pct:2:3",       "random:9",     "slow:math@0", "slow:load_a@0",
      "pct:5:6", "slow:dispatch@0", "replay:step:3", "slow:load_b@0"};
  for (uint64_t index = 0; index < 60; ++index) {
    Case c = random_case(4711, index);
    for (uint64_t s = 0; s < 2; ++s) {
      const std::string& schedule = schedules[(index * 2 + s) % schedules.size()];
      if (s == 1) c.world.landing = Landing::Random;
      const RunResult result = run(c, index % 3 == 0, {}, schedule);
      CHECK_MESSAGE(result.findings.empty(), "case 4711/", index, " schedule ", schedule,
                    all_words(result));
    }
  }
}

TEST_CASE("race_roles: 1,000 generated cases have no finding under any policy [slow]") {
  for (uint64_t index = 0; index < 1000; ++index) {
    Case c = random_case(815, index);
    for (const char* schedule : {"", "random:2", "pct:7:4", "slow:math@0", "slow:dispatch@0"}) {
      c.world.landing = static_cast<Landing>(index % 3);
      const RunResult result = run(c, false, {}, schedule);
      CHECK_MESSAGE(result.findings.empty(), "case 815/", index, " schedule ", schedule,
                    all_words(result));
    }
  }
}
