// Random cases that are small, valid and cover what a fused MoE layer gets wrong: a case follows
// from its draws (choices.h) alone. It draws no fault and needs no file. Running cases is not its
// business.
#pragma once

#include <cstdint>

#include "fuzz/choices.h"
#include "fuzz/profile.h"
#include "model/case.h"

namespace moetwin {

/// Case number `index` of stream `seed`; the same on every machine. make_plan accepts it, no launch
/// routes more than kMaxGeneratedRows rows, and most take some milliseconds.
Case random_case(uint64_t seed, uint64_t index);

/// A case of a swarm around `base`: any draws give a valid case, the same draws the same case.
Case draw_case(Choices& draw, const Profile& base);

constexpr uint32_t kMaxGeneratedRows = 400;

/// The same case in tiles of 256 weight rows and as many of its stages as then fit; false, and
/// unchanged, where some launch's hidden is no multiple of 256. Every result stays the same.
bool widen_tiles(Case& c);

}  // namespace moetwin
