// The card's front door: all ranks of a case as virtual ranks of one card. A plain header.
#pragma once

#include "cuda/gpu_session.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

/// Runs every launch of a case on card 0, in a session of its own. Throws InputError for a case
/// that the kernel refuses on entry or that does not fit the card, NoCudaDevice where there is
/// none; a launch that was given up is a finding.
RunResult run_gpu(const Case& c, const RunOptions& options);

}  // namespace moetwin
