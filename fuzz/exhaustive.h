// Every behaviour of a tiny case: a stateless search over schedules that repeats the case from its
// start, reduced to one schedule for each order of conflicting operations (dynamic partial-order
// reduction with source sets and sleep sets), with a bound on preemptions. Which operations
// conflict is conflicts.h; plain data is left out, because the checker reports every access to it
// that synchronising operations do not order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cpu_sim/coverage.h"
#include "fuzz/plants.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

struct ExhaustiveOptions {
  RunOptions run;              ///< threads should be 1; record is switched on
  Planted planted;             ///< what is changed for the runs, or nothing
  uint32_t preemptions = 2;    ///< most preemptions of a schedule: switches away from an agent, or
                               ///< to a landing, while an agent could have gone on
  uint64_t schedules = 10000;  ///< most runs
};

/// Called after each run with its result and behaviour; false ends the search.
using ScheduleVisitor = std::function<bool(const RunResult&, const CoverageObserver&)>;

struct ExhaustiveResult {
  uint64_t schedules = 0;  ///< runs that went to their end
  uint64_t redundant = 0;  ///< runs given up because every continuation had been seen
  uint64_t cut = 0;        ///< continuations not followed because of the preemption bound
  uint64_t choices = 0;    ///< of the longest run
  bool exhausted = false;  ///< nothing is left within the bound
};

/// Landings are agents like all others here, whatever `world.landing` says. The case must have one
/// launch and a plan.
ExhaustiveResult explore_exhaustively(const Case& c, const ExhaustiveOptions& options,
                                      const ScheduleVisitor& visit);

}  // namespace moetwin
