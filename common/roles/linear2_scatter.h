// The Linear2 epilogue of a math warpgroup: round to BF16, regroup in shared memory, scatter each
// row to slot [k][token] on the token's rank. Rank barrier 2 tells the peers that the rows are
// there.
#pragma once

#include "common/epilogue_math.h"
#include "common/roles/math_part.h"

namespace moetwin {

/// `total` has one accumulator a slice.
template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear2_scatter(M& m, const KernelArgs& args, const TaskEntry& task,
                                  MathPart mine, const typename M::Accumulator* total) {
  constexpr uint32_t kRounds = kSliceN / kStagedColumns;
  const uint32_t column = mine.first_slice * kSliceN;
  const Shared<uint8_t> staging{staging_offset(args, m.agent())};
  const auto metadata = m.template region<TokenSrcMetadata>(Region::Metadata) +
                        (task.block * args.plan.block_m + mine.first);
  const auto rows = m.template region<uint8_t>(Region::CombineRows);
  const auto targets = m.find_rows(
      mine.valid, kStagedRowBytes,
      [&](uint32_t row) { return m.load(metadata + row, Step::Linear2Scatter); },
      [&](const TokenSrcMetadata& source) {
        return m.remote(rows + 2 * combine_index(args.shape, source.k, source.token, column),
                        source.rank);
      });
  m.template for_slices<kSlices>(total, [&](uint32_t slice, const auto& values) {
    MOETWIN_UNROLL
    for (uint32_t round = 0; round < kRounds; ++round) {
      m.sync(Step::Linear2StagingFree);
      m.stage_columns(values, round * kStagedColumns, staging, Step::Linear2Epilogue,
                      [](float value) { return output_element(value); });
      if (!m.math())
        skipped_payload(m, staging,
                        {true, mine.valid * kStagedRowBytes, kRowsPerWarp * kStagedRowBytes},
                        Step::Linear2Epilogue);
      m.sync(Step::Linear2Together);
      m.copy_rows(targets, (slice * kRounds + round) * kStagedRowBytes, mine.valid, kStagedRowBytes,
                  staging, Step::Linear2Scatter);
    }
  });
}

}  // namespace moetwin
