// How long a case takes by the clock of the timed schedule: what its cost table (cost_table.h)
// predicts for the kernel on an H200.
#pragma once

#include <cstdint>

#include "model/case.h"
#include "model/run.h"

namespace moetwin {

struct TimedRun {
  RunResult result;
  uint64_t nanoseconds = 0;  ///< from the first launch to the end of the last
};

/// Runs the case without tile arithmetic under the timed schedule, whatever its own is.
TimedRun run_timed(const Case& c);

}  // namespace moetwin
