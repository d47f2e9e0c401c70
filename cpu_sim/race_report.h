// Between the simulated world and the race checker: which memory, agents and barriers there are,
// and a finding of the checker in the protocol's words.
#pragma once

#include <string>

#include "common/machine.h"
#include "cpu_sim/race_detector.h"

namespace moetwin {

class Simulation;

RaceTopology race_topology(const KernelArgs& args, bool math);

/// The finding as a run reports it.
Finding race_finding(const Simulation& sim, const RaceTopology& topology,
                     const RaceFinding& finding);

}  // namespace moetwin
