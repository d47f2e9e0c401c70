// Vector clocks of the race checker: for each CTA a row of 32-bit epochs. Rows, and the tables of
// all of a clock's rows, are shared between clocks until one of them changes them. What the places
// of a row mean is race_detector.h's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cpu_sim/prefetch.h"

namespace moetwin {

/// Storage of the rows of one checker's clocks. All clocks of a space have the same shape; the
/// space must outlive them.
class ClockSpace {
 public:
  /// What is shared, in front of its contents: a row's epochs, or a table's rows (null: all zero).
  struct Shared {
    uint32_t references;
    Shared* next_free;
  };
  using Row = Shared;
  using Table = Shared;

  /// `rows` rows of at least `places` epochs a clock.
  ClockSpace(uint32_t rows, uint32_t places);
  ClockSpace(const ClockSpace&) = delete;
  ClockSpace& operator=(const ClockSpace&) = delete;

  uint32_t rows() const { return rows_; }
  uint32_t places() const { return places_; }
  static uint32_t* epochs(Row* row) { return reinterpret_cast<uint32_t*>(row + 1); }
  static Row** rows_of(Table* table) { return reinterpret_cast<Row**>(table + 1); }

  /// A row and a table in which everything is zero.
  Row* zero_row() const { return zero_row_; }
  Table* zero_table() const { return zero_table_; }
  Row* make_zero();
  Row* make_copy(Row* of);
  /// Its rows are those of `of`; null: none.
  Table* make_table(Table* of);
  void release_row(Row* row) {
    if (row != nullptr && --row->references == 0) store_rows_.give_back(row);
  }
  void release_table(Table* table) {
    if (table != nullptr && --table->references == 0) free_table(table);
  }

 private:
  /// Pieces of one size.
  struct Store {
    size_t bytes;
    std::vector<std::unique_ptr<std::byte[]>> slabs = {};
    Shared* free = nullptr;

    Shared* take();
    void give_back(Shared* piece) {
      piece->next_free = free;
      free = piece;
    }
  };
  void free_table(Table* table);

  uint32_t rows_;
  uint32_t places_;
  Store store_rows_;
  Store store_tables_;
  Row* const zero_row_;
  Table* const zero_table_;
};

/// A clock as it is, for looking up many epochs; void once the clock changes.
class ClockView {
 public:
  /// `table`: of the rows but the home's. Neither is null.
  ClockView(uint32_t home, ClockSpace::Row* home_row, ClockSpace::Table* table)
      : home_(home),
        home_epochs_(ClockSpace::epochs(home_row)),
        rows_(ClockSpace::rows_of(table)) {}
  uint32_t at(uint32_t row, uint32_t place) const {
    if (row == home_) return home_epochs_[place];
    ClockSpace::Row* const found = rows_[row];
    return found == nullptr ? 0 : ClockSpace::epochs(found)[place];
  }

 private:
  uint32_t home_;
  const uint32_t* home_epochs_;
  ClockSpace::Row* const* rows_;
};

/// Epochs known of every CTA; zero where nothing is. Epochs stay below 2^31.
///
/// A clock may have a home, the CTA whose row it changes far more often than any other. That row is
/// kept beside the table, so that clocks of one home go on sharing a table, and joining them is
/// joining one row.
class VectorClock {
 public:
  static constexpr uint32_t kNoHome = UINT32_MAX;

  explicit VectorClock(ClockSpace& space, uint32_t home = kNoHome) : space_(&space), home_(home) {}
  VectorClock(VectorClock&& other) noexcept : space_(other.space_), home_(other.home_) {
    swap(other);
  }
  VectorClock& operator=(VectorClock&& other) noexcept {
    clear();
    swap(other);
    return *this;
  }
  ~VectorClock() { clear(); }

  uint32_t at(uint32_t row, uint32_t place) const {
    ClockSpace::Row* const found = row_of(row);
    return found == nullptr || forgotten_ ? 0 : ClockSpace::epochs(found)[place];
  }
  ClockView view() const {
    const bool no_home = home_row_ == nullptr || forgotten_;
    const bool no_table = table_ == nullptr || forgotten_;
    return {home_, no_home ? space_->zero_row() : home_row_,
            no_table ? space_->zero_table() : table_};
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
    std::swap(home_, other.home_);
    std::swap(home_row_, other.home_row_);
    std::swap(table_, other.table_);
    std::swap(forgotten_, other.forgotten_);
  }
  /// Hints that the row of its home will be used soon.
  void prefetch_home() const {
    if (home_row_ != nullptr)
      prefetch_bytes(home_row_, sizeof(ClockSpace::Row) + space_->places() * sizeof(uint32_t));
  }
  /// Knows nothing any more.
  void clear();
  /// The same, for a clock that is about to learn much of what it knew again.
  void forget() { forgotten_ = home_row_ != nullptr || table_ != nullptr; }

 private:
  ClockSpace::Row* row_of(uint32_t row) const {
    if (row == home_) return home_row_;
    return table_ == nullptr ? nullptr : ClockSpace::rows_of(table_)[row];
  }
  void own_row(ClockSpace::Row*& row);
  ClockSpace::Row*& table_row(uint32_t row);
  void share(const VectorClock& other);
  void join_row(ClockSpace::Row*& mine, ClockSpace::Row* theirs);
  void join_table(const VectorClock& other);

  ClockSpace* space_;
  uint32_t home_;
  bool forgotten_ = false;               ///< all zero in spite of what the rows say
  ClockSpace::Row* home_row_ = nullptr;  ///< null: all zero
  ClockSpace::Table* table_ = nullptr;   ///< null: all zero; what it has for home is void
};

}  // namespace moetwin
