// A kernel plan, or one line that says which field of the case forbids it and what would do.
#pragma once

#include "common/kernel_plan.h"

namespace moetwin {

/// make_plan() of a valid shape. Throws InputError that names field, value and limit.
KernelPlan checked_plan(const Shape& shape, const KernelOptions& options, bool allow_unsafe_ring,
                        bool taps);

}  // namespace moetwin
