// Bulk copies between global and shared memory: what was asked for, and the list of those an agent
// has issued and that have not landed. The list keeps its memory, so that a copy allocates nothing.
// Moving the data is the simulation's business.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/machine.h"
#include "cpu_sim/payload_tags.h"
#include "cpu_sim/poisoned_bytes.h"
#include "cpu_sim/prefetch.h"

namespace moetwin {

struct Copy {
  enum class Kind : uint8_t { Load, Store, TileLoad, TileStore };
  Kind kind = Kind::Load;
  Step step = Step::None;
  Tensor tensor = Tensor::PoolX;
  uint64_t global = 0;        ///< address of the first byte
  uint64_t global_pitch = 0;  ///< bytes from row to row (tiles)
  uint64_t weight_row = 0;    ///< W1, W2
  uint32_t column = 0;
  uint32_t shared = 0;  ///< offset, dense rows
  uint32_t rows = 1;
  uint32_t row_bytes = 0;
  uint32_t bar = 0;        ///< loads: the mbarrier that counts the bytes
  uint32_t operation = 0;  ///< loads: the checker's number
  uint32_t k_blocks = 1;   ///< blocks of K it stands for
  uint64_t time = 0;       ///< virtual time of landing
  bool committed = false;  ///< stores: part of a committed group
  bool read = false;       ///< the source has been read, the destination not been written

  bool from_weights() const {
    return kind == Kind::TileLoad && (tensor == Tensor::W1 || tensor == Tensor::W2);
  }
  uint32_t total() const { return rows * row_bytes; }
  bool is_load() const { return kind == Kind::Load || kind == Kind::TileLoad; }
};

/// What a copy holds between its read and its write, where a schedule takes them apart.
struct CopiedData {
  std::vector<uint8_t> bytes;
  std::vector<Stamp> stamps;
  std::vector<RowTag> tags;  ///< without tile arithmetic, in place of bytes
};

/// An agent's copies in order of issue.
class PendingCopies {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  Copy& operator[](size_t i) { return slots_[order_[i]].copy; }
  const Copy& operator[](size_t i) const { return slots_[order_[i]].copy; }
  CopiedData& data(size_t i) { return slots_[order_[i]].data; }

  /// Hints that the list will be used soon.
  void prefetch() const {
    if (order_.empty()) return;
    prefetch_bytes(order_.data(), sizeof(uint32_t));
    prefetch_bytes(slots_.data(), std::min<size_t>(slots_.size(), 2) * sizeof(Slot));
  }

  void push(const Copy& copy) {
    if (size_ == order_.size()) {
      order_.push_back(static_cast<uint32_t>(slots_.size()));
      slots_.emplace_back();
    }
    slots_[order_[size_++]].copy = copy;
  }
  /// The slot goes behind those in use, to serve again.
  void erase(size_t i) {
    std::rotate(order_.begin() + static_cast<std::ptrdiff_t>(i),
                order_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                order_.begin() + static_cast<std::ptrdiff_t>(size_));
    --size_;
  }

 private:
  struct Slot {
    Copy copy;
    CopiedData data;
  };

  std::vector<Slot> slots_;
  std::vector<uint32_t> order_;  ///< slots in order of issue, then the free ones
  size_t size_ = 0;
};

}  // namespace moetwin
