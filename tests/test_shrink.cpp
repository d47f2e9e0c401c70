// Shrinking keeps a verdict and gets rid of the rest; relations hold for the right program and
// break for a wrong one.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "fuzz/choices.h"
#include "fuzz/differential.h"
#include "fuzz/exhaustive.h"
#include "fuzz/generator.h"
#include "fuzz/relations.h"
#include "fuzz/shrink.h"
#include "fuzz/shrink_moves.h"
#include "model/case.h"

using namespace moetwin;

namespace {

uint64_t total_tokens(const Case& c) {
  uint64_t tokens = 0;
  for (const LaunchSpec& launch : c.launches)
    for (const uint32_t count : launch.tokens) tokens += count;
  return tokens;
}

/// The first case of a stream in which the plant shows.
Case case_that_shows(const std::string& plant, const JudgeOptions& judge) {
  for (uint64_t index = 0; index < 400; ++index) {
    Choices draw(9, index);
    Case c = draw_case(draw, small_profile());
    c.plant = plant;
    if (total_tokens(c) > 20 && !judge_case(c, judge).cause.none()) return c;
  }
  FAIL("no case shows ", plant);
  return {};
}

Case small_case() {
  return parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
      "max_tokens_per_rank":9},"tokens":[9,5],"routing":{"kind":"zipf","seed":4},"launches":2,
      "kernel":{"sms_per_rank":2,"stages":3}})",
                    "");
}

}  // namespace

TEST_CASE("shrink: a finding of the protocol ends as a case that a person can read") {
  ShrinkOptions options;
  options.judge.math = false;
  for (const char* plant : {"F25c", "F14"}) {
    CAPTURE(plant);
    const Case c = case_that_shows(plant, options.judge);
    const Judged before = judge_case(c, options.judge);
    const ShrinkResult small = shrink_case(c, options);
    CHECK(small.finished);
    CHECK(small.cause.kind == before.cause.kind);
    CHECK(small.cause.site == before.cause.site);
    CHECK(judge_case(small.c, options.judge).cause.kind == before.cause.kind);
    CHECK(small.c.plant == plant);
    CHECK(small.c.shape.ranks <= 2);
    CHECK(small.c.shape.experts <= 4);
    CHECK(small.c.launches.size() == 1);
    CHECK(small.c.kernel.sms_per_rank == 1);
    CHECK(small.c.world.landing == Landing::Late);
    CHECK(small.c.shape.hidden == 128);
    if (plant == std::string("F25c")) CHECK(total_tokens(small.c) <= 2);
  }
}

TEST_CASE("shrink: a difference of values keeps its stage") {
  ShrinkOptions options;
  const Case c = case_that_shows("F58b", options.judge);
  const ShrinkResult small = shrink_case(c, options);
  CHECK(small.cause.kind == "mismatch");
  CHECK(small.cause.site == judge_case(c, options.judge).cause.site);
  CHECK(total_tokens(small.c) == 1);
  CHECK(small.c.shape.topk == 1);
  CHECK(small.c.shape.experts == 1);
}

TEST_CASE("shrink: what a case with fewer rows shows only in another order ends with few rows") {
  // A row counts twice: with one SM and in fifo order the block is full too early only from 33 rows
  // on.
  Case c = parse_case(R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
      "max_tokens_per_rank":33},"kernel":{"sms_per_rank":1,"stages":1},"plant":"F22c"})",
                      "");
  ShrinkOptions options;
  options.judge.math = false;
  options.judge.check = true;
  const Judged before = judge_case(c, options.judge);
  REQUIRE(before.cause.kind == "race");
  const ShrinkResult small = shrink_case(c, options);
  CHECK(small.finished);
  Judged after = judge_case(small.c, options.judge);
  CHECK(keep_verdict(before, after));
  CHECK(total_tokens(small.c) <= 2);
  CHECK(small.c.kernel.sms_per_rank <= 2);
}

TEST_CASE("shrink: an expert between two that matter goes") {
  // Three blocks of a rank are needed. Of experts 0, 3 and 4 no smaller modulus keeps three.
  const Case c =
      parse_case(R"({"shape":{"ranks":1,"experts":5,"topk":3,"hidden":128,"intermediate":128,
      "max_tokens_per_rank":2},"routing":{"kind":"explicit","topk_idx":[[[-1,3,-1],[0,-1,4]]]},
      "kernel":{"sms_per_rank":1,"stages":1},"plant":"F42b"})",
                 "");
  ShrinkOptions options;
  options.judge.math = false;
  options.judge.check = true;
  const ShrinkResult small = shrink_case(c, options);
  CHECK(small.cause.kind == "race");
  CHECK(small.c.shape.experts == 3);
}

TEST_CASE("shrink: ranks become one where only their tokens matter") {
  // A ring of one slot needs two blocks to be stuck, and each rank has one token.
  const Case c = parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":1,"hidden":128,
      "intermediate":128,"max_tokens_per_rank":1},"routing":{"kind":"explicit",
      "topk_idx":[[[0]],[[1]]]},"kernel":{"sms_per_rank":1,"ring_blocks":1}})",
                            "");
  ShrinkOptions options;
  options.judge.math = false;
  options.judge.unsafe_ring = true;
  const ShrinkResult small = shrink_case(c, options);
  CHECK(small.cause.kind == "deadlock");
  CHECK(small.c.shape.ranks == 1);
  CHECK(small.c.shape.experts == 2);
  CHECK(total_tokens(small.c) == 2);
}

TEST_CASE(
    "shrink: where a rank goes, what was routed to another that stays is still routed to it") {
  const Case c = parse_case(R"({"shape":{"ranks":3,"experts":6,"topk":1,"hidden":128,
      "intermediate":128,"max_tokens_per_rank":1},"tokens":[1,0,0],
      "routing":{"kind":"explicit","topk_idx":[[[5]],[],[]]}})",
                            "");
  // Expert 5 is the second of rank 2, which is rank 1 once the one between is gone.
  bool found = false;
  for (const ShrinkMove move : count_moves())
    for (const Case& fewer : move(c))
      if (fewer.shape.ranks == 2 && fewer.tokens == std::vector<uint32_t>{1, 0})
        found = found || fewer.routing.topk_idx[0][0][0] == 3;
  CHECK(found);
}

TEST_CASE("shrink: the finding is kept, first or not, and of a race whichever access is second") {
  const auto finding = [](FindingClass kind, Step step, Step other) {
    Finding result;
    result.kind = kind;
    result.step = step;
    result.role = "dispatch 1";
    result.other = std::string("rank 0 SM 0 load_a 0, which reads them at ") + step_name(other);
    return result;
  };
  const auto judged = [](const Finding& first, std::vector<Finding> later = {}) {
    Judged result;
    result.cause = {finding_class_name(first.kind), step_name(first.step), "dispatch"};
    result.finding = first;
    result.later = std::move(later);
    return result;
  };
  const auto keeps = [](const Judged& wanted, Judged found) { return keep_verdict(wanted, found); };
  constexpr auto kRace = FindingClass::Race;
  const Judged race = judged(finding(kRace, Step::PullStore, Step::LoadATile));
  CHECK(keeps(race, race));
  CHECK(keeps(race, judged(finding(kRace, Step::LoadATile, Step::PullStore))));
  CHECK(!keeps(race, judged(finding(FindingClass::Proxy, Step::LoadATile, Step::PullStore))));
  CHECK(!keeps(race, judged(finding(kRace, Step::LoadATile, Step::PullScales))));
  CHECK(!keeps(race, judged(finding(kRace, Step::LoadAScales, Step::PullStore))));
  const Finding other = finding(kRace, Step::PullScales, Step::LoadAScales);
  CHECK(!keeps(race, judged(other)));
  Judged second = judged(other, {other, finding(kRace, Step::LoadATile, Step::PullStore)});
  REQUIRE(keep_verdict(race, second));
  CHECK(second.cause.site == "LoadATile");
  CHECK(second.cause.role == "dispatch");
  CHECK(second.finding.step == Step::LoadATile);
}

TEST_CASE("shrink: a case without a finding is refused, and runs are counted") {
  ShrinkOptions options;
  CHECK_THROWS_WITH_AS(shrink_case(small_case(), options), doctest::Contains("no finding"),
                       InputError);
  options.judge.math = false;
  const Case c = case_that_shows("F25c", options.judge);
  options.most_runs = 5;
  const ShrinkResult cut = shrink_case(c, options);
  CHECK(cut.runs == 5);
  CHECK(!cut.finished);
}

/// Adds a choice to the case's schedule under which its verdict stays; false where none was found.
bool with_choice_that_does_not_matter(Case& c, const JudgeOptions& judge) {
  const Cause cause = judge_case(c, judge).cause;
  const Schedule schedule = parse_schedule(c.schedule);
  for (size_t before = 1; before < schedule.deviations.size(); ++before) {
    Schedule more = schedule;
    const Deviation& next = schedule.deviations[before];
    if (schedule.deviations[before - 1].choice + 1 == next.choice) continue;
    more.deviations.insert(more.deviations.begin() + static_cast<ptrdiff_t>(before),
                           Deviation{next.choice - 1, next.agent});
    Case with = c;
    with.schedule = to_string(more);
    const Cause same = judge_case(with, judge).cause;
    if (same.kind != cause.kind || same.site != cause.site) continue;
    c = with;
    return true;
  }
  return false;
}

TEST_CASE("shrink: of a schedule only the choices that matter are left") {
  // Three SMs and a ring one block short: fifo ends, some orders of claims do not. With one SM less
  // or one expert less the ring is safe, so no smaller case does without its choices.
  Case c = parse_case(R"({"shape":{"ranks":1,"experts":4,"topk":4,"hidden":128,"intermediate":128,
      "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1,2,3]]]},
      "kernel":{"sms_per_rank":3,"ring_blocks":3}})",
                      "");
  ExhaustiveOptions all;
  all.run.math = false;
  all.run.unsafe_ring = true;
  all.run.threads = 1;
  all.schedules = 5000;
  explore_exhaustively(c, all, [&](const RunResult& run, const CoverageObserver&) {
    if (run.failed()) c.schedule = run.schedule_string;
    return !run.failed();
  });
  ShrinkOptions options;
  options.judge.math = false;
  options.judge.unsafe_ring = true;
  REQUIRE(with_choice_that_does_not_matter(c, options.judge));
  const size_t choices = parse_schedule(c.schedule).deviations.size();
  REQUIRE(choices > 3);
  const ShrinkResult small = shrink_case(c, options);
  CHECK(small.cause.kind == "deadlock");
  CHECK(small.c.kernel.sms_per_rank == 3);
  const Schedule kept = parse_schedule(small.c.schedule);
  CHECK(!kept.deviations.empty());
  CHECK(kept.deviations.size() < choices);
  for (size_t out = 0; out < kept.deviations.size(); ++out) {
    Schedule fewer = kept;
    fewer.deviations.erase(fewer.deviations.begin() + static_cast<ptrdiff_t>(out));
    Case without = small.c;
    without.schedule = to_string(fewer);
    const Cause cause = judge_case(without, options.judge).cause;
    CHECK(!(cause.kind == small.cause.kind && cause.site == small.cause.site));
  }
}

TEST_CASE("relations: each holds for the kernel as it is, and says nothing about few cases") {
  uint32_t applied[kNumRelations] = {};
  for (uint64_t index = 0; index < 6 * kNumRelations; ++index) {
    Choices draw(21, index);
    const Case c = draw_case(draw, small_profile());
    JudgeOptions judge;
    judge.relation = static_cast<Relation>(index % kNumRelations);
    judge.relation_seed = index;
    const Judged judged = judge_case(c, judge);
    CAPTURE(index);
    CHECK_MESSAGE(judged.cause.none(), judged.finding.text);
    applied[index % kNumRelations] += judged.related ? 1 : 0;
  }
  for (uint32_t i = 0; i < kNumRelations; ++i) {
    CAPTURE(relation_name(static_cast<Relation>(i)));
    if (static_cast<Relation>(i) != Relation::LaunchAlone) CHECK(applied[i] > 0);
  }
}

TEST_CASE("relations: a result that does not follow the change is named") {
  const Case c = small_case();
  LayerResult result;
  result.shape = c.shape;
  result.tokens = {2, 1};
  result.y.assign(3 * c.shape.hidden, 0);
  for (size_t i = 0; i < result.y.size(); ++i) result.y[i] = static_cast<uint16_t>(i);
  const auto broken = [&](Relation relation, const LayerResult& changed) {
    const auto related = related_case(relation, c, 3);
    REQUIRE(related);
    return broken_relation(*related, {result, result}, {result, changed});
  };
  CHECK(broken(Relation::Schedule, result).empty());
  LayerResult other = result;
  other.y[c.shape.hidden + 5] ^= 1;
  CHECK(broken(Relation::Schedule, other).find("rank 0: y of token 1") != std::string::npos);
  other.tokens = {1, 2};
  CHECK(broken(Relation::Poison, other).find("other tokens") != std::string::npos);
  const auto alone = related_case(Relation::LaunchAlone, c, 3);
  REQUIRE(alone);
  CHECK(alone->first_launch == 1);
  CHECK(alone->c.launches.size() == 1);
  CHECK(!(related_case(Relation::Capacity, c, 3)->c == c));
}
