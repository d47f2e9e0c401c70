// A run on the simulator that a verb makes to look into: the options that all such verbs take, what
// they mean, and the command that repeats a finding of it. What is looked at is the verb's
// business.
#pragma once

#include <string>

#include "app/options.h"
#include "cpu_sim/simulate.h"
#include "model/case.h"

namespace moetwin {

struct SimulatedRun {
  std::string path;
  std::string threads;
  std::string schedule;
  std::string max_memory;
  bool check = false;
  bool no_math = false;
  bool unsafe_ring = false;
};

/// Declares all options but the case's path.
void add_simulated_run(VerbOptions& options, SimulatedRun& run);

/// Throws InputError for a value that is none.
RunOptions run_options(const SimulatedRun& run);

/// Loads the case and checks it for the simulator; `references` says that the verb runs them too.
/// Throws InputError.
Case load_checked_case(const SimulatedRun& run, bool references);

/// What decides who goes next: the option's, or the case's own.
const std::string& schedule_of(const SimulatedRun& run, const Case& c);

/// The `moetwin run` command that repeats the run, compared with the references where `references`.
std::string repeat_command(const SimulatedRun& run, const RunResult& result, bool references);

}  // namespace moetwin
