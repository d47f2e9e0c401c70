// What a launch on cards may be asked for. A plain header: no CUDA in it.
#pragma once

#include <cstdint>

#include "common/step.h"
#include "cuda/card_trace.h"

namespace moetwin {

/// Longest wait in the kernel; 100 times that where a debugger or sanitizer slows the kernel down.
constexpr double kDefaultWaitLimitSeconds = 10;
constexpr double kSlowedWaitLimitFactor = 100;

struct GpuOptions {
  uint32_t device = 0;
  double wait_limit_seconds = 0;  ///< 0: the default
  /// Leaves out the arrivals of this step, at mbarriers or at words but the
  /// grid barrier's, so that the launch hangs and
  /// is given up.
  Step skipped_arrive = Step::None;
};

struct GpuLaunchOptions {
  bool unsafe_ring = false;
  bool taps = true;      ///< without them l1 and l1_scales stay empty
  uint8_t poison = 255;  ///< fills the workspace when it is laid out anew
  bool cold = false;     ///< nothing of the launch is in the L2 cache
  /// Not null: the traced kernel runs, and its events are added here.
  CardTrace* trace = nullptr;
  uint32_t trace_events = kTraceEventsPerAgent;  ///< the most that an agent's log holds
};

}  // namespace moetwin
