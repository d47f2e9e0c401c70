// A math warpgroup's way through the blocks of K of a tile: it multiplies what is in a stage,
// promotes the product into its running sums by the scale factors of rows and weights, and frees
// the stage.
//
//   who waits      who arrives               how many         what it means
//   math           load A, load B on full    2, and bytes     the stage can be read
//   load A, B      math on empty             math warps       the stage can be overwritten
#pragma once

#include "common/machine.h"
#include "common/roles/math_part.h"

namespace moetwin {

/// Where the weight scales of a warpgroup's slices lie: two a block of K, ascending from here.
struct WeightScales {
  uint64_t first;   ///< Linear1: of the gate rows. Linear2: of the first slice
  uint32_t second;  ///< from there, Linear1: of the up rows. Linear2: of the last slice
};

MOETWIN_HD constexpr WeightScales weight_scales_of(const Shape& shape, const TaskEntry& task,
                                                   MathPart mine) {
  const uint64_t h = shape.hidden_blocks();
  const uint64_t i = shape.intermediate_blocks();
  if (task.kind == TileKind::Linear1) {
    // A slice holds 64 gate columns and 64 up columns: two slices share a scale block.
    const uint64_t gate = (task.local_expert * 2 * i + mine.first_slice / 2) * h;
    return {gate, static_cast<uint32_t>(i * h)};
  }
  return {(task.local_expert * h + mine.first_slice) * i,
          static_cast<uint32_t>((mine.slices - 1) * i)};
}

/// A warpgroup's part of a tile: one accumulator a slice.
template <uint32_t kSlices, Machine M>
struct Totals {
  typename M::Accumulator slice[kSlices];
};

/// What a warpgroup reads of a stage.
template <Machine M>
struct StagedPart {
  typename M::Operand a;
  typename M::Operand b;
  Shared<float> scales;
};

template <Machine M>
MOETWIN_ROLE StagedPart<M> staged_part(M& m, const KernelPlan& plan, MathPart mine,
                                       uint32_t stage) {
  const Shared<uint8_t> a{plan.shared.stage_a + stage * plan.stage_a_bytes()};
  const Shared<uint8_t> b{plan.shared.stage_b + stage * plan.stage_b_bytes()};
  const Shared<float> scales{plan.shared.stage_scales + stage * plan.stage_scale_bytes()};
  return {m.operand(a + mine.first * kBlockK), m.operand(b + mine.slice * kSliceN * kBlockK),
          scales + mine.first};
}

/// Runs the k loop of a tile into `total`. A block of K is promoted in `kParts` pieces, because
/// each has a scale factor of its own: Linear1 1 of 4 tensor-core steps, Linear2 2 of 2. Between a
/// promotion and the next product stands as little as possible: what the promotion needs, and the
/// next block, is read, worked out and waited for while the tensor core works; with a single stage
/// that would wait for itself. landed() runs once, when the first stage has landed: what the rows'
/// metadata holds for the epilogue can be read from then on, and comes while the loop runs.
template <uint32_t kParts, uint32_t kSlices, Machine M, class Landed>
MOETWIN_ROLE void multiply_tile(M& m, const KernelArgs& args, const TaskEntry& task, MathPart mine,
                                PipelineState& stage, Totals<kSlices, M>& total, Landed&& landed) {
  constexpr uint32_t kSteps = kBlockK / kMmaK / kParts;
  const KernelPlan& plan = args.plan;
  const bool linear1 = kParts == 1;
  const WeightScales at = weight_scales_of(args.shape, task, mine);
  auto weight_scales = (linear1 ? m.w1_scales() : m.w2_scales()) + at.first;
  MOETWIN_UNROLL
  for (uint32_t slice = 0; slice < kSlices; ++slice) m.clear(total.slice[slice], mine.valid);
  const uint32_t k_blocks =
      m.stepped_k_blocks(linear1 ? args.shape.hidden_blocks() : args.shape.intermediate_blocks());
  float next_scale[2] = {m.load(weight_scales, Step::MathReadScales),
                         m.load(weight_scales + at.second, Step::MathReadScales)};
  StagedPart<M> staged = staged_part(m, plan, mine, stage.index);
  m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
  landed();
  MOETWIN_NO_UNROLL
  for (uint32_t left = k_blocks; left != 0; --left) {  // there is at least one
    const bool last = left == 1;
    float scale[2]{};
    PipelineState next_stage = stage;
    next_stage.advance(plan.stages);
    StagedPart<M> next_staged = staged;
    MOETWIN_UNROLL
    for (uint32_t part = 0; part < kParts; ++part) {
      typename M::template RowValues<float> row_scales;
      MOETWIN_UNROLL
      for (uint32_t slice = 0; slice < kSlices; ++slice) {
        const bool last_product = part + 1 == kParts && slice + 1 == kSlices;
        typename M::Accumulator product;
        m.template mma<kSteps>(product, total.slice[slice], staged.a,
                               staged.b + slice * kSliceN * kBlockK, part * kSteps, Step::MathMma);
        m.mma_commit(Step::MathMma);
        if (slice == 0) {
          row_scales =
              m.load_rows(staged.scales + part * plan.block_m, mine.valid, Step::MathReadScales);
          if (part == 0) {
            scale[0] = next_scale[0];
            scale[1] = next_scale[1];
          }
        }
        if (slice == 0 && part + 1 == kParts) {  // the last scales of the stage have been read
          m.fence_proxy_async(FenceSpace::Shared, Step::MathFence);
          if (!last) {  // they come from L2
            weight_scales = weight_scales + 1;
            next_scale[0] = m.load(weight_scales, Step::MathReadScales);
            next_scale[1] = m.load(weight_scales + at.second, Step::MathReadScales);
          }
        }
        if (last_product) next_staged = staged_part(m, plan, mine, next_stage.index);
        if (last_product && !last && plan.stages > 1)
          m.mbarrier_wait(plan.full(next_stage.index), next_stage.parity, Step::MathWaitsForStage);
        m.mma_wait(product, Step::MathMmaWait);
        if (last_product) m.mbarrier_arrive(plan.empty(stage.index), Step::MathReleaseStage);
        const float even = linear1 ? scale[0] : scale[slice];
        const float odd = linear1 ? scale[1] : scale[slice];
        m.promote(total.slice[slice], product, row_scales, even, odd);
      }
    }
    stage = next_stage;
    staged = next_staged;
    if (!last && plan.stages == 1)
      m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
  }
}

/// Walks through the k loop of a tile none of whose rows are this warpgroup's.
template <Machine M>
MOETWIN_ROLE void skip_tile(M& m, const KernelPlan& plan, uint32_t k_blocks, PipelineState& stage) {
  const uint32_t steps = m.stepped_k_blocks(k_blocks);
  MOETWIN_NO_UNROLL
  for (uint32_t k = 0; k < steps; ++k) {
    m.mbarrier_wait(plan.full(stage.index), stage.parity, Step::MathWaitsForStage);
    m.mbarrier_arrive(plan.empty(stage.index), Step::MathReleaseStage);
    stage.advance(plan.stages);
  }
}

}  // namespace moetwin
