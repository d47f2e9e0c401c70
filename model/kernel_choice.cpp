#include "model/kernel_choice.h"

#include "common/check.h"
#include "common/kernel_plan.h"

namespace moetwin {
namespace {

/// What the whole pool may take of a card for the sake of speed.
constexpr uint64_t kMostPoolBytes = uint64_t{4} << 30;

uint64_t pool_bytes(const Shape& shape, uint32_t block_m) {
  const uint64_t scales = sizeof(float) * (shape.hidden_blocks() + shape.linear1_scale_groups());
  return max_pool_blocks(shape, block_m) * block_m * (shape.hidden + shape.intermediate + scales);
}

/// Rows an expert below which tiles of 64 rows are the faster ones: hardly any expert has more.
constexpr uint32_t kFewRows = 50;

}  // namespace

KernelOptions choose_kernel(const Shape& shape, uint32_t sms) {
  KernelOptions options;
  options.sms_per_rank = sms;
  // Where few rows an expert are expected, the other half of a high tile would only cost.
  const uint64_t routes = uint64_t{shape.ranks} * shape.max_tokens_per_rank * shape.topk;
  options.block_m = routes < uint64_t{kFewRows} * shape.experts ? 64 : 128;
  // Wide tiles read operand A half as often, and half as many tiles have an end.
  options.block_n = shape.hidden % (2 * kSliceN) == 0 ? 2 * kSliceN : kSliceN;
  // One GEMM after the other: half as many weights compete for L2. Rings are for pools that are
  // larger than what a card can spare.
  options.scheduler = pool_bytes(shape, options.block_m) <= kMostPoolBytes ? SchedulerPolicy::Wave
                                                                           : SchedulerPolicy::Ring;
  options.stages = kMaxStages;
  while (options.stages > 1 && make_plan(shape, options).error) --options.stages;
  MOETWIN_CHECK(!make_plan(shape, options).error);
  return options;
}

}  // namespace moetwin
