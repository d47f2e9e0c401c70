// The pull: dispatch warps fetch the rows that this rank's experts received. Warp q of Q takes rows
// q, q + Q, ... in pool order, finds each row's source by round-robin over the source ranks, moves
// its codes through shared memory into the pool ring, chunk by chunk, and publishes it. Where every
// SM has one row at most, its warps share the chunks.
//
//   who waits      who arrives             how many         what it means
//   pull           math (Linear1)          L * n1 * slices  the ring slot's earlier block has been
//                                          on x_empty[slot] read, its rows may be overwritten
//   load A         pull, for the chunks    (L+1) * BLOCK_M  all rows of the block are in the ring
//                  of a row on             * chunks a row
//                  x_full[slot]
#pragma once

#include "common/bits.h"
#include "common/roles/pool_table.h"

namespace moetwin {

/// Source rank and slot of row `row` of a local expert: round_robin_source() run by one warp, each
/// lane holding the counts of every 32nd rank.
template <Machine M>
MOETWIN_ROLE SlotSource find_source(M& m, const KernelArgs& args, uint32_t expert, uint32_t row) {
  if (args.shape.ranks == 1) return {0, row};
  constexpr uint32_t kGroups = kMaxRanks / kWarpLanes;
  const auto counts =
      m.template region<uint32_t>(Region::RecvCount) + recv_count_index(args.shape, expert, 0);
  const uint32_t ranks = args.shape.ranks;
  typename M::template Lanes<uint32_t> count[kGroups];
  for (uint32_t group = 0; group < kGroups; ++group)
    m.lanes([&](uint32_t lane) {
      const uint32_t rank = group * kWarpLanes + lane;
      count[group][lane] = rank < ranks ? m.load(counts + rank, Step::PullFindSource) : 0;
    });
  uint32_t base = 0;
  for (;;) {
    typename M::template Lanes<uint32_t> fewest;
    typename M::template Lanes<uint32_t> active;
    m.lanes([&](uint32_t lane) {
      fewest[lane] = 0xFFFFFFFFu;
      active[lane] = 0;
      for (uint32_t group = 0; group < kGroups; ++group) {
        const uint32_t c = count[group][lane];
        if (c <= base) continue;
        ++active[lane];
        if (c < fewest[lane]) fewest[lane] = c;
      }
    });
    const uint32_t round = m.lanes_sum(active);
    const uint32_t lowest = m.lanes_min(fewest);
    const uint32_t in_rounds = (lowest - base) * round;
    if (row < in_rounds) {
      uint32_t skip = row % round;
      const uint32_t slot = base + row / round;
      for (uint32_t group = 0; group < kGroups; ++group) {
        const uint32_t mask = m.ballot([&](uint32_t lane) { return count[group][lane] > base; });
        const uint32_t here = popcount(mask);
        if (skip < here) return {group * kWarpLanes + nth_set_bit(mask, skip), slot};
        skip -= here;
      }
    }
    row -= in_rounds;
    base = lowest;
  }
}

/// Where a pulled row goes.
struct PoolPlace {
  uint32_t block;  ///< logical
  uint32_t row;    ///< inside the block
  RingSlot ring;
};

/// The chunks of a row that one warp pulls: all, or the first one and each that comes `step` later.
struct PullChunks {
  uint32_t first;
  uint32_t step;

  MOETWIN_HD constexpr uint32_t count(uint32_t chunks) const {
    return (chunks - first + step - 1) / step;
  }
};

template <Machine M>
MOETWIN_ROLE PullChunks own_chunks(M& m, bool shared) {
  return shared ? PullChunks{m.agent(), kDispatchWarps} : PullChunks{0, 1};
}

/// Moves codes of a row from its rank to the ring, a chunk at a time through this warp's buffer.
/// meanwhile() is called while the row's first chunk is on its way.
template <Machine M, class Meanwhile>
MOETWIN_ROLE void pull_codes(M& m, const KernelArgs& args, PipelineState& landed,
                             uint32_t source_rank, uint32_t token, PoolPlace place, bool shared,
                             Meanwhile&& meanwhile) {
  const uint32_t hidden = args.shape.hidden;
  const uint32_t chunk_bytes = args.plan.pull_chunk_bytes;
  const Mbarrier bar = args.plan.pull(m.agent());
  const Shared<uint8_t> buffer{args.plan.shared.pull_buffer + m.agent() * chunk_bytes};
  const auto source =
      m.remote(m.template region<uint8_t>(Region::Tokens) + uint64_t{token} * hidden, source_rank);
  const auto target = m.template region<uint8_t>(Region::PoolX) +
                      (uint64_t{place.ring.index} * args.plan.block_m + place.row) * hidden;
  const PullChunks own = own_chunks(m, shared);
  MOETWIN_NO_UNROLL
  for (uint32_t column = own.first * chunk_bytes; column < hidden;
       column += own.step * chunk_bytes) {
    const uint32_t bytes = hidden - column < chunk_bytes ? hidden - column : chunk_bytes;
    m.mbarrier_expect(bar, bytes, Step::PullLoad);
    m.bulk_load(buffer, source + column, bytes, bar, Step::PullLoad);
    if (column == 0) meanwhile();
    m.mbarrier_wait(bar, landed.parity, Step::PullWaitsForChunk);
    landed.advance(1);
    m.bulk_store(target + column, buffer, bytes, Step::PullStore);
    m.bulk_commit(Step::PullCommit);
    m.bulk_wait(BulkDone::Read, Step::PullBufferFree);
  }
}

/// Copies what a row has besides its codes: its metadata, and its scale factors, which in the ring
/// stand by block of hidden, then row, so that load A takes a column of BLOCK_M at once. A lane
/// loads before it stores: so the row waits for memory once.
template <Machine M>
MOETWIN_ROLE void pull_scales_and_metadata(M& m, const KernelArgs& args, uint32_t source_rank,
                                           uint32_t flat, PoolPlace place) {
  const uint32_t blocks = args.shape.hidden_blocks();
  const uint32_t token = route_token(flat, args.shape.topk);
  const auto source = m.remote(
      m.template region<float>(Region::TokenScales) + uint64_t{token} * blocks, source_rank);
  const auto weights = m.remote(m.template region<float>(Region::TopkWeights), source_rank);
  const auto target = m.template region<float>(Region::PoolXScales);
  m.lanes([&](uint32_t lane) {
    const float weight = lane == 0 ? m.load(weights + flat, Step::PullMetadata) : 0.0f;
    const auto from = source + lane;
    const auto to =
        target + pool_scale_index(place.ring.index, blocks, lane, args.plan.block_m, place.row);
    MOETWIN_NO_UNROLL
    for (uint32_t block = 0; block + lane < blocks; block += 2 * kWarpLanes) {
      const uint32_t next = block + kWarpLanes;
      const bool two = next + lane < blocks;
      const float first = m.load(from + block, Step::PullScales);
      const float second = two ? m.load(from + next, Step::PullScales) : 0.0f;
      m.store(to + block * args.plan.block_m, first, Step::PullScales);
      if (two) m.store(to + next * args.plan.block_m, second, Step::PullScales);
    }
    if (lane == 0)
      m.store(m.template region<TokenSrcMetadata>(Region::Metadata) +
                  (uint64_t{place.block} * args.plan.block_m + place.row),
              TokenSrcMetadata{source_rank, token, route_k(flat, args.shape.topk), weight},
              Step::PullMetadata);
  });
}

template <Machine M>
MOETWIN_ROLE void pull_row(M& m, const KernelArgs& args, PipelineState& landed, uint32_t expert,
                           uint32_t row, uint32_t rows, PoolPlace place, bool shared) {
  const SlotSource source = find_source(m, args, expert, row);
  const uint32_t flat = m.load(m.template region<uint32_t>(Region::SlotTable) +
                                   slot_index(args.shape, expert, source.rank, source.slot),
                               Step::PullFindSource);
  const uint32_t token = route_token(flat, args.shape.topk);
  if (place.ring.lap != 0)
    m.wait_until(m.template region<uint32_t>(Region::XEmpty) + place.ring.index,
                 at_least(x_empty_target(place.ring.lap, args.plan.tiles)), Scope::Gpu,
                 Step::PullWaitsForRingSlot);
  pull_codes(m, args, landed, source.rank, token, place, shared,
             [&] { pull_scales_and_metadata(m, args, source.rank, flat, place); });
  m.fence_proxy_async(FenceSpace::Global, Step::PullFence);
  m.bulk_wait(BulkDone::Written, Step::PullStored);
  m.sync(Step::PullTogether);
  m.elect([&] {
    m.reduce_add(m.template region<uint32_t>(Region::XFull) + place.ring.index,
                 x_full_share(row, rows, args.plan.block_m) *
                     own_chunks(m, shared).count(args.plan.pull_chunks),
                 Order::Release, Scope::Gpu, Step::PullPublishRow);
  });
}

/// Whether the dispatch warps of an SM share the chunks of a row, because it has one row at most.
/// Asked for every row: a dispatch warp has no register left to keep it.
template <Machine M>
MOETWIN_ROLE bool rows_are_shared(M& m, const KernelArgs& args) {
  const uint32_t rows = read_pool_table(m, args, args.shape.num_local_experts()).first_row;
  return rows <= args.plan.sms && args.plan.pull_chunks >= kDispatchWarps;
}

template <Machine M>
MOETWIN_ROLE void pull_rows(M& m, const KernelArgs& args) {
  PipelineState landed;
  uint32_t expert = 0;
  const uint32_t total = read_pool_table(m, args, args.shape.num_local_experts()).first_row;
  const uint32_t stride = args.plan.sms * kDispatchWarps;
  MOETWIN_NO_UNROLL
  for (uint32_t ordinal = (rows_are_shared(m, args) ? 0 : m.agent() * args.plan.sms) + m.sm();
       ordinal < total; ordinal += stride) {
    const bool shared = rows_are_shared(m, args);
    while (ordinal >= read_pool_table(m, args, expert + 1).first_row) ++expert;
    const PoolTableEntry start = read_pool_table(m, args, expert);
    const uint32_t row = ordinal - start.first_row;
    const uint32_t block = start.first_block + row / args.plan.block_m;
    pull_row(m, args, landed, expert, row, expert_rows(m, args, expert),
             {block, row % args.plan.block_m, ring_slot(block, args.plan.ring_blocks)}, shared);
  }
}

}  // namespace moetwin
