// The moves of shrinking: for each part of a case, the smaller cases worth a try, boldest first.
// They promise nothing about the verdict, only that a case is smaller and well formed. Internal to
// fuzz/.
#pragma once

#include <span>
#include <vector>

#include "model/case.h"

namespace moetwin {

/// The smaller cases of one kind; empty where nothing of the kind is left.
using ShrinkMove = std::vector<Case> (*)(const Case& c);

/// In the order in which they are tried: those before the schedule's choices, those after.
std::span<const ShrinkMove> shrink_moves();
std::span<const ShrinkMove> world_moves();
/// Of the former those that take launches, ranks, experts, tokens or slots out.
std::span<const ShrinkMove> count_moves();

/// The same case with every slot of every launch written out (routing kind explicit), the one form
/// in which single tokens and slots can be taken out. `c` unchanged where it is so already, or has
/// more slots than a person would read.
Case with_explicit_routing(const Case& c);

}  // namespace moetwin
