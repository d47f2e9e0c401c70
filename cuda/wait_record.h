// What a waiting agent leaves behind when a launch is given up: who waited at which step for what,
// wanted and got. Written by the kernel, read by the host (hang_report.h turns it into words).
#pragma once

#include <cstdint>

#include "common/kernel_plan.h"
#include "common/machine.h"
#include "common/wait_table.h"

namespace moetwin {

/// What an agent waited for.
enum class WaitKind : uint8_t {
  MbarrierPhase,  ///< object: place in the CTA's mbarriers; wanted: parity
  NamedBarrier,   ///< object: NamedBarrier; wanted: parity
  Word,           ///< address: a word of some rank's buffer; condition, wanted
  TableBound,     ///< no wait: index `got` is past a table of `wanted` entries; object: what of
};

struct alignas(16) WaitRecord {
  uint32_t filled;  ///< 0: nobody wrote here
  uint32_t rank;
  uint32_t sm;
  Role role;
  Step step;
  uint16_t agent;
  WaitKind kind;
  uint32_t object;
  Awaited::Kind condition;
  uint32_t first;  ///< 1: the agent gave up by itself; 0: it saw that another had
  uint32_t wanted;
  uint32_t got;
  uint64_t address;
};

}  // namespace moetwin
