// What a case may choose about the kernel: tile height, SMs, stages, scheduler policy, ring size.
// kernel_plan.h turns the options and a shape into a complete plan, or says why not.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace moetwin {

/// Which (expert, block) comes next; see block_scheduler.h.
enum class SchedulerPolicy : uint8_t {
  Wave,  ///< a batch of experts through Linear1, then through Linear2; keeps the whole pool
  Ring,  ///< Linear2 follows Linear1 at a distance, over a ring of pool blocks
};

constexpr uint32_t kMaxSmsPerRank = 256;
constexpr uint32_t kMaxStages = 8;
constexpr uint32_t kMaxRingBlocks = 1u << 20;

struct KernelOptions {
  uint32_t block_m = 64;   ///< 64 or 128
  uint32_t block_n = 128;  ///< 128 or 256
  uint32_t sms_per_rank = 4;
  uint32_t stages = 4;
  SchedulerPolicy scheduler = SchedulerPolicy::Ring;
  uint32_t ring_blocks = 0;       ///< 0: the smallest safe ring
  uint32_t experts_per_wave = 0;  ///< 0: all local experts

  friend constexpr bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

}  // namespace moetwin
