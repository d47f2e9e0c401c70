// What each rank receives in a launch, counted from the routing alone, so that it can be shown even
// where a run ended in a deadlock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/kernel_plan.h"
#include "model/case.h"

namespace moetwin {

/// One rank's share of a launch.
struct Received {
  uint32_t tokens = 0;          ///< it brings
  uint64_t rows = 0;            ///< routed to its experts
  uint64_t blocks = 0;          ///< pool blocks they fill, padding included
  uint32_t busiest_expert = 0;  ///< global id
  uint64_t busiest_rows = 0;
  uint32_t experts_without = 0;  ///< local experts that get no row
};

/// [ranks]. Makes the launch's routing; throws InputError where that does.
std::vector<Received> count_received(const LaunchSpec& launch, const KernelPlan& plan);

/// A table for the screen, one line a rank, the middle of a long list left out.
std::string received_table(const std::vector<Received>& received, const KernelPlan& plan);

}  // namespace moetwin
