// What the places of a clock's row mean: for each agent of a CTA how far its accesses and its proxy
// fences are known, then for each mbarrier how many phases are known to be complete.
#pragma once

#include <cstdint>

#include "cpu_sim/race_access.h"

namespace moetwin {

constexpr uint32_t kOrderWarp = 0;   ///< accesses of the agent's first warp
constexpr uint32_t kOrderAgent = 1;  ///< of all its warps
constexpr uint32_t kFences = 2;      ///< shared memory's, then global memory's
constexpr uint32_t kFenceLane = 0;   ///< fences of the first lane
constexpr uint32_t kFenceWarp = 1;   ///< of the first warp's lanes
constexpr uint32_t kFenceAgent = 2;  ///< of all lanes
constexpr uint32_t kFencePlaces = 3;
constexpr uint32_t kAgentPlaces = kFences + 2 * kFencePlaces;

/// In an agent's part of a row: accesses by these of its threads.
constexpr uint32_t order_place(Who who) { return who.first_warp() ? kOrderWarp : kOrderAgent; }
/// Fences by these threads.
constexpr uint32_t fence_place(Who who, RaceSpace space) {
  const uint32_t first = kFences + kFencePlaces * static_cast<uint32_t>(space);
  if (who.first_lane()) return first + kFenceLane;
  return first + (who.first_warp() ? kFenceWarp : kFenceAgent);
}

}  // namespace moetwin
