// Verdicts about a launch on several cards: the hang report out of what all ranks left behind, and
// who was late. Host code only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/rank_protocol.h"
#include "model/run.h"

namespace moetwin {

/// A rank that starts this much after the first is noted.
constexpr double kLateSeconds = 0.05;

/// The findings of a launch that was given up or that ranks were missing from; there is at least
/// one. `records` and `absent` are [ranks], an absent rank's records empty; `bases` are the buffers
/// as rank 0 sees them. Of a single rank's own knowledge: `records` with only its entry.
std::vector<Finding> group_findings(const KernelArgs& args, const std::vector<uint64_t>& bases,
                                    const std::vector<RecordsAnswer>& records,
                                    const std::vector<std::string>& absent, double limit_seconds);

/// A note (class slow) for each rank that started noticeably later than the first.
std::vector<Finding> late_starts(const std::vector<StartAnswer>& starts);

}  // namespace moetwin
