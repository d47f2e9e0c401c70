// explore: many schedules of one case, with what they found and covered.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/case_checks.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/check.h"
#include "fuzz/explore.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  moetwin explore small.json --policy slow --check\n"
    "  moetwin explore small.json --policy random --schedules 200 --seed 7\n"
    "  moetwin explore tiny.json --policy exhaustive --schedules 100000 --json\n";

struct Options {
  std::string path;
  std::string policy = "random";
  std::string schedules = "100";
  std::string seed = "1";
  std::string preemptions = "2";
  std::string jobs;
  std::string max_memory;
  bool check = false;
  bool math = false;
  bool unsafe_ring = false;
  bool json = false;
};

ExplorePolicy read_policy(const std::string& text) {
  for (uint32_t i = 0; i < static_cast<uint32_t>(ExplorePolicy::Count); ++i)
    if (text == explore_policy_name(static_cast<ExplorePolicy>(i)))
      return static_cast<ExplorePolicy>(i);
  throw InputError(fmt::format("--policy: '{}' is none of slow, random, pct, exhaustive", text));
}

/// As many runs at a time as there are cores and the memory limit holds.
uint32_t job_count(const Options& o, const Case& c) {
  const uint32_t asked = read_threads(o.jobs);
  const auto wanted = asked != 0 ? asked : static_cast<uint32_t>(omp_get_max_threads());
  const uint64_t each = std::max<uint64_t>(run_bytes(c, true, false), 1);
  const uint64_t fit = read_max_memory(o.max_memory) / each;
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit, 1, wanted));
}

std::string repeat_command(const Options& o, const ExploredFinding& found) {
  return CommandText("run")
      .word(o.path)
      .option("--schedule", found.schedule)
      .flag("--check", o.check)
      .flag("--no-math", !o.math)
      .given("--k-loop", o.math ? "" : "full")
      .flag("--unsafe-ring", o.unsafe_ring)
      .text();
}

nlohmann::ordered_json coverage_json(const Coverage& coverage) {
  nlohmann::ordered_json pairs = nlohmann::ordered_json::array();
  for (uint32_t arrive = 0; arrive < kNumSteps; ++arrive)
    for (uint32_t wait = 0; wait < kNumSteps; ++wait)
      if (coverage.pair(static_cast<Step>(arrive), static_cast<Step>(wait)))
        pairs.push_back({step_name(static_cast<Step>(arrive)), step_name(static_cast<Step>(wait))});
  nlohmann::ordered_json ring = nlohmann::ordered_json::array();
  for (const RingState& state : coverage.ring_states)
    ring.push_back({{"occupied", state.occupied}, {"parity", state.parity}});
  return {{"pairs", pairs}, {"ring", ring}, {"laps", coverage.laps}};
}

nlohmann::ordered_json explore_json(const Options& o, const ExploreResult& result, double seconds) {
  nlohmann::ordered_json findings = nlohmann::ordered_json::array();
  for (const ExploredFinding& found : result.findings) {
    nlohmann::ordered_json one = findings_json({found.finding}, repeat_command(o, found)).front();
    one["times"] = found.times;
    findings.push_back(std::move(one));
  }
  return {{"policy", o.policy},
          {"swept", result.swept},
          {"schedules", result.schedules},
          {"behaviours", result.behaviours.size()},
          {"exhausted", result.exhausted},
          {"redundant", result.redundant},
          {"cut", result.cut},
          {"events", result.events},
          {"coverage", coverage_json(result.coverage)},
          {"findings", findings},
          {"seconds", seconds}};
}

std::string exhausted_text(const Options& o, const ExploreResult& result) {
  if (!result.exhausted)
    return fmt::format("not exhausted: --schedules {} ended it; the longest run has {} choices\n",
                       o.schedules, result.choices);
  if (result.cut == 0)
    return "exhausted: every order of conflicting operations was run, none needed more "
           "preemptions\n";
  return fmt::format(
      "nothing left within {} preemptions; {} continuations that need more were cut, and behind a "
      "cut the reduction may have left out an order\n",
      o.preemptions, result.cut);
}

std::string explore_screen(const Options& o, const Case& c, const ExploreResult& result,
                           double seconds) {
  std::string text = case_lines(c, o.unsafe_ring);
  text += fmt::format("explored   {} schedules of the sweep, {} of policy {}", result.swept,
                      result.schedules, o.policy);
  if (result.redundant > 0) text += fmt::format(", {} more given up as seen", result.redundant);
  text += fmt::format("; {} events in {:.2f} s\n", result.events, seconds);
  if (o.policy == explore_policy_name(ExplorePolicy::Exhaustive))
    text += "space      " + exhausted_text(o, result);
  text += fmt::format("behaviours {} told apart by the order of conflicting operations\n",
                      result.behaviours.size());
  text += fmt::format(
      "coverage   {} pairs of arrival and wait, {} states of ring occupancy and parity, {} laps\n",
      result.coverage.pairs.count(), result.coverage.ring_states.size(), result.coverage.laps);
  for (size_t i = 0; i < result.findings.size(); ++i) {
    const ExploredFinding& found = result.findings[i];
    text += fmt::format("finding {}  {}           in {} schedules; repeat: {}\n", i + 1,
                        finding_text(found.finding), found.times, repeat_command(o, found));
  }
  if (result.findings.empty()) text += "findings   none\n";
  return text;
}

int run_explore(const Options& o) {
  ExploreOptions options;
  options.policy = read_policy(o.policy);
  options.schedules = read_integer_option("--schedules", o.schedules, 1, 1'000'000'000);
  options.seed = read_integer_option("--seed", o.seed, 0, (uint64_t{1} << 62) - 1);
  options.preemptions =
      static_cast<uint32_t>(read_integer_option("--preemptions", o.preemptions, 0, 1000));
  options.run.check = o.check;
  options.run.math = o.math;
  options.run.unsafe_ring = o.unsafe_ring;
  const Case c = load_case(o.path);
  check_case(c, find_backend("--backend", "sim"),
             {o.unsafe_ring, false, "fifo", read_max_memory(o.max_memory)});
  options.jobs = job_count(o, c);

  const auto begin = std::chrono::steady_clock::now();
  ExploreResult result;
  {
    Progress progress("explore", options.policy == ExplorePolicy::Exhaustive
                                     ? 0
                                     : slow_sweep(c).size() + options.schedules);
    options.progress = [&progress] { progress.advance(); };
    result = explore(c, options);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const std::string text = o.json ? explore_json(o, result, seconds).dump() + "\n"
                                  : explore_screen(o, c, result, seconds);
  std::fputs(text.c_str(), stdout);
  const bool failed =
      std::any_of(result.findings.begin(), result.findings.end(),
                  [](const ExploredFinding& f) { return f.finding.kind != FindingClass::Slow; });
  return failed ? kExitFinding : kExitFine;
}

}  // namespace

VerbAction add_explore(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file; its own schedule is not used");
  options.text("--policy", o->policy,
               "slow (each role of each rank held back, always run first), random, pct or "
               "exhaustive (random)");
  options.text("--schedules", o->schedules, "schedules behind the sweep, at most (100)");
  options.text("--seed", o->seed, "schedule i draws from SEED + i (1)");
  options.text("--preemptions", o->preemptions, "exhaustive: most preemptions of a schedule (2)");
  options.text("--jobs", o->jobs, "schedules at a time (all cores)");
  options.flag("--check", o->check, "races, proxies, scopes and stale words are findings too");
  options.flag("--math", o->math, "with tile arithmetic; without it rows carry tags");
  options.flag("--unsafe-ring", o->unsafe_ring, "accept a ring below the smallest safe one");
  options.text("--max-memory", o->max_memory, "GiB all runs at a time may need");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return run_explore(*o); };
}

}  // namespace moetwin
