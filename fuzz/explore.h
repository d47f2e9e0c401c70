// Many schedules of one case: each role of each rank held back in turn, then random, pct or all
// schedules. It keeps what was found, what was covered and how many behaviours were told apart.
// How a schedule is played is the simulator's business.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cpu_sim/coverage.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

enum class ExplorePolicy : uint8_t { Slow, Random, Pct, Exhaustive, Count };

constexpr const char* explore_policy_name(ExplorePolicy policy) {
  constexpr const char* kNames[] = {"slow", "random", "pct", "exhaustive"};
  return kNames[static_cast<uint32_t>(policy)];
}

constexpr uint32_t kExplorePctDepth = 3;

struct ExploreOptions {
  ExplorePolicy policy = ExplorePolicy::Random;
  uint64_t schedules = 100;        ///< after the sweep; under Exhaustive the most runs
  uint64_t seed = 1;               ///< schedule i draws from seed + i
  uint32_t jobs = 1;               ///< schedules at a time, each on one thread
  uint32_t preemptions = 2;        ///< Exhaustive
  RunOptions run;                  ///< check, math, unsafe_ring; the rest is set here
  std::function<void()> progress;  ///< called once a run, from any thread; may be empty
};

/// A finding and the schedule under which it came first. Findings of the same class, step and role
/// are one.
struct ExploredFinding {
  Finding finding;
  std::string schedule;
  uint64_t times = 0;  ///< schedules in which it came
};

struct ExploreResult {
  uint64_t swept = 0;      ///< schedules of the sweep, fifo included
  uint64_t schedules = 0;  ///< schedules after it
  uint64_t redundant = 0;  ///< Exhaustive: runs given up as already seen
  uint64_t cut = 0;        ///< Exhaustive: continuations kept out by the preemption bound
  bool exhausted = false;  ///< Exhaustive: nothing is left within the bound
  uint64_t events = 0;     ///< of all runs
  uint64_t choices = 0;    ///< Exhaustive: of the longest run
  std::set<uint64_t> behaviours;
  Coverage coverage;
  std::vector<ExploredFinding> findings;
};

/// Explores the case, with what its field "plant" switches on. Results do not depend on `jobs`.
/// Throws InputError for what the kernel refuses, and for Exhaustive with more than one launch.
ExploreResult explore(const Case& c, const ExploreOptions& options);

/// The schedules of the sweep: fifo, then every role of every rank held back.
std::vector<std::string> slow_sweep(const Case& c);

}  // namespace moetwin
