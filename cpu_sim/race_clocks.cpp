// Rows of epochs and tables of rows: allocation, sharing and the join.
#include "cpu_sim/race_clocks.h"

#include <algorithm>
#include <cstddef>
#include <new>

#include "cpu_sim/race_clock_rows.h"

namespace moetwin {
namespace {

constexpr size_t kPiecesPerSlab = 64;

size_t piece_bytes(size_t contents) {
  return (sizeof(ClockSpace::Shared) + contents + 15) / 16 * 16;
}

}  // namespace

ClockSpace::ClockSpace(uint32_t rows, uint32_t places)
    : rows_(rows),
      places_((places + kEpochLanes - 1) / kEpochLanes * kEpochLanes),
      store_rows_{piece_bytes(size_t{places_} * sizeof(uint32_t))},
      store_tables_{piece_bytes(size_t{rows} * sizeof(Row*))},
      zero_row_(make_zero()),
      zero_table_(make_table(nullptr)) {}

ClockSpace::Shared* ClockSpace::Store::take() {
  if (free == nullptr) [[unlikely]] {
    slabs.push_back(std::make_unique<std::byte[]>(bytes * kPiecesPerSlab));
    for (size_t i = kPiecesPerSlab; i-- > 0;)
      free = new (slabs.back().get() + i * bytes) Shared{0, free};
  }
  Shared* const piece = free;
  free = piece->next_free;
  piece->references = 1;
  return piece;
}

ClockSpace::Row* ClockSpace::make_zero() {
  Row* const row = store_rows_.take();
  std::fill_n(epochs(row), places_, 0);
  return row;
}

ClockSpace::Row* ClockSpace::make_copy(Row* of) {
  Row* const row = store_rows_.take();
  std::copy_n(epochs(of), places_, epochs(row));
  return row;
}

ClockSpace::Table* ClockSpace::make_table(Table* of) {
  Table* const table = store_tables_.take();
  if (of == nullptr) {
    std::fill_n(rows_of(table), rows_, nullptr);
    return table;
  }
  std::copy_n(rows_of(of), rows_, rows_of(table));
  for (uint32_t i = 0; i < rows_; ++i)
    if (rows_of(table)[i] != nullptr) ++rows_of(table)[i]->references;
  return table;
}

void ClockSpace::free_table(Table* table) {
  for (uint32_t i = 0; i < rows_; ++i) release_row(rows_of(table)[i]);
  store_tables_.give_back(table);
}

/// Nobody else refers to `row` any more.
void VectorClock::own_row(ClockSpace::Row*& row) {
  if (row == nullptr) {
    row = space_->make_zero();
  } else if (row->references > 1) {
    ClockSpace::Row* const copy = space_->make_copy(row);
    space_->release_row(row);
    row = copy;
  }
}

/// A row of a table that nobody else refers to.
ClockSpace::Row*& VectorClock::table_row(uint32_t row) {
  if (table_ == nullptr || table_->references > 1) {
    ClockSpace::Table* const own = space_->make_table(table_);
    space_->release_table(table_);
    table_ = own;
  }
  return ClockSpace::rows_of(table_)[row];
}

uint32_t* VectorClock::writable(uint32_t row) {
  if (forgotten_) clear();
  ClockSpace::Row*& mine = row == home_ ? home_row_ : table_row(row);
  own_row(mine);
  return ClockSpace::epochs(mine);
}

void VectorClock::join(const VectorClock& other) {
  if (other.forgotten_) return;
  if (home_ == other.home_) {
    if (forgotten_) return share(other);
    if (home_row_ != other.home_row_) join_row(home_row_, other.home_row_);
    if (table_ != other.table_ && other.table_ != nullptr) join_table(other);
    return;
  }
  if (forgotten_) clear();
  if (other.table_ != nullptr) join_table(other);
  if (home_ != kNoHome) join_row(home_row_, other.row_of(home_));
  if (other.home_row_ != nullptr) join_row(table_row(other.home_), other.home_row_);
}

/// Knows what `other`, of the same home, does, and nothing else.
void VectorClock::share(const VectorClock& other) {
  forgotten_ = false;
  if (home_row_ != other.home_row_) {
    space_->release_row(home_row_);
    home_row_ = other.home_row_;
    if (home_row_ != nullptr) ++home_row_->references;
  }
  if (table_ != other.table_) {
    space_->release_table(table_);
    table_ = other.table_;
    if (table_ != nullptr) ++table_->references;
  }
}

/// Joins the tables but for the rows of both homes.
void VectorClock::join_table(const VectorClock& other) {
  ClockSpace::Row** const theirs = ClockSpace::rows_of(other.table_);
  bool behind = false;
  bool ahead = false;
  const auto joined = [&](uint32_t row) { return row != home_ && row != other.home_; };
  for (uint32_t row = 0; row < space_->rows(); ++row) {
    ClockSpace::Row* const mine = table_ == nullptr ? nullptr : ClockSpace::rows_of(table_)[row];
    if (mine == theirs[row] || !joined(row)) continue;
    const RowOrder order = mine == nullptr ? RowOrder{true, false}
                           : theirs[row] == nullptr
                               ? RowOrder{false, true}
                               : compare_rows(ClockSpace::epochs(mine),
                                              ClockSpace::epochs(theirs[row]), space_->places());
    behind |= order.behind;
    ahead |= order.ahead;
  }
  if (!behind) return;
  // Their home's row in their table is void, and only for a clock of that home.
  if (!ahead && (other.home_ == home_ || other.home_ == kNoHome)) {
    space_->release_table(table_);
    table_ = other.table_;
    ++table_->references;
    return;
  }
  for (uint32_t row = 0; row < space_->rows(); ++row)
    if (joined(row) && row_of(row) != theirs[row]) join_row(table_row(row), theirs[row]);
}

void VectorClock::join_row(ClockSpace::Row*& mine, ClockSpace::Row* theirs) {
  if (theirs == nullptr || mine == theirs) return;
  if (mine != nullptr) {
    const uint32_t* const from = ClockSpace::epochs(theirs);
    const bool own = mine->references == 1;
    const RowOrder order = own ? raise_row(ClockSpace::epochs(mine), from, space_->places())
                               : compare_rows(ClockSpace::epochs(mine), from, space_->places());
    if (!order.behind || (own && order.ahead)) return;
    if (order.ahead) {
      own_row(mine);
      raise_row(ClockSpace::epochs(mine), from, space_->places());
      return;
    }
    space_->release_row(mine);
  }
  ++theirs->references;
  mine = theirs;
}

void VectorClock::clear() {
  space_->release_row(std::exchange(home_row_, nullptr));
  space_->release_table(std::exchange(table_, nullptr));
  forgotten_ = false;
}

}  // namespace moetwin
