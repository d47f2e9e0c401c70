// The simulator against the naive path on generated cases: equal bits at every stage of every
// launch, and proof that the cases cover what they are meant to cover.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "common/kernel_plan.h"
#include "cpu_sim/simulate.h"
#include "fuzz/coverage.h"
#include "fuzz/generator.h"
#include "model/case.h"
#include "model/case_reader.h"
#include "model/compare.h"
#include "model/naive.h"

using namespace moetwin;

namespace {

constexpr uint64_t kSeed = 20260;
constexpr uint64_t kCases = MOETWIN_GENERATED_CASES;
/// From here on the cases must cover everything.
constexpr uint64_t kCasesForCoverage = 2000;

/// Empty where the case runs without a finding and to equal bits; else what is wrong.
std::string judge(const Case& c, Coverage& seen) {
  Coverage own;
  RunOptions options;
  options.threads = 1;
  const RunResult run = simulate(c, options);
  for (const Finding& finding : run.findings)
    if (finding.kind != FindingClass::Slow)
      return std::string(finding_class_name(finding.kind)) + ": " + finding.text;
  if (run.launches.size() != c.launches.size()) return "a launch did not come to its end";
  WeightCache cache;
  for (size_t launch = 0; launch < c.launches.size(); ++launch) {
    const Problem problem = make_problem(c, launch, cache);
    cover_launch(c, launch, problem, own);
    const Comparison comparison =
        compare_results(run.launches[launch], run_naive(problem, {.threads = 1}));
    for (const Stage stage : kStages)
      if (!comparison.stage(stage).compared())
        return std::string("stage ") + stage_name(stage) + " was not compared";
    if (!comparison.equal())
      return fmt::format("launch {}: {}", launch, describe(comparison, "sim", "naive"));
  }
  for (const auto& [feature, count] : own) seen[feature] += count;
  return {};
}

/// Writes the case where the test runs and says what to type.
std::string repeat_command(const Case& c, uint64_t index) {
  const std::string path =
      std::filesystem::absolute(fmt::format("generated_case_{}.json", index)).string();
  save_case(c, path);
  return "moetwin diff " + path;
}

}  // namespace

TEST_CASE("generator: a case is the same every time, valid, and survives its file") {
  for (uint64_t index = 0; index < 500; ++index) {
    CAPTURE(index);
    const Case c = random_case(kSeed, index);
    REQUIRE(c == random_case(kSeed, index));
    REQUIRE(parse_case(case_to_json(c), "") == c);
    for (const LaunchSpec& launch : c.launches) {
      REQUIRE(!make_plan(launch.shape, c.kernel).error);
      uint64_t rows = 0;
      for (const uint32_t count : launch.tokens) rows += uint64_t{count} * launch.shape.topk;
      REQUIRE(rows <= kMaxGeneratedRows);
    }
  }
  CHECK(!(random_case(kSeed, 0) == random_case(kSeed, 1)));
  CHECK(!(random_case(kSeed, 0) == random_case(kSeed + 1, 0)));
}

TEST_CASE(
    "generated cases: simulator and naive path agree at every stage, and the cases cover "
    "what they should") {
  Coverage seen;
  std::vector<std::string> failures;
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic)
  for (uint64_t index = 0; index < kCases; ++index) {
    const Case c = random_case(kSeed, index);
    Coverage own;
    std::string wrong;
    try {
      wrong = judge(c, own);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    for (const auto& [feature, count] : own) seen[feature] += count;
    if (!wrong.empty())
      failures.push_back(
          fmt::format("case {}: {}\nrepeat: {}", index, wrong, repeat_command(c, index)));
  }
  for (const std::string& failure : failures) FAIL_CHECK(failure);
  if (kCases < kCasesForCoverage) return;
  for (const std::string& feature : wanted_features()) {
    const auto found = seen.find(feature);
    CHECK_MESSAGE((found != seen.end() && found->second >= 2), "not covered: ", feature);
  }
}
