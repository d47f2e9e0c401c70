// How much memory a case needs, in closed form, so that one that does not fit is refused before
// anything is allocated. It counts what every backend holds: the inputs of the largest launch, its
// result with all stages, and the weights in use. What a backend holds besides (the simulated
// ranks' buffers, a reference) it adds itself, with refuse_over_limit.
//
// Weights are made at an expert's first tile and dropped after its last, so not all experts count:
// see live_experts. A data file counts likewise: it is mapped, not read.
#pragma once

#include <cstdint>

#include "model/case.h"

namespace moetwin {

/// Experts of one rank whose weights are held at once, at most all local ones. Under `ring` the
/// blocks of the Linear1 warm-up and one a SM, for SMs that lag behind; under `wave` a whole wave
/// and one a SM. (A schedule that holds an SM back for long may exceed it by that SM's experts.)
uint64_t live_experts(const Shape& shape, const KernelOptions& kernel);

struct MemoryNeed {
  uint64_t bytes = 0;
  /// The field whose smallest legal value would lower `bytes` the most, and its value now.
  const char* driver = "";
  uint64_t driver_value = 0;
};

/// The need of the launch that needs most. Every slot counts as routed. Saturates at UINT64_MAX.
MemoryNeed estimate_memory(const Case& c);

/// Throws InputError that names the driving field, its value, the need and the limit.
void refuse_over_limit(const MemoryNeed& need, uint64_t limit_bytes);

/// refuse_over_limit of the case's estimate.
void check_memory(const Case& c, uint64_t limit_bytes);

/// 80 % of the memory the system reports as available; UINT64_MAX where it reports none.
uint64_t default_memory_limit();

}  // namespace moetwin
