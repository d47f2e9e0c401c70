// The synchronising operations of a checked run in the order they happened, from which the race
// checker works out afterwards what would have ordered two accesses. Knows no memory and no clocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/machine.h"

namespace moetwin {

enum class SyncKind : uint8_t {
  Fence,         ///< a proxy fence by every lane of the agent
  LeaderFence,   ///< a proxy fence by its first lane alone
  WarpTogether,  ///< the lanes of each warp of the agent have met
  Together,      ///< the warps of the agent have met
  Add,           ///< an atomic add; object: word
  Wait,          ///< a wait on a word that ended; object: word
  PlainStore,    ///< the word's chain of adds ends; object: word
  NamedArrive,   ///< object: named barrier
  NamedLeave,    ///< the agent leaves the round; object: named barrier
  NamedEnd,      ///< all have left; object: named barrier
  Arrive,        ///< each warp arrives; object: mbarrier
  LeaderArrive,  ///< the first lane arrives; object: mbarrier
  PhaseEnd,      ///< object: mbarrier; epoch: phases so far
  PhaseSeen,     ///< a wait that ended; object: mbarrier
  LaunchStart,   ///< the agent enters a launch of its rank; object: the rank
};

struct SyncEvent {
  uint32_t agent = 0;
  uint32_t object = 0;
  uint32_t epoch = 0;  ///< the agent's before the operation
  SyncKind kind = SyncKind::Fence;
  Step step = Step::None;
  Scope scope = Scope::Cta;  ///< Add, Wait
  uint8_t detail = 0;  ///< fences: bit 0 shared, bit 1 global; Add, Wait: releases or acquires
};
static_assert(sizeof(SyncEvent) == 16);

/// The latest events of a run, at least the last kKept if there were so many; numbered from the
/// oldest that is kept.
class SyncLog {
 public:
  static constexpr size_t kKept = size_t{1} << 19;

  void add(const SyncEvent& event) {
    if (size_ % kChunk == 0) start_chunk();
    chunks_.back().push_back(event);
    ++size_;
  }
  size_t size() const { return size_; }
  const SyncEvent& operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  /// Earlier events have been forgotten.
  bool truncated() const { return truncated_; }

 private:
  static constexpr size_t kChunk = size_t{1} << 12;
  using Chunk = std::vector<SyncEvent>;

  void start_chunk() {
    if (size_ == 2 * kKept) {
      chunks_.erase(chunks_.begin(), chunks_.begin() + kKept / kChunk);
      size_ -= kKept;
      truncated_ = true;
    }
    chunks_.emplace_back().reserve(kChunk);
  }

  std::vector<Chunk> chunks_;
  size_t size_ = 0;
  bool truncated_ = false;
};

}  // namespace moetwin
