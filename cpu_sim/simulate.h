// The simulator's front door.
#pragma once

#include "cpu_sim/mutant.h"
#include "cpu_sim/probes.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

/// Runs every launch of a case on the simulated machine. Throws InputError for a case, schedule or
/// ring that the kernel refuses on entry; a deadlock, race or any other verdict is a finding.
RunResult simulate(const Case& c, const RunOptions& options);

/// The same with one synchronising call of the role programs changed, and looked into by `probes`.
/// With a chooser the case's schedule is not used; RunOptions::record makes the run repeatable.
RunResult simulate(const Case& c, const RunOptions& options, const Mutant& mutant,
                   const Probes& probes = {});

}  // namespace moetwin
