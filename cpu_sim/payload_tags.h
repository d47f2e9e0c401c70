// Payload tags: what stands for rows of data when a run does without tile arithmetic. A tag says
// which (rank, token) of which launch a row belongs to; it travels with every copy in place of the
// bytes and is compared wherever the protocol says whose row it must be.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/kernel_plan.h"

namespace moetwin {

using RowTag = uint64_t;
constexpr RowTag kNoTag = 0;
constexpr uint32_t kMaxTileRows = 128;

constexpr RowTag row_tag(uint64_t launch, uint32_t rank, uint32_t token) {
  return (launch + 1) << 32 | uint64_t{rank} << 24 | token;
}

/// The tag in the place of a scale factor that belongs to a row.
constexpr uint32_t scale_tag(RowTag tag) {
  return static_cast<uint32_t>(tag) ^ static_cast<uint32_t>(tag >> 32) * 0x9E3779B1u;
}

/// A row on its way into the combine.
struct CombineTag {
  RowTag tag = kNoTag;
  uint64_t bytes = 0;  ///< that arrived in the tag's launch
};

/// Tags of a rank's payload rows.
struct RankTags {
  std::vector<RowTag> pool_x;       ///< [ring rows]
  std::vector<RowTag> linear1;      ///< [ring rows]
  std::vector<CombineTag> combine;  ///< [tokens][K]
};

/// Slot k of a token, as CombineRows holds them.
struct CombineRow {
  uint32_t k;
  uint32_t token;
};
constexpr CombineRow combine_row(const Shape& shape, uint64_t offset) {
  const auto row = static_cast<uint32_t>(offset / (2 * shape.hidden));
  return {row / shape.max_tokens_per_rank, row % shape.max_tokens_per_rank};
}

/// Tags of a CTA's payload buffers.
struct SharedTags {
  std::array<RowTag, kDispatchWarps> pull{};
  std::array<std::array<RowTag, kMaxTileRows>, kMaxStages> stage{};
  std::array<uint64_t, kMaxStages> stage_source{};  ///< global address of operand A
  std::array<std::array<RowTag, kMathRows>, 2> staging{};
};

}  // namespace moetwin
