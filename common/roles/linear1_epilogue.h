// The Linear1 epilogue of a math warpgroup: SwiGLU times routing weight, one power-of-two scale a
// row and 64 columns, E4M3 codes into the ring of Linear2's rows.
//
//   who waits     who arrives               how many           what it means
//   math (L1)     math (L2) on              L * n2 * slices    the ring slot's earlier block has
//                 l1_empty[slot]                               been read
//   load A        math (L1) on              (L+1) * n1 *       all 64-column groups of the block
//                 l1_full[slot]             slices * math      are in the ring
//                                           warpgroups
#pragma once

#include "common/layer_rules.h"
#include "common/roles/math_part.h"

namespace moetwin {

/// Steps S3 to S8 for the owner's part of one row; returns the row's scale factor. Codes go to
/// `staging`, 64 bytes a row.
template <Machine M, class Row>
MOETWIN_ROLE float quantise_row(M& m, const Row& row, float clamp, float weight,
                                Shared<uint8_t> staging) {
  constexpr uint32_t kPairs = M::kRowPairs / 2;
  constexpr uint32_t kChunk = M::kPairsPerChunk;
  const auto rules = rules_of(m);
  float values[kPairs][2];
  float amax = 0.0f;
  MOETWIN_UNROLL
  for (uint32_t p = 0; p < kPairs; ++p) {
    // Chunks of 8 columns alternate: gate, up, gate, up.
    const uint32_t gate_pair = p / kChunk * 2 * kChunk + p % kChunk;
    const auto gate = row.pair(gate_pair);
    const auto up = row.pair(gate_pair + kChunk);
    values[p][0] = rules.activate(gate.low, up.low, clamp, weight);
    values[p][1] = rules.activate(gate.high, up.high, clamp, weight);
    amax = rules.amax_step(rules.amax_step(amax, values[p][0]), values[p][1]);
  }
  const GroupScale scale = rules.group_scale(row.max(amax));
  MOETWIN_UNROLL
  for (uint32_t p = 0; p < kPairs; ++p) {
    const uint16_t codes = rules.requantise_pair(values[p][0], values[p][1], scale.inverse);
    const uint32_t column = row.half_column(p);
    m.store(
        Shared<uint16_t>{staging.offset + m.staged_byte(row.index(), kLinear1ScaleGroup, column)},
        codes, Step::Linear1Epilogue);
  }
  return scale.scale;
}

/// Waits until Linear2 has read the ring slot's earlier block: nothing of this one may be written
/// or counted before.
template <Machine M>
MOETWIN_ROLE void wait_for_linear1_slot(M& m, const KernelArgs& args, RingSlot ring) {
  if (ring.lap != 0)
    m.wait_until(m.template region<uint32_t>(Region::Linear1Empty) + ring.index,
                 at_least(l1_empty_target(ring.lap, args.plan.tiles)), Scope::Gpu,
                 Step::Linear1WaitsForRingSlot);
}

/// One warpgroup's part of `slices` slices of a Linear1 tile is in the ring.
template <Machine M>
MOETWIN_ROLE void publish_linear1(M& m, RingSlot ring, uint32_t slices) {
  m.elect([&] {
    m.reduce_add(m.template region<uint32_t>(Region::Linear1Full) + ring.index, slices,
                 Order::Release, Scope::Gpu, Step::Linear1Publish);
  });
}

/// `sources` are the rows' metadata; `total` has one accumulator a slice.
template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear1_epilogue(M& m, const KernelArgs& args, const TaskEntry& task,
                                   RingSlot ring, MathPart mine,
                                   const typename M::template RowValues<TokenSrcMetadata>& sources,
                                   const typename M::Accumulator* total) {
  constexpr uint32_t kSliceBytes = kMathRows * kLinear1ScaleGroup;
  static_assert(kSlices * kSliceBytes <= kStagingBytes);
  const KernelPlan& plan = args.plan;
  const uint32_t groups = args.shape.linear1_scale_groups();
  const Shared<uint8_t> staging{staging_offset(args, m.agent())};
  const uint32_t logical_row = task.block * plan.block_m + mine.first;
  m.sync(Step::Linear1StagingFree);
  wait_for_linear1_slot(m, args, ring);
  m.template for_slices<kSlices>(total, [&](uint32_t slice, const auto& values) {
    const uint32_t group = mine.first_slice + slice;
    const Shared<uint8_t> codes = staging + slice * kSliceBytes;
    typename M::template RowValues<float> scales;
    m.for_rows(values, codes, [&](const auto& row) {
      const float weight = sources[row.place()].weight;
      scales.set(row.place(), quantise_row(m, row, args.clamp, weight, codes));
    });
    if (!m.math())
      skipped_payload(m, codes,
                      {true, mine.valid * kLinear1ScaleGroup, kRowsPerWarp * kLinear1ScaleGroup},
                      Step::Linear1Epilogue);
    m.store_rows(m.template region<float>(Region::Linear1Scales) +
                     linear1_scale_index(ring.index, groups, group, plan.block_m, mine.first),
                 scales, mine.valid, Step::Linear1StoreScales);
    if (plan.taps)
      m.store_rows(m.template region<float>(Region::TapLinear1Scales) +
                       linear1_scale_index(task.block, groups, group, plan.block_m, mine.first),
                   scales, mine.valid, Step::Linear1StoreScales);
  });
  m.fence_proxy_async(FenceSpace::Both, Step::Linear1Fence);
  m.sync(Step::Linear1Together);
  MOETWIN_NO_UNROLL
  for (uint32_t slice = 0; slice < kSlices; ++slice) {
    const uint32_t column = (mine.first_slice + slice) * kLinear1ScaleGroup;
    const Shared<uint8_t> codes = staging + slice * kSliceBytes;
    m.tile_store(Tensor::Linear1, ring.index * plan.block_m + mine.first, column, codes,
                 Step::Linear1Store);
    if (plan.taps) m.tile_store(Tensor::TapLinear1, logical_row, column, codes, Step::Linear1Store);
  }
  m.bulk_commit(Step::Linear1Store);
  m.bulk_wait(BulkDone::Written, Step::Linear1Stored);
  publish_linear1(m, ring, task.slices);
}

}  // namespace moetwin
