// The grid barrier of one rank: all its SMs, through one word that is never reset. Each arrival
// adds 1, SM 0 adds what is missing to 2^31, so a complete round flips the top bit and leaves the
// rest as it was. Called by the dispatch warps of every SM.
//
//   who waits              who arrives          how many   what it means
//   dispatch warps, S SMs  dispatch warp 0      S          everything before it on any SM is
//   visible
#pragma once

#include "common/machine.h"

namespace moetwin {

constexpr uint32_t kGridPhaseBit = 0x80000000u;

template <Machine M>
MOETWIN_ROLE void dispatch_together(M& m, Step step) {
  m.barrier_sync(NamedBarrier::Dispatch, kDispatchThreads, step);
}

template <Machine M>
MOETWIN_ROLE void grid_sync(M& m, const KernelArgs& args) {
  dispatch_together(m, Step::GridTogether);
  if (m.agent() == 0) {
    const auto word = m.template region<uint32_t>(Region::GridBarrier);
    const uint32_t share = m.sm() == 0 ? kGridPhaseBit - (args.plan.sms - 1) : 1;
    const uint32_t old = m.elect(
        [&] { return m.fetch_add(word, share, Order::Release, Scope::Gpu, Step::GridArrive); });
    m.wait_until(word, phase_flipped(old), Scope::Gpu, Step::GridWait);
  }
  dispatch_together(m, Step::GridTogether);
}

}  // namespace moetwin
