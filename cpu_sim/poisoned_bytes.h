// Simulated memory: bytes that start as poison, never as zero, each with a stamp that tells which
// launch wrote it. Address space until touched, so that a buffer may be as large as its worst case.
// Knows no regions, agents or orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cpu_sim/simulation_pool.h"

namespace moetwin {

/// Who wrote a byte: nobody, launch n (by residue), or something that outlives launches.
using Stamp = uint8_t;
constexpr Stamp kNeverWritten = 0;
constexpr Stamp kLastingStamp = 255;
constexpr Stamp launch_stamp(uint64_t launch) { return static_cast<Stamp>(1 + launch % 254); }

class PoisonedBytes {
 public:
  PoisonedBytes() = default;
  /// Reserves `bytes`, from `pool` where there is one; it must outlive them. Throws InputError when
  /// the address space does not hold them.
  PoisonedBytes(uint64_t bytes, uint8_t poison, PagePool* pool = nullptr);
  ~PoisonedBytes();
  PoisonedBytes(PoisonedBytes&& other) noexcept;
  PoisonedBytes& operator=(PoisonedBytes&& other) noexcept;

  uint64_t size() const { return bytes_; }
  /// Bytes of pages that were touched at some time.
  uint64_t touched_bytes() const { return peak_pages_ * kPage; }

  /// Pointer to [offset, offset + bytes), which must lie inside; pages touched for the first time
  /// are poisoned.
  uint8_t* data(uint64_t offset, uint64_t bytes) {
    touch(offset, bytes);
    return data_ + offset;
  }
  Stamp* stamps(uint64_t offset) { return stamps_ + offset; }

  /// Whether every byte of the range carries `stamp` or the lasting one.
  bool stamped(uint64_t offset, uint64_t bytes, Stamp stamp) const {
    // Nearly always one stamp throughout, so that is looked for first.
    const Stamp* stamps = stamps_ + offset;
    const uint64_t wanted = 0x0101010101010101u * stamp;
    uint64_t difference = 0;
    uint64_t i = 0;
    for (; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t))
      difference |= load_word<uint64_t>(stamps + i) ^ wanted;
    if (bytes - i == sizeof(uint32_t)) {
      difference |= load_word<uint32_t>(stamps + i) ^ static_cast<uint32_t>(wanted);
    } else {
      for (; i < bytes; ++i) difference |= stamps[i] ^ stamp;
    }
    return difference == 0 || stamped_or_lasting(offset, bytes, stamp);
  }
  /// Whether every byte of the range was written at some time.
  bool written(uint64_t offset, uint64_t bytes) const;
  void set_stamps(uint64_t offset, uint64_t bytes, Stamp stamp) {
    std::memset(stamps_ + offset, stamp, bytes);
  }
  /// The range is as if nobody had written it.
  void poison(uint64_t offset, uint64_t bytes);
  /// Everything is as if nobody had written it; costs nothing until pages are touched again.
  void forget();

 private:
  static constexpr uint64_t kPage = 4096;

  template <class Word>
  static Word load_word(const Stamp* stamps) {
    Word word;
    std::memcpy(&word, stamps, sizeof word);
    return word;
  }
  bool stamped_or_lasting(uint64_t offset, uint64_t bytes, Stamp stamp) const;
  void touch(uint64_t offset, uint64_t bytes) {
    const uint64_t last = (offset + bytes - 1) / kPage;
    for (uint64_t page = offset / kPage; page <= last; ++page)
      if ((touched_[page / 64] >> (page % 64) & 1) == 0) [[unlikely]]
        poison_page(page);
  }
  void poison_page(uint64_t page);
  void release();

  PagePool* pool_ = nullptr;
  PagePool::Mapping mapping_;
  uint8_t* data_ = nullptr;
  Stamp* stamps_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t touched_pages_ = 0;  ///< since the last forget()
  uint64_t peak_pages_ = 0;
  bool forgot_ = false;  ///< an untouched page may hold old stamps
  uint8_t poison_ = 255;
  std::vector<uint64_t> touched_;
};

}  // namespace moetwin
