// A deadlock in words: the wait-for graph of the agents that cannot run, told from the waits that
// nobody can end.
#pragma once

#include <vector>

#include "model/run.h"

namespace moetwin {

class Simulation;

/// One finding (class deadlock, or residency where an SM never started) for each agent at the root
/// of the wait-for graph, the likeliest cause first. Called when no agent can run and nothing is
/// pending.
std::vector<Finding> explain_deadlock(Simulation& sim);

}  // namespace moetwin
