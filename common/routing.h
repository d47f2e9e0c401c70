// Which lane of which warp looks at which routed slot of a token. A warp takes floor(32 / K) whole
// tokens at a time, so no token is split over two warps.
#pragma once

#include <cstdint>

#include "common/shape.h"

namespace moetwin {

constexpr uint32_t kWarpLanes = 32;

/// Tokens a warp looks at in one step.
MOETWIN_HD constexpr uint32_t tokens_per_warp(uint32_t topk) { return kWarpLanes / topk; }

/// Lanes that hold a routed slot in one step.
MOETWIN_HD constexpr uint32_t route_lanes(uint32_t topk) { return tokens_per_warp(topk) * topk; }

/// A routed slot's place in a rank's [token][k] tables.
MOETWIN_HD constexpr uint64_t flat_route(uint32_t token, uint32_t k, uint32_t topk) {
  return uint64_t{token} * topk + k;
}
MOETWIN_HD constexpr uint32_t route_token(uint32_t flat, uint32_t topk) { return flat / topk; }
MOETWIN_HD constexpr uint32_t route_k(uint32_t flat, uint32_t topk) { return flat % topk; }

static_assert(tokens_per_warp(6) == 5 && route_lanes(6) == 30);
static_assert(tokens_per_warp(kMaxTopk) == 1);

}  // namespace moetwin
