// How much memory a case needs, in closed form, so that one that does not fit is refused before
// anything is allocated. It counts what every backend holds: the inputs of the largest launch, its
// result with all stages, and the weights in use. What a backend holds besides (the simulated
// ranks' buffers, a reference) it adds itself, with refuse_over_limit.
//
// Weights are made on demand and dropped, so not all experts are counted: kLiveExpertsPerSm on each
// SM, and no more than the experts that exist or rows that could touch one. A data file counts
// likewise: its weights are read an expert at a time.
#pragma once

#include <cstdint>

#include "model/case.h"

namespace moetwin {

/// One expert under the SM's current tile and one being made for its next.
constexpr uint64_t kLiveExpertsPerSm = 2;

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
