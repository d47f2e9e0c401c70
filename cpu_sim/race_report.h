// Between the simulated world and the race checker: which memory, agents and barriers there are,
// and a finding of the checker in the protocol's words.
#pragma once

#include <string>

#include "common/machine.h"
#include "cpu_sim/race_detector.h"

namespace moetwin {

class Simulation;

RaceTopology race_topology(const KernelPlan& plan, const SymmetricLayout& layout, uint32_t ranks);

/// What the finding's remedy would be, as a sentence; empty if no change that was tried is one.
std::string remedy_words(const Simulation& sim, const RaceFinding& finding);

/// The finding as a run reports it.
Finding race_finding(const Simulation& sim, const RaceFinding& finding);

}  // namespace moetwin
