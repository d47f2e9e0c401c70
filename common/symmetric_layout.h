// THE table of global memory regions of a rank: the host takes sizes from it, the device addresses.
// Every rank has the same layout, so an offset names the same thing on each. Weights are not in it:
// they are private to a rank and reached by tile loads.
#pragma once

#include <cstdint>

#include "common/kernel_plan.h"
#include "common/slot_table.h"

namespace moetwin {

// X(enumerator, element bytes, elements, persistence, "who writes", "who reads")
// S is the shape, P the plan. Rows of scales are padded to 16 bytes for bulk copies.
#define MOETWIN_REGIONS(X)                                                                       \
  X(GridBarrier, 4, 1, Persistent, "grid barrier of this rank", "the same")                      \
  X(RankBarrierCounter, 4, 1, Persistent, "rank barrier, SM 0", "the same")                      \
  X(RankBarrierSignal, 4, 2, Persistent, "rank barrier of every rank", "rank barrier, SM 0")     \
  X(TaskCounter, 4, 1, ZeroBetween, "load A of every SM; cleanup", "load A")                     \
  X(SendCount, 8, S.experts, ZeroBetween, "dispatch claim; cleanup", "dispatch broadcast")       \
  X(XFull, 4, P.ring_blocks, ZeroBetween, "dispatch pull; cleanup", "load A")                    \
  X(XEmpty, 4, P.ring_blocks, ZeroBetween, "math; cleanup", "dispatch pull")                     \
  X(Linear1Full, 4, P.ring_blocks, ZeroBetween, "math (Linear1); cleanup", "load A")             \
  X(Linear1Empty, 4, P.ring_blocks, ZeroBetween, "math (Linear2); cleanup", "math (Linear1)")    \
  X(RecvCount, 4, uint64_t{S.num_local_experts()} * S.ranks, Launch,                             \
    "dispatch broadcast of every rank", "dispatch pull")                                         \
  X(SlotTable, 4, uint64_t{S.num_local_experts()} * S.ranks * S.slots_per_source(), Launch,      \
    "dispatch write of every rank", "dispatch pull")                                             \
  X(Metadata, 16, uint64_t{P.max_pool_rows()}, Launch, "dispatch pull", "math")                  \
  X(Tokens, 1, uint64_t{S.max_tokens_per_rank} * S.hidden, Launch, "host",                       \
    "dispatch of every rank")                                                                    \
  X(TokenScales, 4, uint64_t{S.max_tokens_per_rank} * S.hidden_blocks(), Launch, "host",         \
    "dispatch of every rank")                                                                    \
  X(TopkIdx, 4, S.slots_per_source(), Launch, "host", "dispatch; combine")                       \
  X(TopkWeights, 4, S.slots_per_source(), Launch, "host", "dispatch of every rank")              \
  X(PoolX, 1, uint64_t{P.ring_blocks} * P.block_m * S.hidden, Launch, "dispatch pull", "load A") \
  X(PoolXScales, 4, uint64_t{P.ring_blocks} * P.block_m * S.hidden_blocks(), Launch,             \
    "dispatch pull", "load A")                                                                   \
  X(Linear1, 1, uint64_t{P.ring_blocks} * P.block_m * S.intermediate, Launch, "math (Linear1)",  \
    "load A")                                                                                    \
  X(Linear1Scales, 4, uint64_t{P.ring_blocks} * P.block_m * S.linear1_scale_groups(), Launch,    \
    "math (Linear1)", "load A")                                                                  \
  X(CombineRows, 2, S.slots_per_source() * S.hidden, Launch, "math (Linear2) of every rank",     \
    "combine")                                                                                   \
  X(Y, 2, uint64_t{S.max_tokens_per_rank} * S.hidden, Launch, "combine", "host")                 \
  X(TapLinear1, 1, P.taps ? uint64_t{P.max_pool_rows()} * S.intermediate : 0, Launch,            \
    "math (Linear1)", "host")                                                                    \
  X(TapLinear1Scales, 4, P.taps ? uint64_t{P.max_pool_rows()} * S.linear1_scale_groups() : 0,    \
    Launch, "math (Linear1)", "host")

/// What a word of a region carries from one launch into the next.
enum class Persistence : uint8_t {
  Launch,       ///< nothing: reading an earlier launch's word is an error
  ZeroBetween,  ///< zero at entry and at exit of every launch
  Persistent,   ///< its value goes on (phases of the barriers)
};

enum class Region : uint8_t {
#define MOETWIN_REGION_ENUMERATOR(name, bytes, elements, persistence, writers, readers) name,
  MOETWIN_REGIONS(MOETWIN_REGION_ENUMERATOR)
#undef MOETWIN_REGION_ENUMERATOR
      Count,
};
constexpr uint32_t kNumRegions = static_cast<uint32_t>(Region::Count);

struct RegionInfo {
  const char* name;
  uint32_t element_bytes;
  Persistence persistence;
  const char* writers;
  const char* readers;
};

constexpr RegionInfo region_info(Region region) {
  constexpr RegionInfo kInfo[] = {
#define MOETWIN_REGION_INFO(name, bytes, elements, persistence, writers, readers) \
  {#name, bytes, Persistence::persistence, writers, readers},
      MOETWIN_REGIONS(MOETWIN_REGION_INFO)
#undef MOETWIN_REGION_INFO
  };
  return kInfo[static_cast<uint32_t>(region)];
}

/// Where each region lies in a rank's buffer. Offsets are bytes.
struct SymmetricLayout {
  uint64_t offsets[kNumRegions];
  uint64_t bytes[kNumRegions];
  uint64_t total;

  MOETWIN_HD constexpr uint64_t offset(Region region) const {
    return offsets[static_cast<uint32_t>(region)];
  }
  MOETWIN_HD constexpr uint64_t size(Region region) const {
    return bytes[static_cast<uint32_t>(region)];
  }
};

/// Regions start on 1024 bytes.
constexpr SymmetricLayout make_layout(const Shape& S, const KernelPlan& P) {
  constexpr uint64_t kAlignment = 1024;
  SymmetricLayout layout{};
  uint64_t at = 0;
  uint32_t place = 0;
  const auto add = [&](uint64_t size) {
    layout.offsets[place] = at;
    layout.bytes[place] = size;
    at += (size + kAlignment - 1) / kAlignment * kAlignment;
    ++place;
  };
#define MOETWIN_REGION_PLACE(name, element_bytes, elements, persistence, writers, readers) \
  add(uint64_t{element_bytes} * (elements));
  MOETWIN_REGIONS(MOETWIN_REGION_PLACE)
#undef MOETWIN_REGION_PLACE
  layout.total = at;
  return layout;
}

/// Matrices that are moved by 2-D tile copies.
enum class Tensor : uint8_t { PoolX, Linear1, TapLinear1, W1, W2, Count };
constexpr uint32_t kNumTensors = static_cast<uint32_t>(Tensor::Count);

// Places inside regions whose index is not just a row.

/// Element of PoolXScales: a column of BLOCK_M scales for each ring slot and block of hidden.
MOETWIN_HD constexpr uint64_t pool_scale_index(uint32_t ring_index, uint32_t hidden_blocks,
                                               uint32_t hidden_block, uint32_t block_m,
                                               uint32_t row) {
  return (uint64_t{ring_index} * hidden_blocks + hidden_block) * block_m + row;
}

/// Element of Linear1Scales (and, with the logical block, of TapLinear1Scales).
MOETWIN_HD constexpr uint64_t linear1_scale_index(uint32_t ring_index, uint32_t groups,
                                                  uint32_t group, uint32_t block_m, uint32_t row) {
  return (uint64_t{ring_index} * groups + group) * block_m + row;
}

/// Element of CombineRows: [k][token][H].
MOETWIN_HD constexpr uint64_t combine_index(const Shape& shape, uint32_t k, uint32_t token,
                                            uint32_t column) {
  return (uint64_t{k} * shape.max_tokens_per_rank + token) * shape.hidden + column;
}

}  // namespace moetwin
