// A ring one block short of the smallest safe one, shown to deadlock: the routing and the schedule
// follow from the argument for the closed form, and a simulation confirms them. common/ring_pool.h
// owns the closed form itself.
#pragma once

#include <cstdint>
#include <optional>

#include "common/kernel_options.h"
#include "common/shape.h"
#include "model/case.h"

namespace moetwin {

/// A case whose ring has one block less than smallest_safe_ring() and that deadlocks on the
/// simulator with RunOptions::unsafe_ring: rank 0 gets exactly as many pool blocks as the smallest
/// safe ring, and the last of them waits for Linear2 of the first, which an SM holds behind it.
/// Nothing where the smallest safe ring is one block, where no such schedule was found, or where
/// the scheduler is `wave`, whose ring never wraps. `kernel.ring_blocks` does not matter. Throws
/// InputError for a shape without a plan.
std::optional<Case> find_ring_deadlock(const Shape& shape, const KernelOptions& kernel);

/// An explicit routing that gives rank 0 exactly `blocks` pool blocks (at most max_pool_blocks),
/// with as few rows as that takes, and the token counts that go with it.
void route_blocks_to_rank0(Case& c, uint32_t blocks);

}  // namespace moetwin
