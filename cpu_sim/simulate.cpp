// The simulator's front door: one Simulation a call.
#include "cpu_sim/simulate.h"

#include "cpu_sim/simulation.h"

namespace moetwin {

RunResult simulate(const Case& c, const RunOptions& options) {
  return simulate(c, options, Mutant{});
}

RunResult simulate(const Case& c, const RunOptions& options, const Mutant& mutant,
                   const Probes& probes) {
  Simulation simulation(c, options, mutant, probes);
  return simulation.run();
}

}  // namespace moetwin
