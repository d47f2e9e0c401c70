// The role programs as they are have no finding: varied cases under many checked schedules, the
// sweep of held-back roles among them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cpu_sim/simulate.h"
#include "fuzz/explore.h"
#include "fuzz/generator.h"

using namespace moetwin;

namespace {

constexpr uint64_t kSeed = 20261129;
constexpr uint64_t kCases = 50;

/// The sweep, then random and pct schedules in turn.
std::vector<std::string> schedules_of(const Case& c, size_t count) {
  std::vector<std::string> schedules = slow_sweep(c);
  for (size_t i = 0; schedules.size() < count; ++i)
    schedules.push_back(i % 2 == 0 ? "random:" + std::to_string(i)
                                   : "pct:" + std::to_string(i) + ":" + std::to_string(2 + i % 5));
  schedules.resize(count);
  return schedules;
}

uint64_t run_case(uint64_t index, size_t schedules) {
  Case c = random_case(kSeed, index);
  uint64_t runs = 0;
  for (const std::string& schedule : schedules_of(c, schedules)) {
    c.world.landing = static_cast<Landing>(runs++ % 3);
    RunOptions options;
    options.threads = 1;
    options.check = true;
    options.math = false;
    options.schedule = schedule;
    const RunResult result = simulate(c, options);
    if (result.findings.empty()) continue;
    const Finding& f = result.findings[0];
    FAIL_CHECK("case ", kSeed, "/", index, ", schedule ", schedule, ", landing ",
               static_cast<int>(c.world.landing), ": ", finding_class_name(f.kind), " at ",
               step_name(f.step), ": ", f.text);
  }
  return runs;
}

}  // namespace

TEST_CASE("false_alarms: 50 cases under their first checked schedules have no finding") {
  uint64_t runs = 0;
  for (uint64_t index = 0; index < kCases; ++index) runs += run_case(index, 3);
  CHECK(runs == 150);
}

TEST_CASE("false_alarms: 10,000 checked schedules of 50 cases have no finding [slow]") {
  uint64_t runs = 0;
  for (uint64_t index = 0; index < kCases; ++index) runs += run_case(index, 200);
  CHECK(runs == 10000);
}
