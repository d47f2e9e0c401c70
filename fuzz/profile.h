// How likely each feature of a random case is, and how large cases may be. Three fixed profiles and
// the swarm: a profile drawn for one case, in which features are off or weighted wildly. Which
// numbers make up a case is generator.h's business.
#pragma once

#include <cstdint>

#include "common/kernel_plan.h"
#include "common/shape.h"
#include "fuzz/choices.h"

namespace moetwin {

/// What a case is about; the rest of it is drawn freely.
enum class Theme : uint8_t {
  General,
  BlockEdge,  ///< an expert with BLOCK_M - 1, BLOCK_M or BLOCK_M + 1 rows
  ManyLaps,   ///< the smallest ring is used three times and more
  WideTopk,   ///< more than eight experts a token
  NoTokens,   ///< no rank has a token
};
constexpr uint32_t kNumThemes = 5;

/// What a second launch changes.
enum class SecondLaunch : uint8_t { Seeds, Routing, None, Shape };

/// hidden and intermediate sizes that weights refer to.
constexpr uint32_t kSides[] = {128, 256, 384, 512, 1024, 2048, 4096, 8192};
constexpr uint32_t kNumSides = sizeof kSides / sizeof kSides[0];

/// Weights are relative within their list, percentages stand alone.
struct Profile {
  uint32_t max_ranks;
  uint32_t max_experts;
  uint64_t max_work;  ///< multiply-accumulates of a launch; rows are cut to it

  uint8_t themes[kNumThemes];
  uint8_t sides[kNumSides];
  uint8_t short_sides[kNumSides];  ///< of every theme but General and NoTokens
  uint8_t rows[3];                 ///< up to 48 routed rows, up to 128, up to kMaxGeneratedRows
  uint8_t sms[8];                  ///< 1 to 8 SMs a rank
  uint8_t routings[6];             ///< in the order of RoutingKind, from uniform to round_robin
  uint8_t data[6];                 ///< in the order of DataKind, without file
  uint8_t landings[3];             ///< late, early, random
  uint8_t schedules[5];            ///< fifo, random, slow, pct, timed
  uint8_t seconds[4];              ///< in the order of SecondLaunch

  uint8_t edge_tokens;   ///< token counts at the edges of a warp's lane map
  uint8_t far_capacity;  ///< a capacity whose regions pass 2^32 bytes
  uint8_t known_seeds;   ///< data of one of eight seeds, whose weights are made once and kept
  uint8_t real_loads;    ///< a launch's drawn routing gives way to recorded loads of experts
  uint8_t wide_tiles;    ///< BLOCK_N 256, where every hidden size allows it
};

/// The generator of recorded digests: its draws may never change.
const Profile& recorded_profile();
/// At most 4 ranks, 16 experts, hidden and intermediate 128 or 256: hundreds of cases a second.
const Profile& small_profile();
/// Up to 8 ranks, 32 experts and hidden 8192, capacities past 2^32 bytes.
const Profile& wide_profile();

/// A swarm of one: `base` with lists of weights switched off in part, reduced to one entry or drawn
/// wildly. Limits stay. With draws of zero it is `base`.
Profile draw_profile(Choices& draw, const Profile& base);

}  // namespace moetwin
