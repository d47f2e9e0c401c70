// The synchronising operations of a checked run in the order they happened, from which the race
// checker works out afterwards what would have ordered two accesses. Knows no memory and no clocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
  uint32_t agent;
  uint32_t object;
  uint32_t epoch;  ///< the agent's before the operation
  SyncKind kind;
  Step step;
  Scope scope;     ///< Add, Wait
  uint8_t detail;  ///< fences: bit 0 shared, bit 1 global; Add, Wait: releases or acquires
};
static_assert(sizeof(SyncEvent) == 16);

/// The latest events of a run, at least the last kKept if there were so many; numbered from the
/// oldest that is kept.
class SyncLog {
 public:
  static constexpr size_t kKept = size_t{1} << 19;

  void add(const SyncEvent& event) {
    if (left_ == 0) [[unlikely]]
      start_chunk();
    *next_++ = event;
    --left_;
  }
  size_t size() const { return chunks_.size() * kChunk - left_; }
  const SyncEvent& operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  /// Earlier events have been forgotten.
  bool truncated() const { return truncated_; }

 private:
  static constexpr size_t kChunk = size_t{1} << 12;

  [[gnu::noinline, gnu::cold]] void start_chunk() {
    if (chunks_.size() * kChunk == 2 * kKept) {
      chunks_.erase(chunks_.begin(), chunks_.begin() + kKept / kChunk);
      truncated_ = true;
    }
    chunks_.push_back(std::make_unique_for_overwrite<SyncEvent[]>(kChunk));
    next_ = chunks_.back().get();
    left_ = kChunk;
  }

  std::vector<std::unique_ptr<SyncEvent[]>> chunks_;
  SyncEvent* next_ = nullptr;  ///< place of the next event
  size_t left_ = 0;            ///< of the last chunk
  bool truncated_ = false;
};

}  // namespace moetwin
