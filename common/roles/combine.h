// The combine: the math warpgroups of all SMs share the rank's tokens; for each, the routed rows
// are loaded into stages, as many ahead as there are, and added in slot order (NUMERICS S11),
// whatever order they came in. Its stages lie where the operands were: all tiles of the CTA are
// done.
//
//   who waits     who arrives            how many    what it means
//   math          the load's bytes on    1           the row's chunk is in the stage
//                 combine[stage]
//   the refill    math, its own warps    4 warps     every lane has read the stage
#pragma once

#include "common/bits.h"
#include "common/layer_rules.h"
#include "common/roles/math_part.h"

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

/// A math warpgroup's stages: a buffer and an mbarrier each.
struct CombineStages {
  uint32_t count;
  Shared<uint8_t> first_buffer;
  Mbarrier first_bar;

  MOETWIN_HD constexpr Shared<uint8_t> buffer(uint32_t stage) const {
    return first_buffer + stage * kCombineStageBytes;
  }
  MOETWIN_HD constexpr Mbarrier bar(uint32_t stage) const { return {first_bar.index + stage}; }
};

MOETWIN_HD constexpr CombineStages combine_stages(const KernelPlan& plan, uint32_t warpgroup) {
  const uint32_t before = warpgroup * plan.combine_stages * kCombineStageBytes;
  return {plan.combine_stages, {plan.shared.stage_a + before}, plan.combine(warpgroup, 0)};
}

/// A token's experts, one a lane of each warp; and which of its slots are routed, one bit each.
template <Machine M>
using TokenRoutes = typename M::template Lanes<int32_t>;

template <Machine M>
MOETWIN_ROLE TokenRoutes<M> load_routes(M& m, const KernelArgs& args, uint32_t token) {
  const uint32_t topk = args.shape.topk;
  const auto topk_idx = m.template region<int32_t>(Region::TopkIdx);
  TokenRoutes<M> routes;
  m.lanes([&](uint32_t lane) {
    const uint32_t k = lane % kWarpLanes;
    routes[lane] = k < topk ? m.load(topk_idx + flat_route(token, k, topk), Step::CombineReadRoutes)
                            : kMaskedExpert;
  });
  return routes;
}
template <Machine M>
MOETWIN_ROLE uint32_t routed_slots(M& m, const TokenRoutes<M>& routes) {
  return m.ballot([&](uint32_t lane) { return routes[lane] != kMaskedExpert; });
}

/// Columns of the chunk that starts at `column`.
MOETWIN_HD constexpr uint32_t chunk_columns(const KernelArgs& args, uint32_t column) {
  const uint32_t left = args.shape.hidden - column;
  return left < args.plan.combine_columns ? left : args.plan.combine_columns;
}

/// A token's chunk of columns: what one math warpgroup sums in one go.
struct CombineUnit {
  uint32_t token;
  uint32_t column;
};

/// Units of a rank's tokens, and number `unit` of them.
MOETWIN_HD constexpr uint32_t num_combine_units(const KernelArgs& args, uint32_t tokens) {
  return tokens * args.plan.combine_chunks;
}
MOETWIN_HD constexpr CombineUnit combine_unit(const KernelArgs& args, uint32_t unit) {
  const uint32_t token = unit / args.plan.combine_chunks;
  const uint32_t chunk = unit % args.plan.combine_chunks;
  return {token, chunk * args.plan.combine_columns};
}
MOETWIN_HD constexpr uint32_t combine_stride(const KernelPlan& plan) {
  return plan.sms * plan.math_warpgroups;
}

/// A math warpgroup's first unit; the next ones come combine_stride() further on.
template <Machine M>
MOETWIN_ROLE uint32_t first_unit(M& m, const KernelPlan& plan) {
  return m.agent() * plan.sms + m.sm();
}

/// Loads a math warpgroup's rows into its stages, in the order in which they are summed and as far
/// ahead as there are stages, whatever unit they belong to. The routes of the unit after the
/// current one are on their way.
template <Machine M>
struct RowLoader {
  uint32_t unit;  ///< whose rows come next; past the last one nothing is left
  uint32_t units;
  CombineUnit part;    ///< that unit
  uint32_t left = 0;   ///< its routed slots that are not loaded
  uint32_t stage = 0;  ///< that is loaded next
  TokenRoutes<M> next_routes;
  CombineStages stages;

  /// Finds the first row; nothing is loaded yet.
  MOETWIN_ROLE void prepare(M& m, const KernelArgs& args) {
    stages = combine_stages(args.plan, m.agent());
    unit = first_unit(m, args.plan);
    units = num_combine_units(args, m.num_tokens());
    if (unit < units) next_routes = load_routes(m, args, combine_unit(args, unit).token);
    find_rows(m, args);
  }

  /// Starts one load, if a row is left.
  MOETWIN_ROLE void load_next(M& m, const KernelArgs& args) {
    if (unit >= units) return;
    const auto rows = m.template region<uint8_t>(Region::CombineRows);
    const Mbarrier bar = stages.bar(stage);
    const uint32_t bytes = chunk_columns(args, part.column) * 2;
    m.mbarrier_expect(bar, bytes, Step::CombineLoad);
    m.bulk_load(stages.buffer(stage),
                rows + 2 * combine_index(args.shape, lowest_set_bit(left), part.token, part.column),
                bytes, bar, Step::CombineLoad);
    stage = stage + 1 == stages.count ? 0 : stage + 1;
    left &= left - 1;
    if (left == 0) {
      unit += combine_stride(args.plan);
      find_rows(m, args);
    }
  }

 private:
  /// Goes on to the next unit that has rows, beginning with this one, whose routes are loaded.
  MOETWIN_ROLE void find_rows(M& m, const KernelArgs& args) {
    MOETWIN_NO_UNROLL
    for (; unit < units; unit += combine_stride(args.plan)) {
      part = combine_unit(args, unit);
      left = routed_slots(m, next_routes);
      const uint32_t after = unit + combine_stride(args.plan);
      if (after < units) next_routes = load_routes(m, args, combine_unit(args, after).token);
      if (left != 0) return;
    }
  }
};

/// Gives `rows` stages back, whose rows all lanes have read, and refills them.
template <Machine M>
MOETWIN_ROLE void refill_stages(M& m, const KernelArgs& args, RowLoader<M>& loader, uint32_t rows) {
  m.fence_proxy_async(FenceSpace::Shared, Step::CombineFence);
  m.sync(Step::CombineTogether);
  MOETWIN_NO_UNROLL
  for (uint32_t i = 0; i < rows; ++i) loader.load_next(m, args);
}

/// Sums one chunk of columns of one token, which has `slots` routed rows.
template <Machine M>
MOETWIN_ROLE void combine_chunk(M& m, const KernelArgs& args, RowLoader<M>& loader,
                                PipelineState& loaded, uint32_t token, uint32_t slots,
                                uint32_t column) {
  const uint32_t columns = chunk_columns(args, column);
  const uint32_t batch = (loader.stages.count + 1) / 2;
  const auto rules = rules_of(m);
  typename M::template Lanes<CombineSum> sum;
  if (m.math()) m.lanes([&](uint32_t lane) { sum[lane] = CombineSum{}; });
  uint32_t read = 0;  // stages whose rows have been added but not given back
  MOETWIN_NO_UNROLL
  for (uint32_t i = 0; i < slots; ++i) {
    m.mbarrier_wait(loader.stages.bar(loaded.index), loaded.parity, Step::CombineWaitsForRow);
    const Shared<uint8_t> buffer = loader.stages.buffer(loaded.index);
    if (m.math())
      m.lanes([&](uint32_t lane) {
        Bf16x8 row[kVectorsPerLane];
        for_each_vector(lane, columns, [&](uint32_t v, uint32_t vector) {
          row[v] = m.load(Shared<Bf16x8>{buffer.offset} + vector, Step::CombineSum);
        });
        for_each_vector(lane, columns, [&](uint32_t v, uint32_t) {
          MOETWIN_UNROLL
          for (uint32_t c = 0; c < kVectorColumns; ++c)
            sum[lane].columns[v][c] = rules.combine_step(
                sum[lane].columns[v][c],
                static_cast<uint16_t>(row[v].pairs[c / 2] >> (c % 2 == 0 ? 0 : 16)));
        });
      });
    else
      skipped_payload(m, buffer, {false, columns * 2, kCombineBytesPerWarp}, Step::CombineSum);
    loaded.advance(loader.stages.count);
    if (++read == batch || i + 1 == slots) {
      refill_stages(m, args, loader, read);
      read = 0;
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

/// `loader` is prepared; all ranks' rows have arrived.
template <Machine M>
MOETWIN_ROLE void combine(M& m, const KernelArgs& args, RowLoader<M>& loader) {
  PipelineState loaded;
  MOETWIN_NO_UNROLL
  for (uint32_t i = 0; i < loader.stages.count; ++i) loader.load_next(m, args);
  const uint32_t units = loader.units;
  uint32_t unit = first_unit(m, args.plan);
  TokenRoutes<M> routes;
  if (unit < units) routes = load_routes(m, args, combine_unit(args, unit).token);
  MOETWIN_NO_UNROLL
  while (unit < units) {
    const CombineUnit part = combine_unit(args, unit);
    const uint32_t slots = popcount(routed_slots(m, routes));
    unit += combine_stride(args.plan);
    if (unit < units) routes = load_routes(m, args, combine_unit(args, unit).token);
    combine_chunk(m, args, loader, loaded, part.token, slots, part.column);
    if (part.column == 0) m.token_done(Step::CombineWriteY);
  }
}

}  // namespace moetwin
