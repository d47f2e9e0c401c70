// The simulator's front door.
#pragma once

#include "cpu_sim/mutant.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

/// Runs every launch of a case on the simulated machine. Throws InputError for a case, schedule or
/// ring that the kernel refuses on entry; a deadlock, race or any other verdict is a finding.
RunResult simulate(const Case& c, const RunOptions& options);

/// The same with one synchronising call of the role programs changed.
RunResult simulate(const Case& c, const RunOptions& options, const Mutant& mutant);

}  // namespace moetwin
