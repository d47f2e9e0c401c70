// Launches of the kernel that were timed on a card, against which the timed schedule's cost table
// is held: one rank, 32 experts, uniform routing, 132 SMs, the kernel that choose_kernel() takes,
// cold L2, median. Kernel and card are those of docs/measurements.md, 2026-11-30.
#pragma once

#include <cstdint>

#include "model/case.h"
#include "model/kernel_choice.h"

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
    {0, 1, 65.9},     {0, 8, 165.0},   {0, 32, 215.6},  {0, 128, 225.2}, {0, 512, 256.9},
    {0, 2048, 662.6}, {0, 8192, 2354}, {1, 1, 115.0},   {1, 8, 312.5},   {1, 32, 360.1},
    {1, 128, 368.5},  {1, 512, 528.8}, {1, 2048, 1439}, {1, 8192, 5234}};

/// From this many tokens on the cost table claims to be right; below, fixed costs decide.
constexpr uint32_t kFewestPredictedTokens = 32;

constexpr bool is_claimed(const MeasuredLaunch& launch) {
  return launch.tokens >= kFewestPredictedTokens;
}

inline Case measured_case(const MeasuredLaunch& launch) {
  const MeasuredLayer& layer = kMeasuredLayers[launch.layer];
  Case c;
  c.shape = {1, 32, layer.topk, layer.hidden, 2048, launch.tokens};
  c.tokens = {launch.tokens};
  c.clamp = 10;
  c.schedule = "timed";
  c.kernel = choose_kernel(c.shape, 132);
  set_launches(c, 1);
  return c;
}

}  // namespace moetwin
