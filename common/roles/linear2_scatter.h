// The Linear2 epilogue of a math warpgroup: round to BF16, regroup in shared memory, scatter each
// row to slot [k][token] on the token's rank. Rank barrier 2 tells the peers that the rows are
// there.
#pragma once

#include "common/epilogue_math.h"
#include "common/roles/math_part.h"

namespace moetwin {

constexpr uint32_t kScatterColumns = 64;  ///< BF16 columns staged at a time
constexpr uint32_t kScatterRowBytes = kScatterColumns * 2;
static_assert(kMathRows * kScatterRowBytes == kStagingBytes);

/// `total` has one accumulator a slice.
template <uint32_t kSlices, Machine M>
MOETWIN_ROLE void linear2_scatter(M& m, const KernelArgs& args, const TaskEntry& task,
                                  MathPart mine, const typename M::Accumulator* total) {
  constexpr uint32_t kPairs = M::kRowPairs / 2;
  constexpr uint32_t kRounds = kSliceN / kScatterColumns;
  const uint32_t column = mine.first_slice * kSliceN;
  const Shared<uint8_t> staging{staging_offset(args, m.agent())};
  const auto metadata = m.template region<TokenSrcMetadata>(Region::Metadata) +
                        (task.block * args.plan.block_m + mine.first);
  const auto rows = m.template region<uint8_t>(Region::CombineRows);
  const auto targets = m.find_rows(
      mine.valid, kScatterRowBytes,
      [&](uint32_t row) { return m.load(metadata + row, Step::Linear2Scatter); },
      [&](const TokenSrcMetadata& source) {
        return m.remote(rows + 2 * combine_index(args.shape, source.k, source.token, column),
                        source.rank);
      });
  m.template for_slices<kSlices>(total, [&](uint32_t slice, const auto& values) {
    MOETWIN_UNROLL
    for (uint32_t round = 0; round < kRounds; ++round) {
      m.sync(Step::Linear2StagingFree);
      m.for_rows(values, staging, [&](const auto& row) {
        MOETWIN_UNROLL
        for (uint32_t p = 0; p < kPairs; ++p) {
          const auto pair = row.pair(round * kPairs + p);
          const uint32_t bf16x2 =
              output_element(pair.low) | static_cast<uint32_t>(output_element(pair.high)) << 16;
          m.store(Shared<uint32_t>{staging.offset + m.staged_byte(row.index(), kScatterRowBytes,
                                                                  row.half_column(p) * 2)},
                  bf16x2, Step::Linear2Epilogue);
        }
      });
      if (!m.math())
        skipped_payload(m, staging,
                        {true, mine.valid * kScatterRowBytes, kRowsPerWarp * kScatterRowBytes},
                        Step::Linear2Epilogue);
      m.sync(Step::Linear2Together);
      m.copy_rows(targets, (slice * kRounds + round) * kScatterRowBytes, mine.valid,
                  kScatterRowBytes, staging, Step::Linear2Scatter);
    }
  });
}

}  // namespace moetwin
