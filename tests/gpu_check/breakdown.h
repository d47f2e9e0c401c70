// Where one cold launch's time goes: the events that the traced kernel logs, summed up by step.
#pragma once

#include <string>

#include "cuda/gpu_session.h"
#include "tests/gpu_check/full_size.h"

namespace moetwin {

/// Launches NAME:TOKENS traced and with the L2 cache flushed, and prints, for each role, step and
/// kind of event, when the first, the median and the last one came (µs from the launch's first
/// event) and how long waits lasted in all, a median agent's.
void print_breakdown(GpuSession& session, const std::string& text, const FullSizeOptions& options);

}  // namespace moetwin
