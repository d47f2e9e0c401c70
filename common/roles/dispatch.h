// The dispatch warps: count the rank's routes, claim slot ranges on the experts, write token
// indices into the slot tables of the experts' ranks, exchange counts, pull the rows that this
// rank's experts received, and, when all ranks are done, clean up. pull.h has the pull of one row.
//
//   barrier            dispatch warps wait for        what it means
//   grid sync          all SMs of the rank            its slots are all claimed and written
//   rank barrier 1     all ranks, if several          tables and counts of all have arrived
//   MathDone           math warps of the CTA          its tiles are all done and scattered
//   rank barrier 2     all ranks                      all rows have arrived: combine may start
//   rank barrier 3     all ranks, if several          all words are clean: the launch may end
#pragma once

#include "common/layer_rules.h"
#include "common/roles/cleanup.h"
#include "common/roles/pool_table.h"
#include "common/roles/pull.h"
#include "common/roles/rank_barrier.h"

namespace moetwin {

/// How a warp looks at routed slots: floor(32 / K) tokens at a time, one slot a lane.
template <Machine M>
struct RouteLanes {
  uint32_t tokens;                             ///< at a time
  typename M::template Lanes<uint32_t> token;  ///< which of them is the lane's
};

template <Machine M>
MOETWIN_ROLE RouteLanes<M> route_lanes(M& m, const KernelArgs& args) {
  RouteLanes<M> routes{rules_of(m).tokens_per_warp(args.shape.topk), {}};
  m.lanes([&](uint32_t lane) { routes.token[lane] = lane / args.shape.topk; });
  return routes;
}

/// Walks the rank's routed slots and calls process(flat route, expert) in the lane of each slot
/// that is not masked.
template <Machine M, class Process>
MOETWIN_ROLE void for_each_route(M& m, const KernelArgs& args, const RouteLanes<M>& routes,
                                 Step step, Process&& process) {
  const auto topk_idx = m.template region<int32_t>(Region::TopkIdx);
  const uint32_t topk = args.shape.topk;
  const uint32_t tokens = m.num_tokens();
  const uint32_t per_warp = routes.tokens;
  const uint32_t stride = args.plan.sms * kDispatchWarps * per_warp;
  MOETWIN_NO_UNROLL
  for (uint32_t token = (m.sm() * kDispatchWarps + m.agent()) * per_warp; token < tokens;
       token += stride) {
    m.lanes([&](uint32_t lane) {
      if (lane >= per_warp * topk || token + routes.token[lane] >= tokens) return;
      const uint32_t flat = static_cast<uint32_t>(flat_route(token, lane, topk));
      const int32_t expert = m.load(topk_idx + flat, step);
      if (expert != kMaskedExpert) process(flat, static_cast<uint32_t>(expert));
    });
  }
}

/// Calls f(expert) once for each expert, spread over the lanes of the CTA's dispatch warps.
template <Machine M, class F>
MOETWIN_ROLE void for_each_expert(M& m, const KernelArgs& args, F&& f) {
  m.lanes([&](uint32_t lane) {
    MOETWIN_NO_UNROLL
    for (uint32_t expert = m.agent() * kWarpLanes + lane; expert < args.shape.experts;
         expert += kDispatchThreads)
      f(expert);
  });
}

MOETWIN_HD constexpr Shared<uint32_t> expert_counter(const KernelArgs& args, uint32_t expert) {
  return Shared<uint32_t>{args.plan.shared.expert_counter} + expert;
}

/// Counts, in shared memory, how many rows this CTA's tokens send to each expert.
template <Machine M>
MOETWIN_ROLE void count_routes(M& m, const KernelArgs& args, const RouteLanes<M>& routes) {
  for_each_expert(m, args, [&](uint32_t expert) {
    m.store(expert_counter(args, expert), 0u, Step::CountClear);
  });
  dispatch_together(m, Step::CountTogether);
  for_each_route(m, args, routes, Step::CountRoutes, [&](uint32_t, uint32_t expert) {
    m.reduce_add(expert_counter(args, expert), 1u, Order::Relaxed, Scope::Cta, Step::CountRoutes);
  });
  dispatch_together(m, Step::CountTogether);
}

/// Claims a contiguous slot range on each expert for this CTA; its start replaces the count.
template <Machine M>
MOETWIN_ROLE void claim_slots(M& m, const KernelArgs& args) {
  const auto send_count = m.template region<uint64_t>(Region::SendCount);
  for_each_expert(m, args, [&](uint32_t expert) {
    const uint32_t count = m.load(expert_counter(args, expert), Step::ClaimSlots);
    const uint64_t old = m.fetch_add(send_count + expert, packed_send_count(count), Order::Relaxed,
                                     Scope::Gpu, Step::ClaimSlots);
    m.store(expert_counter(args, expert), send_count_rows(old), Step::ClaimSlots);
  });
  dispatch_together(m, Step::ClaimTogether);
}

/// Writes each routed slot's token * K + k into the slot table of the expert's rank.
template <Machine M>
MOETWIN_ROLE void write_indices(M& m, const KernelArgs& args, const RouteLanes<M>& routes) {
  const auto slots = m.template region<uint32_t>(Region::SlotTable);
  for_each_route(m, args, routes, Step::WriteIndex, [&](uint32_t flat, uint32_t expert) {
    const uint32_t slot =
        m.fetch_add(expert_counter(args, expert), 1u, Order::Relaxed, Scope::Cta, Step::WriteIndex);
    m.bound(slot, args.shape.slots_per_source(), Step::WriteIndex, expert);
    const uint64_t place = slot_index(args.shape, args.shape.local_expert(expert), m.rank(), slot);
    m.store(m.remote(slots + place, args.shape.rank_of_expert(expert)), flat, Step::WriteIndex);
  });
}

/// SM 0 tells each expert's rank how many rows it gets from here.
template <Machine M>
MOETWIN_ROLE void broadcast_counts(M& m, const KernelArgs& args) {
  if (m.sm() != 0) return;
  const auto send_count = m.template region<uint64_t>(Region::SendCount);
  const auto recv_count = m.template region<uint32_t>(Region::RecvCount);
  for_each_expert(m, args, [&](uint32_t expert) {
    const uint64_t packed = m.load(send_count + expert, Step::BroadcastCounts);
    const uint64_t place = recv_count_index(args.shape, args.shape.local_expert(expert), m.rank());
    m.store(m.remote(recv_count + place, args.shape.rank_of_expert(expert)),
            send_count_rows(packed), Step::BroadcastCounts);
  });
}

template <Machine M>
MOETWIN_ROLE void dispatch_role(M& m, const KernelArgs& args) {
  const RouteLanes<M> routes = route_lanes(m, args);
  count_routes(m, args, routes);
  claim_slots(m, args);
  write_indices(m, args, routes);
  grid_sync(m, args);
  broadcast_counts(m, args);
  if (args.shape.ranks > 1) rank_barrier(m, args, GatherSms::No);

  if (m.agent() == 0) build_pool_table(m, args);
  m.barrier_sync(NamedBarrier::Everyone, args.plan.threads(), Step::PoolTableReady);
  pull_rows(m, args);

  const uint32_t math_and_dispatch = args.plan.math_threads() + kDispatchThreads;
  m.barrier_sync(NamedBarrier::MathDone, math_and_dispatch, Step::DispatchWaitsForMath);
  rank_barrier(m, args, GatherSms::Yes);
  m.barrier_arrive(NamedBarrier::CombineReady, math_and_dispatch, Step::CombineRelease);
  cleanup(m, args);
  if (args.shape.ranks > 1) rank_barrier(m, args, GatherSms::Yes);
}

}  // namespace moetwin
