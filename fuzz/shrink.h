// A smaller case with the same verdict: launches, ranks, experts, tokens, top-k, sizes, stages and
// blocks go first, then the schedule's choices, then late landings and the rest of the world. Each
// step keeps the verdict: the first finding's class and site. What a verdict is, is
// differential.h's business.
#pragma once

#include <cstdint>
#include <functional>

#include "fuzz/differential.h"
#include "model/case.h"

namespace moetwin {

struct ShrinkOptions {
  JudgeOptions judge;
  uint64_t most_runs = 3000;       ///< judged cases at the most
  double seconds = 0;              ///< 0: no limit
  std::function<void()> progress;  ///< once a judged case; may be empty
};

struct ShrinkResult {
  Case c;
  Cause cause;
  Finding finding;
  uint64_t runs = 0;
  bool finished = false;  ///< nothing smaller is left, rather than the runs being used up
};

/// Makes `c` smaller. Throws InputError where it has no finding to keep.
ShrinkResult shrink_case(const Case& c, const ShrinkOptions& options);

}  // namespace moetwin
