// Reservation, poisoning and stamps of simulated memory.
#include "cpu_sim/poisoned_bytes.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/check.h"

namespace moetwin {

PoisonedBytes::PoisonedBytes(uint64_t bytes, uint8_t poison, PagePool* pool)
    : pool_(pool), poison_(poison) {
  const uint64_t pages = bytes / kPage + 1;
  bytes_ = pages * kPage;
  touched_.assign(pages / 64 + 1, 0);
  // Data and stamps in one mapping; the kernel's zero pages are the stamps' "never written".
  mapping_ = pool != nullptr ? pool->take(2 * bytes_) : PagePool::map(2 * bytes_);
  if (mapping_.base == nullptr)
    throw InputError("shape: a rank's buffer of " + std::to_string(bytes) +
                     " bytes does not fit the address space");
  data_ = mapping_.base;
  stamps_ = data_ + bytes_;
  forgot_ = mapping_.used;
}

PoisonedBytes::~PoisonedBytes() { release(); }

PoisonedBytes::PoisonedBytes(PoisonedBytes&& other) noexcept { *this = std::move(other); }

PoisonedBytes& PoisonedBytes::operator=(PoisonedBytes&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = other.pool_;
  mapping_ = std::exchange(other.mapping_, {});
  data_ = std::exchange(other.data_, nullptr);
  stamps_ = std::exchange(other.stamps_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  touched_pages_ = std::exchange(other.touched_pages_, 0);
  peak_pages_ = std::exchange(other.peak_pages_, 0);
  forgot_ = other.forgot_;
  poison_ = other.poison_;
  touched_ = std::move(other.touched_);
  return *this;
}

void PoisonedBytes::release() {
  if (pool_ != nullptr)
    pool_->give(mapping_);
  else
    PagePool::unmap(mapping_);
  mapping_ = {};
  data_ = nullptr;
}

void PoisonedBytes::poison_page(uint64_t page) {
  touched_[page / 64] |= uint64_t{1} << (page % 64);
  peak_pages_ = std::max(peak_pages_, ++touched_pages_);
  std::memset(data_ + page * kPage, poison_, kPage);
  // Fresh pages come as zeros, which is "never written".
  if (forgot_) std::memset(stamps_ + page * kPage, kNeverWritten, kPage);
}

void PoisonedBytes::forget() {
  std::fill(touched_.begin(), touched_.end(), 0);
  touched_pages_ = 0;
  forgot_ = true;
}

bool PoisonedBytes::stamped_or_lasting(uint64_t offset, uint64_t bytes, Stamp stamp) const {
  const Stamp* stamps = stamps_ + offset;
  bool all = true;
  for (uint64_t i = 0; i < bytes; ++i) all &= (stamps[i] == stamp) | (stamps[i] == kLastingStamp);
  return all;
}

bool PoisonedBytes::written(uint64_t offset, uint64_t bytes) const {
  return std::find(stamps_ + offset, stamps_ + offset + bytes, kNeverWritten) ==
         stamps_ + offset + bytes;
}

void PoisonedBytes::poison(uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return;
  touch(offset, bytes);
  std::memset(data_ + offset, poison_, bytes);
  std::memset(stamps_ + offset, kNeverWritten, bytes);
}

}  // namespace moetwin
