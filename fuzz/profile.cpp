#include "fuzz/profile.h"

namespace moetwin {
namespace {

constexpr Profile kRecorded = {
    8,
    32,
    12'000'000,
    {62, 14, 12, 9, 3},
    {7, 2, 1, 1, 0, 0, 0, 0},
    {3, 1, 0, 0, 0, 0, 0, 0},
    {65, 27, 8},
    {3, 3, 2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1},
    {35, 40, 25, 0, 0},
    {12, 18, 70, 0},
    0,
    0,
    0,
};

constexpr Profile kSmall = {
    4,
    16,
    12'000'000,
    {60, 14, 12, 11, 3},
    {3, 1, 0, 0, 0, 0, 0, 0},
    {3, 1, 0, 0, 0, 0, 0, 0},
    {72, 25, 3},
    {6, 6, 2, 1, 0, 0, 0, 0},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1},
    {35, 30, 20, 10, 5},
    {8, 10, 80, 2},
    20,
    0,
    90,
};

constexpr Profile kWide = {
    8,
    32,
    12'000'000,
    {55, 16, 12, 13, 4},
    {10, 4, 2, 2, 2, 1, 1, 1},
    {8, 3, 1, 1, 1, 0, 0, 0},
    {55, 35, 10},
    {3, 3, 2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1, 1, 1, 1},
    {2, 1, 1},
    {30, 30, 20, 15, 5},
    {12, 14, 70, 4},
    20,
    3,
    50,
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
