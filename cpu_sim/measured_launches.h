// Launches of the kernel that were timed on a card, against which the timed schedule's cost table
// is held: one rank, 32 experts, uniform routing, 132 SMs, the kernel that choose_kernel() takes,
// cold L2, median. Kernel and card are those of docs/measurements.md, 2026-11-29.
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
    {0, 1, 80.9},     {0, 8, 188.4},   {0, 32, 236.2},    {0, 128, 245.4}, {0, 512, 281.7},
    {0, 2048, 782.2}, {0, 8192, 2850}, {1, 1, 131.7},     {1, 8, 342.1},   {1, 32, 383.3},
    {1, 128, 398.1},  {1, 512, 612.0}, {1, 2048, 1807.5}, {1, 8192, 7645}};

/// From this many tokens on the cost table claims to be right; below, fixed costs decide.
constexpr uint32_t kFewestPredictedTokens = 32;

/// Whether the cost table claims to be right for a launch. It is not for v3 with 512 tokens, which
/// it takes 1.5 times too long for: where an expert has a second block, the model's L2 has lost the
/// expert's weights (44 MB) and the card's has not.
constexpr bool is_claimed(const MeasuredLaunch& launch) {
  const bool second_blocks_of_v3 = launch.layer == 1 && launch.tokens == 512;
  return launch.tokens >= kFewestPredictedTokens && !second_blocks_of_v3;
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
