// Shadow memory of the race checker: for each byte range of interest the last write and the reads
// since then, as records with a byte mask. It owns where they are kept; whether two overlapping
// accesses are ordered, and which records a new one replaces, is race_detector.h's business.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpu_sim/prefetch.h"

namespace moetwin {

/// One access as the shadow remembers it.
struct Record {
  uint64_t mask = 0;    ///< units of the granule
  uint32_t epoch = 0;   ///< of the agent; async kinds: number of the operation
  uint32_t source = 0;  ///< its number in the checker's SourceTable
};

/// The last write to one unit, where writes are remembered unit by unit.
struct UnitWrite {
  uint32_t epoch = 0;
  uint32_t source = 0;  ///< 0: none
  friend constexpr bool operator==(UnitWrite, UnitWrite) = default;
};

/// Storage for the records of granules that have more than fit inside them: arrays of 4, 8, 16, ...
/// records, kept for the next granule when one is given back.
class RecordPool {
 public:
  static constexpr uint32_t kSmallest = 4;

  RecordPool() = default;
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  Record* take(uint32_t capacity) {
    std::vector<Record*>& free = free_[size_class(capacity)];
    if (free.empty()) add_slab(capacity);
    Record* const records = free.back();
    free.pop_back();
    return records;
  }
  void give_back(Record* records, uint32_t capacity) {
    free_[size_class(capacity)].push_back(records);
  }

 private:
  static constexpr uint32_t kSlabRecords = 512;

  static uint32_t size_class(uint32_t capacity) {
    return static_cast<uint32_t>(std::countr_zero(capacity));
  }
  void add_slab(uint32_t capacity) {
    const uint32_t count = std::max(kSlabRecords, capacity);
    slabs_.push_back(std::make_unique<Record[]>(count));
    for (uint32_t i = 0; i + capacity <= count; i += capacity)
      free_[size_class(capacity)].push_back(&slabs_.back()[i]);
  }

  std::vector<std::unique_ptr<Record[]>> slabs_;
  std::array<std::vector<Record*>, 32> free_;
};

/// Up to 64 units of memory and the records of their accesses, in no order. One cache line, unless
/// there are more than three.
class alignas(64) Granule {
 public:
  Record* begin() { return capacity_ == 0 ? inside_.data() : outside_; }
  Record* end() { return begin() + size_; }
  Record& add(const Record& record, RecordPool& pool) {
    if (size_ == std::max(capacity_, kInside)) [[unlikely]]
      grow(pool);
    Record& added = *end();
    added = record;
    ++size_;
    return added;
  }
  /// The last record takes the place of `record`.
  void remove(Record* record) {
    *record = *(end() - 1);
    --size_;
  }
  void clear(RecordPool& pool) {
    if (capacity_ != 0) pool.give_back(outside_, capacity_);
    capacity_ = 0;
    size_ = 0;
  }

 private:
  static constexpr uint32_t kInside = 3;

  [[gnu::noinline, gnu::cold]] void grow(RecordPool& pool) {
    const uint32_t capacity = capacity_ == 0 ? RecordPool::kSmallest : 2 * capacity_;
    Record* const larger = pool.take(capacity);
    std::copy(begin(), end(), larger);
    if (capacity_ != 0) pool.give_back(outside_, capacity_);
    outside_ = larger;
    capacity_ = capacity;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = 0;  ///< of outside_; 0: the records are inside
  Record* outside_ = nullptr;
  std::array<Record, kInside> inside_;
};
static_assert(sizeof(Record) == 16 && sizeof(Granule) == 64);

/// How a piece of memory is remembered: accesses begin and end on `unit` bytes, a power of two
/// (others are widened to them). A granule is `units` of them in a row or, where tiles take rows of
/// `pitch` bytes apart, one unit of `units` rows; about what one access touches, so that a granule
/// has few records. Where many write a few units each of what others read as a whole, the writes
/// are remembered unit by unit, not as records.
struct ShadowShape {
  uint32_t unit;
  uint32_t units = 64;  ///< a power of two up to 64
  uint64_t pitch = 0;   ///< 0: no tiles
  bool unit_writes = false;
};

/// A granule on its way past an access.
struct ShadowPlace {
  Granule* granule;
  UnitWrite* writes;  ///< of its units, other than atomic adds; null: they are records
  uint64_t number;
};

/// The shadow of a piece of memory; one cache line, and its pages.
class alignas(64) ShadowArea {
 public:
  ShadowArea(uint64_t bytes, ShadowShape shape)
      : bytes_(bytes),
        unit_shift_(static_cast<uint8_t>(std::countr_zero(shape.unit))),
        granule_shift_(static_cast<uint8_t>(unit_shift_ + std::countr_zero(shape.units))),
        unit_writes_(shape.unit_writes),
        rows_(shape.units),
        pitch_(shape.pitch),
        columns_(shape.pitch >> unit_shift_) {
    const uint64_t granules =
        pitch_ == 0 ? (bytes >> granule_shift_) + 1 : (bytes / pitch_ / rows_ + 1) * columns_;
    pages_.resize(granules / kPage + 1);
  }

  /// Calls f(place, mask) for the granules of `rows` rows of `row_bytes`, `pitch` apart, from
  /// `offset` on. Nothing happens outside the area: bounds are the machine's business.
  template <class F>
  void for_each(uint64_t offset, uint64_t row_bytes, uint32_t rows, uint64_t pitch, F&& f) {
    if (row_bytes == 0 || offset + (rows - 1) * pitch + row_bytes > bytes_) return;
    if (pitch_ != 0 && (rows == 1 || pitch == pitch_))
      return for_each_column(offset, row_bytes, rows, f);
    for (uint32_t row = 0; row < rows; ++row, offset += pitch) {
      if (pitch_ == 0)
        for_each_unit(offset, offset + row_bytes, f);
      else
        for_each_column(offset, row_bytes, 1, f);
    }
  }
  /// Whether all of [offset, offset + bytes) lies in one granule and not in tiles; which, and the
  /// units.
  bool in_one_granule(uint64_t offset, uint64_t bytes, ShadowPlace& where, uint64_t& mask) {
    const uint64_t last = offset + bytes - 1;
    const uint64_t number = offset >> granule_shift_;
    if (pitch_ != 0 || bytes == 0 || last >> granule_shift_ != number || last >= bytes_)
      return false;
    const uint64_t low = (offset >> unit_shift_) & (rows_ - 1);
    const uint64_t high = (last >> unit_shift_) & (rows_ - 1);
    mask = (~uint64_t{0} << low) & (~uint64_t{0} >> (63 - high));
    where = place(number);
    return true;
  }
  /// Calls f(place) for every granule that may have been touched.
  template <class F>
  void for_each_touched(F&& f) {
    for (uint64_t page = 0; page < pages_.size(); ++page)
      if (pages_[page].granules != nullptr)
        for (uint64_t i = 0; i < kPage; ++i) f(place(page * kPage + i));
  }
  /// Hints that the granule of a byte will be touched soon.
  void prefetch(uint64_t offset) const {
    if (pitch_ == 0 && offset < bytes_) prefetch_granule(offset >> granule_shift_, 0);
  }
  uint32_t units() const { return rows_; }
  /// The first byte of a granule's unit.
  uint64_t byte_of(uint64_t granule, uint32_t unit) const {
    if (pitch_ == 0) return (granule << granule_shift_) + (uint64_t{unit} << unit_shift_);
    return (granule / columns_ * rows_ + unit) * pitch_ + (granule % columns_ << unit_shift_);
  }
  /// Nothing has been touched.
  void clear(RecordPool& pool) {
    for (Page& page : pages_) {
      if (page.granules == nullptr) continue;
      for (Granule& granule : *page.granules) granule.clear(pool);
      if (unit_writes_) std::fill_n(page.writes.get(), kPage * rows_, UnitWrite{});
    }
  }

 private:
  static constexpr uint64_t kPage = 16;
  struct Page {
    std::unique_ptr<std::array<Granule, kPage>> granules;
    std::unique_ptr<UnitWrite[]> writes;  ///< [granule][unit]
  };

  ShadowPlace place(uint64_t number) {
    Page& page = pages_[number / kPage];
    if (page.granules == nullptr) [[unlikely]]
      make(page);
    const uint64_t index = number % kPage;
    UnitWrite* const writes = unit_writes_ ? &page.writes[index * rows_] : nullptr;
    return {&(*page.granules)[index], writes, number};
  }
  void prefetch_granule(uint64_t number, uint64_t unit) const {
    const Page& page = pages_[number / kPage];
    if (page.granules == nullptr) return;
    prefetch_bytes(&(*page.granules)[number % kPage], sizeof(Granule));
    if (unit_writes_)
      prefetch_bytes(&page.writes[number % kPage * rows_ + unit], sizeof(UnitWrite));
  }
  [[gnu::noinline, gnu::cold]] void make(Page& page) const {
    page.granules = std::make_unique<std::array<Granule, kPage>>();
    if (unit_writes_) page.writes = std::make_unique<UnitWrite[]>(kPage * rows_);
  }

  template <class F>
  void for_each_unit(uint64_t offset, uint64_t end, F& f) {
    const uint64_t size = uint64_t{1} << granule_shift_;
    while (offset < end) {
      const uint64_t begin = offset & ~(size - 1);
      const uint64_t stop = std::min(end, begin + size);
      const uint64_t low = (offset - begin) >> unit_shift_;
      const uint64_t high = (stop - 1 - begin) >> unit_shift_;
      const uint64_t index = offset >> granule_shift_;
      f(place(index), (~uint64_t{0} << low) & (~uint64_t{0} >> (63 - high)));
      offset = stop;
    }
  }

  /// `rows` pieces of `row_bytes`, one below the other, or one piece that may go on in next rows.
  template <class F>
  void for_each_column(uint64_t offset, uint64_t row_bytes, uint32_t rows, F& f) {
    uint64_t row = offset / pitch_;
    uint64_t column = offset % pitch_;
    while (column + row_bytes > pitch_ && rows == 1) {
      for_each_column(row * pitch_ + column, pitch_ - column, 1, f);
      row_bytes -= pitch_ - column;
      column = 0;
      ++row;
    }
    const uint64_t first = column >> unit_shift_;
    const uint64_t last = (column + row_bytes - 1) >> unit_shift_;
    for (uint64_t end = row + rows; row < end;) {
      const uint64_t stop = std::min(end, (row / rows_ + 1) * rows_);
      const uint64_t mask =
          (~uint64_t{0} << row % rows_) & (~uint64_t{0} >> (63 - (stop - 1) % rows_));
      const uint64_t begin = row / rows_ * columns_;
      for (uint64_t c = first; c <= last; ++c) prefetch_granule(begin + c, row % rows_);
      for (uint64_t c = first; c <= last; ++c) f(place(begin + c), mask);
      row = stop;
    }
  }

  uint64_t bytes_;
  uint8_t unit_shift_;
  uint8_t granule_shift_;
  bool unit_writes_;
  uint32_t rows_;     ///< of a granule
  uint64_t pitch_;    ///< 0: no tiles
  uint64_t columns_;  ///< units of a row
  std::vector<Page> pages_;
};
static_assert(sizeof(ShadowArea) == 64);

}  // namespace moetwin
