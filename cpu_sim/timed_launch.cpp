#include "cpu_sim/timed_launch.h"

#include "cpu_sim/simulation.h"

namespace moetwin {

TimedRun run_timed(const Case& c) {
  RunOptions options;
  options.schedule = "timed";
  options.math = false;
  Simulation simulation(c, options, Mutant{});
  TimedRun run;
  run.result = simulation.run();
  run.nanoseconds = simulation.virtual_nanoseconds();
  return run;
}

}  // namespace moetwin
