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

/// Tags of a rank's payload rows.
struct RankTags {
  std::vector<RowTag> pool_x;           ///< [ring rows]
  std::vector<RowTag> linear1;          ///< [ring rows]
  std::vector<RowTag> combine;          ///< [K][T]
  std::vector<uint32_t> combine_bytes;  ///< [K][T] bytes that arrived in this launch
};

/// Tags of a CTA's payload buffers.
struct SharedTags {
  std::array<RowTag, kDispatchWarps> pull{};
  std::array<std::array<RowTag, kMaxTileRows>, kMaxStages> stage{};
  std::array<std::array<RowTag, kMathRows>, 2> staging{};
};

}  // namespace moetwin
