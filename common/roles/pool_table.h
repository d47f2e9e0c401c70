// The CTA's pool table: for each local expert, how many pool blocks and rows come before it. Built
// by dispatch warp 0 from the counts of all source ranks, read by every warp of the CTA.
#pragma once

#include "common/machine.h"

namespace moetwin {

MOETWIN_HD constexpr Shared<PoolTableEntry> pool_table_entry(const KernelArgs& args,
                                                             uint32_t expert) {
  return Shared<PoolTableEntry>{args.plan.shared.pool_table} + expert;
}

/// Reads entry `expert` (0 to E_local, the totals), the same for all lanes.
template <Machine M>
MOETWIN_ROLE PoolTableEntry read_pool_table(M& m, const KernelArgs& args, uint32_t expert) {
  return m.load(pool_table_entry(args, expert), Step::PoolTableReady);
}

/// Rows of a local expert, without padding.
template <Machine M>
MOETWIN_ROLE uint32_t expert_rows(M& m, const KernelArgs& args, uint32_t expert) {
  return read_pool_table(m, args, expert + 1).first_row -
         read_pool_table(m, args, expert).first_row;
}

/// Rows that a local expert gets from `rank`. One rank alone counted them itself: it need not wait
/// until SM 0 has sent them to it.
template <Machine M>
MOETWIN_ROLE uint32_t received_rows(M& m, const KernelArgs& args, uint32_t expert, uint32_t rank,
                                    Step step) {
  if (args.shape.ranks == 1)
    return send_count_rows(m.load(m.template region<uint64_t>(Region::SendCount) + expert, step));
  return m.load(
      m.template region<uint32_t>(Region::RecvCount) + recv_count_index(args.shape, expert, rank),
      step);
}

template <Machine M>
MOETWIN_ROLE void build_pool_table(M& m, const KernelArgs& args) {
  const uint32_t experts = args.shape.num_local_experts();
  PoolTableEntry before{0, 0};
  MOETWIN_NO_UNROLL
  for (uint32_t first = 0; first < experts; first += kWarpLanes) {
    typename M::template Lanes<uint32_t> rows;
    typename M::template Lanes<uint32_t> blocks;
    m.lanes([&](uint32_t lane) {
      uint32_t sum = 0;
      if (first + lane < experts) MOETWIN_NO_UNROLL
      for (uint32_t rank = 0; rank < args.shape.ranks; ++rank)
        sum += received_rows(m, args, first + lane, rank, Step::PoolTableBuild);
      rows[lane] = sum;
      blocks[lane] = blocks_of(sum, args.plan.block_m);
    });
    const auto rows_through = m.lanes_scan(rows);
    const auto blocks_through = m.lanes_scan(blocks);
    m.lanes([&](uint32_t lane) {
      if (first + lane < experts)
        m.store(pool_table_entry(args, first + lane + 1),
                PoolTableEntry{before.first_block + blocks_through[lane],
                               before.first_row + rows_through[lane]},
                Step::PoolTableBuild);
    });
    before.first_block += m.lanes_sum(blocks);
    before.first_row += m.lanes_sum(rows);
  }
  m.elect([&] { m.store(pool_table_entry(args, 0), PoolTableEntry{0, 0}, Step::PoolTableBuild); });
}

}  // namespace moetwin
