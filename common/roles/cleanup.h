// Leaves every must-be-zero word zero for the next launch. Runs behind the rank barrier that ends
// the math of all ranks, so nobody on this rank waits on these words any more; the rank barrier
// that follows keeps peers from writing the next launch's counts before all are clean.
#pragma once

#include "common/roles/grid_sync.h"

namespace moetwin {

template <class T, Machine M>
MOETWIN_ROLE void clear_region(M& m, Region region, uint64_t elements, uint32_t sms) {
  const auto words = m.template region<T>(region);
  const uint64_t first = m.sm() * kDispatchThreads + m.agent() * kWarpLanes;
  const uint64_t stride = uint64_t{sms} * kDispatchThreads;
  m.lanes([&](uint32_t lane) {
    MOETWIN_NO_UNROLL
    for (uint64_t i = first + lane; i < elements; i += stride)
      m.store(words + i, T{0}, Step::CleanupClear);
  });
}

template <Machine M>
MOETWIN_ROLE void cleanup(M& m, const KernelArgs& args) {
  const uint32_t sms = args.plan.sms;
  clear_region<uint32_t>(m, Region::TaskCounter, 1, sms);
  clear_region<uint64_t>(m, Region::SendCount, args.shape.experts, sms);
  clear_region<uint32_t>(m, Region::XFull, args.plan.ring_blocks, sms);
  clear_region<uint32_t>(m, Region::XEmpty, args.plan.ring_blocks, sms);
  clear_region<uint32_t>(m, Region::Linear1Full, args.plan.ring_blocks, sms);
  clear_region<uint32_t>(m, Region::Linear1Empty, args.plan.ring_blocks, sms);
}

}  // namespace moetwin
