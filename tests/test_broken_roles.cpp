// Role programs broken on purpose, one synchronising call at a time: each must end in the report
// that names the broken step or whom it left waiting.
#include <doctest/doctest.h>

#include <string>

#include "cpu_sim/simulate.h"

using namespace moetwin;

namespace {

/// One rank and one SM, two k blocks, three laps of a ring of one.
constexpr const char* kSmall =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":600},"kernel":{"sms_per_rank":1,"stages":2}})";
/// Two ranks that need each other.
constexpr const char* kTwoRanks =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":8},"kernel":{"sms_per_rank":2}})";

RunResult run(const char* text, const Mutant& mutant) {
  RunOptions options;
  options.threads = 1;
  return simulate(parse_case(text, ""), options, mutant);
}

/// Whether some finding has this class and step and says `words`.
bool found(const RunResult& result, FindingClass kind, Step step, const std::string& words) {
  for (const Finding& f : result.findings)
    if (f.kind == kind && f.step == step && f.text.find(words) != std::string::npos) return true;
  std::string all;
  for (const Finding& f : result.findings)
    all +=
        std::string("\n  ") + finding_class_name(f.kind) + " " + step_name(f.step) + ": " + f.text;
  MESSAGE("findings:", all);
  return false;
}

Mutant drop(Step step, uint32_t first = 0, uint32_t last = UINT32_MAX) {
  return {MutantKind::Drop, step, 0, first, last};
}

}  // namespace

TEST_CASE("broken_roles: unbroken, both cases have no finding") {
  CHECK(run(kSmall, {}).findings.empty());
  CHECK(run(kTwoRanks, {}).findings.empty());
}

TEST_CASE(
    "broken_roles: a skipped arrive on a stage ends in a deadlock that names the math warps") {
  const RunResult result = run(kSmall, drop(Step::MathReleaseStage));
  CHECK(found(result, FindingClass::Deadlock, Step::LoadAWaitsForStage, "0 of 4 arrivals"));
  CHECK(found(result, FindingClass::Deadlock, Step::LoadAWaitsForStage, "rank 0 SM 0 math 0"));
  CHECK(result.launches.empty());
}

TEST_CASE("broken_roles: a skipped row publication names the ring counter that stays short") {
  const RunResult result = run(kTwoRanks, drop(Step::PullPublishRow, 0, 0));
  CHECK(found(result, FindingClass::Deadlock, Step::LoadAWaitsForRows, "wanted at least 64"));
  CHECK(found(result, FindingClass::Deadlock, Step::LoadAWaitsForRows, "dispatch"));
}

TEST_CASE("broken_roles: too many announced bytes leave the stage waiting for them") {
  const RunResult result = run(kSmall, {MutantKind::Bytes, Step::LoadBExpect, 16, 0, 0});
  CHECK(found(result, FindingClass::Deadlock, Step::MathWaitsForStage, "16 bytes to come"));
}

TEST_CASE("broken_roles: too few announced bytes are an overrun of the stage's barrier") {
  const RunResult result = run(kSmall, {MutantKind::Bytes, Step::LoadBExpect, -16, 0, 0});
  // Named where the byte too many landed: by the last of the stage's copies.
  CHECK(found(result, FindingClass::Barrier, Step::LoadAScales,
              "full[0] got more bytes than were announced"));
}

TEST_CASE(
    "broken_roles: a math warpgroup that does not wait for its stage reads what has not landed") {
  const RunResult result = run(kSmall, drop(Step::MathWaitsForStage, 1, 1));
  CHECK(found(result, FindingClass::Stale, Step::MathReadScales, "nobody has written"));
}

TEST_CASE("broken_roles: a pull that does not wait for its chunk meets it again at the next row") {
  const RunResult result = run(kTwoRanks, drop(Step::PullWaitsForChunk));
  CHECK(found(result, FindingClass::Barrier, Step::PullLoad,
              "pull[0] gets more arrivals than its phase has"));
}

TEST_CASE("broken_roles: a pull that does not wait for its only chunk stores poison") {
  std::string text = kTwoRanks;
  text.insert(text.size() - 1, R"(,"tokens":[1,0])");
  const RunResult result = run(text.c_str(), drop(Step::PullWaitsForChunk));
  CHECK(found(result, FindingClass::Stale, Step::MathMmaWait, "nobody has written"));
}

TEST_CASE("broken_roles: a lap too many in the ring's wait target never comes") {
  const RunResult result =
      run(kSmall, {MutantKind::Target, Step::PullWaitsForRingSlot, 2, 0, UINT32_MAX});
  CHECK(found(result, FindingClass::Deadlock, Step::PullWaitsForRingSlot, "XEmpty"));
}

TEST_CASE("broken_roles: the wrong parity is a barrier that is whole phases away, or a hang") {
  const RunResult result =
      run(kSmall, {MutantKind::Parity, Step::LoadAWaitsForStage, 0, 2, UINT32_MAX});
  REQUIRE(!result.findings.empty());
  CHECK((result.findings[0].kind == FindingClass::Deadlock ||
         result.findings[0].kind == FindingClass::Barrier));
  CHECK(result.launches.empty());
}

TEST_CASE("broken_roles: a barrier initialised for one arrival too few gets one too many") {
  const RunResult result =
      run(kSmall, {MutantKind::Count, Step::InitBarriers, -1, 1, 1, Role::LoadA});
  CHECK(found(result, FindingClass::Barrier, Step::MathReleaseStage, "more arrivals"));
}

TEST_CASE("broken_roles: a wrong participant count is named at the barrier") {
  const RunResult result =
      run(kSmall, {MutantKind::Count, Step::PoolTableReady, 32, 0, 0, Role::LoadB});
  CHECK(found(result, FindingClass::Barrier, Step::PoolTableReady, "Everyone"));
}

TEST_CASE("broken_roles: a rank that does not signal is named by the rank that waits") {
  const RunResult result = run(kTwoRanks, drop(Step::RankSignal, 0, 0));
  REQUIRE(!result.findings.empty());
  CHECK(found(result, FindingClass::Deadlock, Step::RankWait, "ranks arrived"));
}

TEST_CASE("broken_roles: a word that is not cleared is named at the end of the launch") {
  const RunResult result = run(kTwoRanks, drop(Step::CleanupClear));
  CHECK(found(result, FindingClass::Stale, Step::CleanupClear, "SendCount"));
}

TEST_CASE("broken_roles: wgmma whose wait is skipped is an accumulator read too early") {
  const RunResult result = run(kSmall, drop(Step::MathMmaWait, 0, 0));
  CHECK(found(result, FindingClass::Barrier, Step::MathMmaWait, "has not been waited for"));
}

TEST_CASE(
    "broken_roles: a tile store that is never committed is not awaited, and Linear2 reads poison") {
  const RunResult result = run(kSmall, drop(Step::Linear1Store));
  REQUIRE(!result.findings.empty());
  CHECK(result.failed());
}

TEST_CASE(
    "broken_roles: an SM that never becomes resident is named, and a free one changes nothing") {
  std::string text = kTwoRanks;
  text.insert(text.size() - 1, R"(,"world":{"held_sms":[[1,1]]})");
  const RunResult result = run(text.c_str(), {});
  CHECK(found(result, FindingClass::Residency, Step::GridWait, "1 of 2 SMs of rank 1 arrived"));
  CHECK(found(result, FindingClass::Residency, Step::GridWait, "SM 1 is not resident"));
}

TEST_CASE("broken_roles: a call behind its neighbour is still made") {
  // Bytes that are announced after their copy was issued count all the same.
  const RunResult right = run(kTwoRanks, {});
  for (const int64_t neighbours : {1, 2})
    CHECK(run(kTwoRanks, {MutantKind::Swap, Step::LoadAExpect, neighbours}).state_digest ==
          right.state_digest);
  CHECK(run(kTwoRanks, {MutantKind::Swap, Step::MathFence, 1}).state_digest == right.state_digest);
}

TEST_CASE("broken_roles: a late rank is no deadlock") {
  std::string text = kTwoRanks;
  text.insert(text.size() - 1, R"(,"world":{"late_rank":1,"late_steps":100000})");
  CHECK(run(text.c_str(), {}).findings.empty());
}
