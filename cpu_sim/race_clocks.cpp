// Rows of epochs: allocation, sharing and the join.
#include "cpu_sim/race_clocks.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace moetwin {
namespace {

constexpr size_t kRowsPerSlab = 256;

}  // namespace

ClockSpace::ClockSpace(uint32_t rows, uint32_t places)
    : rows_(rows), places_(places), row_bytes_((sizeof(Row) + size_t{places} * 4 + 15) / 16 * 16) {}

ClockSpace::Row* ClockSpace::take() {
  if (free_ == nullptr) {
    slabs_.push_back(std::make_unique<std::byte[]>(row_bytes_ * kRowsPerSlab));
    for (size_t i = 0; i < kRowsPerSlab; ++i)
      free_ = new (slabs_.back().get() + i * row_bytes_) Row{0, free_};
  }
  Row* const row = free_;
  free_ = row->next_free;
  row->references = 1;
  return row;
}

ClockSpace::Row* ClockSpace::make_zero() {
  Row* const row = take();
  std::fill_n(epochs(row), places_, 0);
  return row;
}

ClockSpace::Row* ClockSpace::make_copy(Row* of) {
  Row* const row = take();
  std::copy_n(epochs(of), places_, epochs(row));
  return row;
}

uint32_t* VectorClock::writable(uint32_t row) {
  if (forgotten_) clear();
  if (rows_.empty()) rows_.resize(space_->rows());
  ClockSpace::Row*& mine = rows_[row];
  if (mine == nullptr) {
    mine = space_->make_zero();
  } else if (mine->references > 1) {
    ClockSpace::Row* const copy = space_->make_copy(mine);
    space_->release(mine);
    mine = copy;
  }
  return ClockSpace::epochs(mine);
}

void VectorClock::join(const VectorClock& other) {
  if (other.rows_.empty() || other.forgotten_) return;
  if (forgotten_) {
    forgotten_ = false;
    for (size_t row = 0; row < rows_.size(); ++row) {
      ClockSpace::Row* const theirs = other.rows_[row];
      if (rows_[row] == theirs) continue;
      if (rows_[row] != nullptr) space_->release(rows_[row]);
      if (theirs != nullptr) ++theirs->references;
      rows_[row] = theirs;
    }
    return;
  }
  if (rows_.empty()) rows_.resize(space_->rows());
  for (size_t row = 0; row < rows_.size(); ++row)
    if (rows_[row] != other.rows_[row] && other.rows_[row] != nullptr)
      join_row(rows_[row], other.rows_[row]);
}

void VectorClock::join_row(ClockSpace::Row*& mine, ClockSpace::Row* theirs) {
  if (mine != nullptr) {
    // Signed, because the plainest x86-64 compares 32 bits only so; epochs stay below 2^31.
    auto* const a = reinterpret_cast<const int32_t*>(ClockSpace::epochs(mine));
    auto* const b = reinterpret_cast<const int32_t*>(ClockSpace::epochs(theirs));
    const uint32_t places = space_->places();
    int32_t behind = 0;
    int32_t ahead = 0;
    for (uint32_t i = 0; i < places; ++i) {
      behind |= -(a[i] < b[i]);
      ahead |= -(b[i] < a[i]);
    }
    if (behind == 0) return;
    if (ahead != 0) {
      if (mine->references > 1) {
        ClockSpace::Row* const copy = space_->make_copy(mine);
        space_->release(mine);
        mine = copy;
      }
      auto* const to = reinterpret_cast<int32_t*>(ClockSpace::epochs(mine));
      for (uint32_t i = 0; i < places; ++i) to[i] = std::max(to[i], b[i]);
      return;
    }
    space_->release(mine);
  }
  ++theirs->references;
  mine = theirs;
}

void VectorClock::clear() {
  for (ClockSpace::Row* row : rows_)
    if (row != nullptr) space_->release(row);
  rows_.clear();
  forgotten_ = false;
}

}  // namespace moetwin
