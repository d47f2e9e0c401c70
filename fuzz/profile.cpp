#include "fuzz/profile.h"

namespace moetwin {
namespace {

constexpr Profile kRecorded = {
    .max_ranks = 8,
    .max_experts = 32,
    .max_work = 12'000'000,
    .themes = {62, 14, 12, 9, 3},
    .sides = {7, 2, 1, 1, 0, 0, 0, 0},
    .short_sides = {3, 1, 0, 0, 0, 0, 0, 0},
    .rows = {65, 27, 8},
    .sms = {3, 3, 2, 1, 1, 1, 1, 1},
    .routings = {2, 1, 1, 1, 1, 1},
    .data = {2, 1, 1, 1, 1, 1},
    .landings = {2, 1, 1},
    .schedules = {35, 40, 25, 0, 0},
    .seconds = {12, 18, 70, 0},
    .edge_tokens = 0,
    .far_capacity = 0,
    .known_seeds = 0,
    .real_loads = 0,
    .wide_tiles = 0,
};

constexpr Profile kSmall = {
    .max_ranks = 4,
    .max_experts = 16,
    .max_work = 12'000'000,
    .themes = {60, 14, 12, 11, 3},
    .sides = {3, 1, 0, 0, 0, 0, 0, 0},
    .short_sides = {3, 1, 0, 0, 0, 0, 0, 0},
    .rows = {72, 25, 3},
    .sms = {6, 6, 2, 1, 0, 0, 0, 0},
    .routings = {2, 1, 1, 1, 1, 1},
    .data = {2, 1, 1, 1, 1, 1},
    .landings = {2, 1, 1},
    .schedules = {35, 30, 20, 10, 5},
    .seconds = {8, 10, 80, 2},
    .edge_tokens = 20,
    .far_capacity = 0,
    .known_seeds = 90,
    .real_loads = 12,
    .wide_tiles = 50,
};

constexpr Profile kWide = {
    .max_ranks = 8,
    .max_experts = 32,
    .max_work = 12'000'000,
    .themes = {55, 16, 12, 13, 4},
    .sides = {10, 4, 2, 2, 2, 1, 1, 1},
    .short_sides = {8, 3, 1, 1, 1, 0, 0, 0},
    .rows = {55, 35, 10},
    .sms = {3, 3, 2, 1, 1, 1, 1, 1},
    .routings = {2, 1, 1, 1, 1, 1},
    .data = {2, 1, 1, 1, 1, 1},
    .landings = {2, 1, 1},
    .schedules = {30, 30, 20, 15, 5},
    .seconds = {12, 14, 70, 4},
    .edge_tokens = 20,
    .far_capacity = 6,
    .known_seeds = 50,
    .real_loads = 12,
    .wide_tiles = 50,
};

/// Redraws one list of weights; at least one stays above 0.
template <size_t kCount>
void redraw(Choices& draw, uint8_t (&weights)[kCount]) {
  enum Mode : uint8_t { Keep, One, Some, Wild };
  constexpr Mode kModes[] = {Keep, Keep, Keep, One, Some, Wild};
  const Mode mode = draw.pick(kModes);
  if (mode == Keep) return;
  const size_t kept = draw.weighted(weights);
  for (size_t i = 0; i < kCount; ++i) {
    if (i == kept || weights[i] == 0) continue;
    if (mode == One || (mode == Some && draw.chance(50))) weights[i] = 0;
    if (mode == Wild) weights[i] = static_cast<uint8_t>(1u << draw.between(0, 7));
  }
}

}  // namespace

const Profile& recorded_profile() { return kRecorded; }
const Profile& small_profile() { return kSmall; }
const Profile& wide_profile() { return kWide; }

Profile draw_profile(Choices& draw, const Profile& base) {
  Profile profile = base;
  redraw(draw, profile.themes);
  redraw(draw, profile.sides);
  redraw(draw, profile.rows);
  redraw(draw, profile.sms);
  redraw(draw, profile.routings);
  redraw(draw, profile.data);
  redraw(draw, profile.landings);
  redraw(draw, profile.schedules);
  redraw(draw, profile.seconds);
  constexpr uint8_t kShares[] = {0, 0, 20, 60};
  profile.edge_tokens = static_cast<uint8_t>(profile.edge_tokens + draw.pick(kShares));
  return profile;
}

}  // namespace moetwin
