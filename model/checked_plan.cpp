#include "model/checked_plan.h"

#include <string>
#include <string_view>

#include "common/check.h"

namespace moetwin {
namespace {

/// The most stages with which everything else fits; 0: none do.
uint32_t most_stages(const Shape& shape, KernelOptions options) {
  for (options.stages = kMaxStages; options.stages > 0; --options.stages)
    if (!make_plan(shape, options, true).error) return options.stages;
  return 0;
}

std::string limit_text(const Shape& shape, const KernelOptions& options, const ShapeError& error) {
  if (std::string_view(error.field) == "kernel.ring_blocks" && error.value < kMaxRingBlocks)
    return " is below the smallest safe ring, " +
           std::to_string(smallest_safe_ring(shape, {options.block_m, options.block_n},
                                             options.sms_per_rank)) +
           " blocks";
  const uint32_t most =
      std::string_view(error.field) == "kernel.stages" && options.stages <= kMaxStages
          ? most_stages(shape, options)
          : 0;
  if (most != 0)
    return " do not fit into a CTA's shared memory of " + std::to_string(kMaxSharedBytes) +
           " bytes; at most " + std::to_string(most) + " do";
  return std::string(" is not ") + error.limit;
}

}  // namespace

KernelPlan checked_plan(const Shape& shape, const KernelOptions& options, bool allow_unsafe_ring,
                        bool taps) {
  const PlanResult made = make_plan(shape, options, allow_unsafe_ring, taps);
  if (made.error)
    throw InputError(made.error.field + (": " + std::to_string(made.error.value)) +
                     limit_text(shape, options, made.error));
  return made.plan;
}

}  // namespace moetwin
