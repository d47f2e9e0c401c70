// Launches of the kernel that were timed on a card, against which the timed schedule's cost table
// is held: one rank, 32 experts, uniform routing, BLOCK_M 128, 5 stages, 132 SMs, cold L2, median.
// Kernel and card are those of docs/measurements.md, 2026-11-29.
#pragma once

#include <cstdint>

#include "model/case.h"

namespace moetwin {

struct MeasuredLayer {
  const char* name;
  uint32_t topk;
  uint32_t hidden;
  bool fitted;  ///< the cost table was chosen on it; the other one is a prediction
};
constexpr MeasuredLayer kMeasuredLayers[] = {{"flash", 6, 4096, true}, {"v3", 8, 7168, false}};

struct MeasuredLaunch {
  uint32_t layer;  ///< of kMeasuredLayers
  uint32_t tokens;
  double microseconds;
};
constexpr MeasuredLaunch kMeasuredLaunches[] = {
    {0, 1, 93.3},    {0, 8, 228.6},     {0, 32, 291.2},    {0, 128, 288.1},
    {0, 512, 325.2}, {0, 2048, 949.2},  {0, 8192, 3527.6}, {1, 1, 166.1},
    {1, 128, 494.5}, {1, 2048, 2200.0}, {1, 8192, 9156.3}};

/// From this many tokens on the cost table claims to be right; below, fixed costs decide.
constexpr uint32_t kFewestPredictedTokens = 32;

inline Case measured_case(const MeasuredLaunch& launch) {
  const MeasuredLayer& layer = kMeasuredLayers[launch.layer];
  Case c;
  c.shape = {1, 32, layer.topk, layer.hidden, 2048, launch.tokens};
  c.tokens = {launch.tokens};
  c.clamp = 10;
  c.schedule = "timed";
  c.kernel.block_m = 128;
  c.kernel.sms_per_rank = 132;
  c.kernel.stages = 5;
  set_launches(c, 1);
  return c;
}

}  // namespace moetwin
