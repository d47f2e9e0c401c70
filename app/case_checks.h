// What stands between a case file and a run: every check that needs no run and allocates nothing,
// so that a case is refused before work starts. Limits of single fields are the case reader's.
#pragma once

#include <cstdint>
#include <string>

#include "app/backends.h"
#include "common/kernel_plan.h"
#include "common/symmetric_layout.h"
#include "model/case.h"

namespace moetwin {

/// The plan of a launch. Throws InputError that names the field that forbids one.
KernelPlan plan_of(const Case& c, const LaunchSpec& launch, bool unsafe_ring, bool taps = false);

/// Bytes a run holds at most, by estimate: inputs and results of every launch, the weights in use,
/// and on the simulator what the ranks' buffers will have of touched pages. `references` adds what
/// --reference computes besides.
uint64_t run_bytes(const Case& c, bool simulated, bool references);

/// The same for a simulated run that moves payload tags: routing, indices, metadata, tags, scale
/// factors, and the agents themselves.
uint64_t protocol_bytes(const Case& c);

/// Checks plans, schedule (`schedule` replaces the case's own when not empty) and memory. Throws
/// InputError.
struct CaseChecks {
  bool unsafe_ring = false;
  bool references = false;
  std::string schedule;
  uint64_t memory_limit = UINT64_MAX;
  bool math = true;
};
void check_case(const Case& c, const Backend& backend, const CaseChecks& checks);

}  // namespace moetwin
