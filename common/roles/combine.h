// The combine: the math warpgroups of all SMs share the rank's tokens; for each, the routed rows
// are loaded into two stages in turn and added in slot order (NUMERICS S11), whatever order they
// came in.
//
//   who waits     who arrives            how many    what it means
//   math          the load's bytes on    1           the row's chunk is in the stage
//                 combine[stage]
//   the refill    math, its own warps    4 warps     every lane has read the stage
#pragma once

#include "common/bits.h"
#include "common/layer_rules.h"
#include "common/roles/math_rows.h"

namespace moetwin {

constexpr uint32_t kVectorColumns = 8;  ///< BF16 columns of one 16-byte access
constexpr uint32_t kVectorsPerLane = kCombineColumns / kVectorColumns / kWarpgroupThreads;
static_assert(kVectorsPerLane * kVectorColumns * kWarpgroupThreads == kCombineColumns);

/// Neighbouring bytes of a chunk that one warp sums.
constexpr uint32_t kCombineBytesPerWarp = kWarpLanes * kVectorColumns * 2;

/// A lane's part of a chunk's sum.
struct CombineSum {
  float columns[kVectorsPerLane][kVectorColumns];
};

/// Calls f(v, vector) for each of the lane's vectors inside a chunk of `columns`.
template <class F>
MOETWIN_ROLE void for_each_vector(uint32_t lane, uint32_t columns, F&& f) {
  MOETWIN_UNROLL
  for (uint32_t v = 0; v < kVectorsPerLane; ++v) {
    const uint32_t vector = v * kWarpgroupThreads + lane;
    if (vector * kVectorColumns < columns) f(v, vector);
  }
}

template <Machine M>
struct CombineStages {
  PipelineState state;     ///< of the next row to wait for
  uint32_t next_load = 0;  ///< stage of the next load

  MOETWIN_ROLE Shared<uint8_t> buffer(M& m, const KernelArgs& args, uint32_t stage) const {
    return {staging_offset(args, m.agent()) + stage * (kStagingBytes / kCombineStages)};
  }

  /// Starts loading `columns` of routed slot k of a token.
  MOETWIN_ROLE void load(M& m, const KernelArgs& args, uint32_t k, uint32_t token, uint32_t column,
                         uint32_t columns) {
    const auto rows = m.template region<uint8_t>(Region::CombineRows);
    const Mbarrier bar = args.plan.combine(m.agent(), next_load);
    m.mbarrier_expect(bar, columns * 2, Step::CombineLoad);
    m.bulk_load(buffer(m, args, next_load), rows + 2 * combine_index(args.shape, k, token, column),
                columns * 2, bar, Step::CombineLoad);
    next_load = next_load + 1 == kCombineStages ? 0 : next_load + 1;
  }
};

/// Sums one chunk of columns of one token; `routed` is the mask of its routed slots.
template <Machine M>
MOETWIN_ROLE void combine_chunk(M& m, const KernelArgs& args, CombineStages<M>& stages,
                                uint32_t token, uint32_t routed, uint32_t column,
                                uint32_t columns) {
  const auto rules = rules_of(m);
  typename M::template Lanes<CombineSum> sum;
  if (m.math()) m.lanes([&](uint32_t lane) { sum[lane] = CombineSum{}; });
  const uint32_t slots = popcount(routed);
  uint32_t loads_left = routed;
  for (uint32_t i = 0; i < kCombineStages && i < slots; ++i) {
    stages.load(m, args, lowest_set_bit(loads_left), token, column, columns);
    loads_left &= loads_left - 1;
  }
  for (uint32_t i = 0; i < slots; ++i) {
    const uint32_t stage = stages.state.index;
    m.mbarrier_wait(args.plan.combine(m.agent(), stage), stages.state.parity,
                    Step::CombineWaitsForRow);
    const Shared<uint8_t> buffer = stages.buffer(m, args, stage);
    if (m.math())
      m.lanes([&](uint32_t lane) {
        for_each_vector(lane, columns, [&](uint32_t v, uint32_t vector) {
          const Bf16x8 row = m.load(Shared<Bf16x8>{buffer.offset} + vector, Step::CombineSum);
          MOETWIN_UNROLL
          for (uint32_t c = 0; c < kVectorColumns; ++c)
            sum[lane].columns[v][c] = rules.combine_step(
                sum[lane].columns[v][c],
                static_cast<uint16_t>(row.pairs[c / 2] >> (c % 2 == 0 ? 0 : 16)));
        });
      });
    else
      skipped_payload(m, buffer, {false, columns * 2, kCombineBytesPerWarp}, Step::CombineSum);
    m.fence_proxy_async(FenceSpace::Shared, Step::CombineFence);
    m.sync(Step::CombineTogether);
    stages.state.advance(kCombineStages);
    if (loads_left != 0) {
      stages.load(m, args, lowest_set_bit(loads_left), token, column, columns);
      loads_left &= loads_left - 1;
    }
  }
  const auto y = m.template region<Bf16x8>(Region::Y) +
                 (uint64_t{token} * args.shape.hidden + column) / kVectorColumns;
  if (m.math())
    m.lanes([&](uint32_t lane) {
      for_each_vector(lane, columns, [&](uint32_t v, uint32_t vector) {
        Bf16x8 out;
        MOETWIN_UNROLL
        for (uint32_t pair = 0; pair < kVectorColumns / 2; ++pair)
          out.pairs[pair] =
              combine_result(sum[lane].columns[v][2 * pair]) |
              static_cast<uint32_t>(combine_result(sum[lane].columns[v][2 * pair + 1])) << 16;
        m.store(y + vector, out, Step::CombineWriteY);
      });
    });
  else
    skipped_payload(m, y, {true, columns * 2, kCombineBytesPerWarp}, Step::CombineWriteY);
}

template <Machine M>
MOETWIN_ROLE void combine(M& m, const KernelArgs& args) {
  const uint32_t topk = args.shape.topk;
  const auto topk_idx = m.template region<int32_t>(Region::TopkIdx);
  const uint32_t stride = args.plan.sms * args.plan.math_warpgroups;
  CombineStages<M> stages;
  for (uint32_t token = m.agent() * args.plan.sms + m.sm(); token < m.num_tokens();
       token += stride) {
    const uint32_t routed = m.ballot([&](uint32_t lane) {
      return lane < topk && m.load(topk_idx + flat_route(token, lane, topk),
                                   Step::CombineReadRoutes) != kMaskedExpert;
    });
    for (uint32_t column = 0; column < args.shape.hidden; column += args.plan.combine_columns) {
      const uint32_t left = args.shape.hidden - column;
      combine_chunk(m, args, stages, token, routed, column,
                    left < args.plan.combine_columns ? left : args.plan.combine_columns);
    }
    m.token_done(Step::CombineWriteY);
  }
}

}  // namespace moetwin
