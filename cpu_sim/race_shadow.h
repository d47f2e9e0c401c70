// Shadow memory of the race checker: for each byte range of interest the last write and the reads
// since then, as records with a byte mask. It owns how accesses overlap and which records a new
// access replaces; whether two overlapping accesses are ordered is race_detector.h's business.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/machine.h"

namespace moetwin {

/// How bytes are touched. The async kinds are the ends of bulk copies and the operand reads of the
/// tensor core; their epoch is an operation's number, not an agent's.
enum class AccessKind : uint8_t {
  Read,
  Write,
  AtomicRead,
  AtomicAdd,
  LoadRead,    ///< a bulk load reads its source
  LoadWrite,   ///< a bulk load writes its destination
  StoreRead,   ///< a bulk store reads its source
  StoreWrite,  ///< a bulk store writes its destination
  MmaRead,     ///< the tensor core reads an operand
};
constexpr bool writes(AccessKind kind) {
  return kind == AccessKind::Write || kind == AccessKind::AtomicAdd ||
         kind == AccessKind::LoadWrite || kind == AccessKind::StoreWrite;
}
constexpr bool is_async(AccessKind kind) { return kind >= AccessKind::LoadRead; }
constexpr bool is_load(AccessKind kind) {
  return kind == AccessKind::LoadRead || kind == AccessKind::LoadWrite;
}
constexpr bool is_atomic(AccessKind kind) {
  return kind == AccessKind::AtomicRead || kind == AccessKind::AtomicAdd;
}

/// Which threads of an agent touch: a mask of its warps, and whether it is the first lane alone.
struct Who {
  uint8_t bits = 0;
  constexpr uint32_t warps() const { return bits & 0xFu; }
  constexpr bool first_lane() const { return (bits & 0x80u) != 0; }
  friend constexpr bool operator==(Who, Who) = default;
};
constexpr Who kFirstLane{0x81};
constexpr Who warp_of(uint32_t warp) { return {static_cast<uint8_t>(1u << warp)}; }
constexpr Who all_warps(uint32_t warps) { return {static_cast<uint8_t>((1u << warps) - 1)}; }

/// One access as the shadow remembers it.
struct Record {
  uint64_t mask = 0;   ///< units of the granule
  uint32_t epoch = 0;  ///< of the agent; async kinds: number of the operation
  uint32_t agent = 0;
  AccessKind kind = AccessKind::Read;
  Who who;
  Step step = Step::None;
  Scope scope = Scope::Sys;  ///< of an atomic access
};

/// 64 units of memory.
struct Granule {
  std::vector<Record> records;
};

/// A piece of memory whose accesses all begin and end on `unit` bytes, a power of two.
class ShadowArea {
 public:
  ShadowArea(uint64_t bytes, uint32_t unit)
      : bytes_(bytes),
        unit_shift_(static_cast<uint32_t>(std::countr_zero(unit))),
        pages_((bytes >> unit_shift_) / (64 * kPage) + 1) {}

  /// Calls f(granule, mask, first byte of the granule) for the granules of [offset, offset +
  /// bytes), which must lie inside.
  template <class F>
  void for_each(uint64_t offset, uint64_t bytes, F&& f) {
    if (bytes == 0 || offset + bytes > bytes_) return;
    uint64_t unit = offset >> unit_shift_;
    const uint64_t last = (offset + bytes - 1) >> unit_shift_;
    while (unit <= last) {
      const uint64_t index = unit / 64;
      const uint64_t end = std::min(last, index * 64 + 63);
      const uint64_t low = ~uint64_t{0} << (unit % 64);
      const uint64_t high = ~uint64_t{0} >> (63 - end % 64);
      f(granule(index), low & high, (index * 64) << unit_shift_);
      unit = end + 1;
    }
  }
  uint32_t unit() const { return 1u << unit_shift_; }
  /// Nothing has been touched.
  void clear() {
    for (std::unique_ptr<Page>& page : pages_) page.reset();
  }

 private:
  static constexpr uint64_t kPage = 64;
  using Page = std::array<Granule, kPage>;

  Granule& granule(uint64_t index) {
    std::unique_ptr<Page>& page = pages_[index / kPage];
    if (page == nullptr) page = std::make_unique<Page>();
    return (*page)[index % kPage];
  }

  uint64_t bytes_;
  uint32_t unit_shift_;
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace moetwin
