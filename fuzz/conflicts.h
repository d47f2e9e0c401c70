// Which synchronising operations may not be swapped: the relation that partial-order reduction
// stands on. Two additions whose old values nobody takes commute, so do arrivals of one phase; a
// wait is ordered behind what ended it, and is not in conflict with what comes after.
#pragma once

#include <cstdint>

#include "cpu_sim/probes.h"

namespace moetwin {

enum class Conflict : uint8_t {
  None,     ///< the operations commute
  Ordered,  ///< the later one could not have come first
  Race,     ///< they could have come in the other order, with another outcome
};

/// An operation in the history of its object.
struct Operation {
  SyncOp op = SyncOp::Read;
  uint64_t number = 0;  ///< as in Observation
  uint64_t before = 0;  ///< words: the value before the operation
  bool completes = false;
};

/// How `earlier` and `later`, on one object and by different agents, stand to each other.
Conflict conflict_of(const Operation& earlier, const Operation& later);

}  // namespace moetwin
