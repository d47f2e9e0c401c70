// The slot table: [local expert][source rank][slot] -> token * K + k, written by the source ranks
// into the expert's rank. Owns its indexing, the packed send count, the record that a pool row
// keeps of its token, and the round-robin order in which slots become pool rows.
#pragma once

#include <cstdint>

#include "common/shape.h"

namespace moetwin {

/// What a pool row remembers of its token; 16 bytes, indexed by the logical pool row.
struct alignas(16) TokenSrcMetadata {
  uint32_t rank;
  uint32_t token;
  uint32_t k;
  float weight;
};
static_assert(sizeof(TokenSrcMetadata) == 16);

/// A send count and the number of SMs that contributed, in one 64-bit word: a single fetch-add
/// counts both, and the low half of the old value is the SM's first slot.
MOETWIN_HD constexpr uint64_t packed_send_count(uint32_t count) {
  return (uint64_t{1} << 32) | count;
}
MOETWIN_HD constexpr uint32_t send_count_rows(uint64_t packed) {
  return static_cast<uint32_t>(packed);
}
MOETWIN_HD constexpr uint32_t send_count_sms(uint64_t packed) {
  return static_cast<uint32_t>(packed >> 32);
}

/// Index into the slot table, in elements.
MOETWIN_HD constexpr uint64_t slot_index(const Shape& shape, uint32_t local_expert,
                                         uint32_t source_rank, uint32_t slot) {
  return (uint64_t{local_expert} * shape.ranks + source_rank) * shape.slots_per_source() + slot;
}

/// Index into the received counts [local expert][source rank].
MOETWIN_HD constexpr uint64_t recv_count_index(const Shape& shape, uint32_t local_expert,
                                               uint32_t source_rank) {
  return uint64_t{local_expert} * shape.ranks + source_rank;
}

/// One slot of the table, before its content is read.
struct SlotSource {
  uint32_t rank;
  uint32_t slot;
};

/// The round-robin rule, plainly: for i = 0, 1, ... slot i of each source rank, ascending, that has
/// more than i. `count_of(rank)` gives a rank's count; `row` is below their sum. dispatch.h runs
/// the same rule with a warp; tests hold both together.
template <class CountOf>
MOETWIN_HD SlotSource round_robin_source(uint32_t ranks, uint32_t row, CountOf&& count_of) {
  uint32_t base = 0;
  for (;;) {
    uint32_t active = 0;
    uint32_t fewest = 0xFFFFFFFFu;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const uint32_t count = count_of(rank);
      if (count <= base) continue;
      ++active;
      fewest = count < fewest ? count : fewest;
    }
    const uint32_t in_rounds = (fewest - base) * active;
    if (row >= in_rounds) {
      row -= in_rounds;
      base = fewest;
      continue;
    }
    uint32_t skip = row % active;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (count_of(rank) <= base) continue;
      if (skip-- == 0) return {rank, base + row / active};
    }
  }
}

}  // namespace moetwin
