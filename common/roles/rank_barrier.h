// The barrier of all ranks. SM 0 of each rank adds +1 or -1 to one of two words on every rank; the
// word and the sign follow from a counter that goes on from launch to launch, so nothing is reset:
// +1 to word 0, +1 to word 1, -1 to word 0, -1 to word 1. A grid barrier before it gathers the
// rank's SMs (left out when SM 0 alone has something to publish), one behind it lets them go.
//
//   who waits         who arrives       how many   what it means
//   SM 0, warp 0      SM 0 of each rank R          everything before it on any rank is visible
#pragma once

#include "common/roles/grid_sync.h"

namespace moetwin {

enum class GatherSms : uint8_t { No, Yes };

template <Machine M>
MOETWIN_ROLE void rank_barrier(M& m, const KernelArgs& args, GatherSms gather) {
  if (args.shape.ranks == 1) return grid_sync(m, args);  // which is all that one rank needs
  if (gather == GatherSms::Yes) grid_sync(m, args);
  if (m.sm() == 0) {
    dispatch_together(m, Step::RankTogether);
    if (m.agent() == 0) {
      const auto counter = m.template region<uint32_t>(Region::RankBarrierCounter);
      const uint32_t round = m.load(counter, Step::RankPhase);
      const auto signal = m.template region<uint32_t>(Region::RankBarrierSignal) + (round & 1);
      const bool falling = (round & 2) != 0;
      m.lanes([&](uint32_t lane) {
        MOETWIN_NO_UNROLL
        for (uint32_t rank = lane; rank < args.shape.ranks; rank += kWarpLanes)
          m.reduce_add(m.remote(signal, rank), falling ? 0xFFFFFFFFu : 1u, Order::Release,
                       Scope::Sys, Step::RankSignal);
      });
      m.wait_until(signal, equal_to(falling ? 0 : args.shape.ranks), Scope::Sys, Step::RankWait);
      m.elect([&] { m.store(counter, round + 1, Step::RankAdvance); });
    }
  }
  grid_sync(m, args);
}

}  // namespace moetwin
