// Vector clocks of the race checker: for each CTA a row of 32-bit epochs, shared between clocks
// until one of them changes it. What the places of a row mean is race_detector.h's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace moetwin {

/// Storage of the rows of one checker's clocks. All clocks of a space have the same shape; the
/// space must outlive them.
class ClockSpace {
 public:
  struct Row {
    uint32_t references;
    Row* next_free;
  };

  /// `rows` rows of `places` epochs a clock.
  ClockSpace(uint32_t rows, uint32_t places);
  ClockSpace(const ClockSpace&) = delete;
  ClockSpace& operator=(const ClockSpace&) = delete;

  uint32_t rows() const { return rows_; }
  uint32_t places() const { return places_; }
  static uint32_t* epochs(Row* row) { return reinterpret_cast<uint32_t*>(row + 1); }

  Row* make_zero();
  Row* make_copy(Row* of);
  void release(Row* row) {
    if (--row->references == 0) {
      row->next_free = free_;
      free_ = row;
    }
  }

 private:
  Row* take();

  uint32_t rows_;
  uint32_t places_;
  size_t row_bytes_;
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  Row* free_ = nullptr;
};

/// Epochs known of every CTA; zero where nothing is. Epochs stay below 2^31.
class VectorClock {
 public:
  explicit VectorClock(ClockSpace& space) : space_(&space) {}
  VectorClock(VectorClock&& other) noexcept
      : space_(other.space_), rows_(std::move(other.rows_)), forgotten_(other.forgotten_) {
    other.rows_.clear();
  }
  VectorClock& operator=(VectorClock&& other) noexcept {
    clear();
    swap(other);
    return *this;
  }
  ~VectorClock() { clear(); }

  uint32_t at(uint32_t row, uint32_t place) const {
    if (rows_.empty() || forgotten_ || rows_[row] == nullptr) return 0;
    return ClockSpace::epochs(rows_[row])[place];
  }
  void raise(uint32_t row, uint32_t place, uint32_t epoch) {
    uint32_t* epochs = writable(row);
    if (epochs[place] < epoch) epochs[place] = epoch;
  }
  /// The row's epochs, to be raised.
  uint32_t* writable(uint32_t row);
  /// Everything `other` knows is known here too.
  void join(const VectorClock& other);
  void swap(VectorClock& other) noexcept {
    rows_.swap(other.rows_);
    std::swap(forgotten_, other.forgotten_);
  }
  /// Knows nothing any more.
  void clear();
  /// The same, for a clock that is about to learn much of what it knew again.
  void forget() { forgotten_ = !rows_.empty(); }

 private:
  void join_row(ClockSpace::Row*& mine, ClockSpace::Row* theirs);

  ClockSpace* space_;
  std::vector<ClockSpace::Row*> rows_;  ///< empty: all zero
  bool forgotten_ = false;              ///< all zero in spite of what the rows say
};

}  // namespace moetwin
