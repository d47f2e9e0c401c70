#include "model/kernel_choice.h"

#include "common/check.h"
#include "common/kernel_plan.h"

namespace moetwin {

KernelOptions choose_kernel(const Shape& shape, uint32_t sms) {
  KernelOptions options;
  options.sms_per_rank = sms;
  // The second warpgroup skips tiles that end before its rows, and operand A is loaded by its valid
  // rows alone: few rows an expert are no reason for a lower tile.
  options.block_m = 128;
  // Wide tiles read operand A half as often, and half as many tiles have an end.
  options.block_n = shape.hidden % (2 * kSliceN) == 0 ? 2 * kSliceN : kSliceN;
  options.stages = kMaxStages;
  while (options.stages > 1 && make_plan(shape, options).error) --options.stages;
  MOETWIN_CHECK(!make_plan(shape, options).error);
  return options;
}

}  // namespace moetwin
