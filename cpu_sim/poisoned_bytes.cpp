// Reservation, poisoning and stamps of simulated memory.
#include "cpu_sim/poisoned_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "common/check.h"

namespace moetwin {

PoisonedBytes::PoisonedBytes(uint64_t bytes, uint8_t poison) : poison_(poison) {
  const uint64_t pages = bytes / kPage + 1;
  bytes_ = pages * kPage;
  touched_.assign(pages / 64 + 1, 0);
  // Data and stamps in one mapping; the kernel's zero pages are the stamps' "never written".
  void* base = mmap(nullptr, 2 * bytes_, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw InputError("shape: a rank's buffer of " + std::to_string(bytes) +
                     " bytes does not fit the address space");
  data_ = static_cast<uint8_t*>(base);
  stamps_ = data_ + bytes_;
}

PoisonedBytes::~PoisonedBytes() { release(); }

PoisonedBytes::PoisonedBytes(PoisonedBytes&& other) noexcept { *this = std::move(other); }

PoisonedBytes& PoisonedBytes::operator=(PoisonedBytes&& other) noexcept {
  if (this == &other) return *this;
  release();
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
  if (data_ != nullptr) munmap(data_, 2 * bytes_);
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
