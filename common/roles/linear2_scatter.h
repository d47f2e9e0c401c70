// The Linear2 epilogue of a math warpgroup: round to BF16, regroup in shared memory, scatter each
// row to slot [k][token] on the token's rank. A warp copies the rows that it has staged itself.
// Rank barrier 2 tells the peers that the rows are there.
#pragma once

#include "common/epilogue_math.h"
#include "common/roles/math_part.h"

namespace moetwin {

/// `sources` are the rows' metadata; `total` has one accumulator a slice.
template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear2_scatter(M& m, const KernelArgs& args, MathPart mine,
                                  const typename M::template CopiedRows<TokenSrcMetadata>& sources,
                                  const typename M::Accumulator* total) {
  constexpr uint32_t kRounds = kSliceN / kStagedColumns;
  const uint32_t column = mine.first_slice * kSliceN;
  const Shared<uint8_t> staging{staging_offset(args, m.agent())};
  const auto rows = m.template region<uint8_t>(Region::CombineRows);
  const auto targets = m.find_rows(sources, mine.valid, [&](const TokenSrcMetadata& source) {
    return m.remote(rows + 2 * combine_index(args.shape, source.k, source.token, column),
                    source.rank);
  });
  m.sync(Step::Linear2StagingFree);
  m.template for_slices<kSlices>(total, [&](uint32_t slice, const auto& values) {
    MOETWIN_UNROLL
    for (uint32_t round = 0; round < kRounds; ++round) {
      m.stage_columns(values, round * kStagedColumns, staging, Step::Linear2Epilogue,
                      [](float value) { return output_element(value); });
      if (!m.math())
        skipped_payload(m, staging,
                        {true, mine.valid * kStagedRowBytes, kRowsPerWarp * kStagedRowBytes},
                        Step::Linear2Epilogue);
      m.copy_rows(targets, (slice * kRounds + round) * kStagedRowBytes, mine.valid, staging,
                  Step::Linear2Scatter);
    }
  });
}

}  // namespace moetwin
