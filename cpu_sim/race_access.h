// The accesses that the race checker tells apart: how bytes are touched, by which threads of an
// agent, and the table that gives all accesses alike in everything but place and time one number.
// Shadow memory is made of such numbers; it and what they order lie elsewhere.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
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
  constexpr uint32_t kWrites = 1u << static_cast<uint32_t>(AccessKind::Write) |
                               1u << static_cast<uint32_t>(AccessKind::AtomicAdd) |
                               1u << static_cast<uint32_t>(AccessKind::LoadWrite) |
                               1u << static_cast<uint32_t>(AccessKind::StoreWrite);
  return (kWrites >> static_cast<uint32_t>(kind) & 1) != 0;
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
  constexpr bool one_warp() const { return (warps() & (warps() - 1)) == 0; }
  constexpr bool first_warp() const { return warps() == 1; }
  constexpr bool first_lane() const { return (bits & 0x80u) != 0; }
  friend constexpr bool operator==(Who, Who) = default;
};
constexpr Who kFirstLane{0x81};
constexpr Who warp_of(uint32_t warp) { return {static_cast<uint8_t>(1u << warp)}; }
constexpr Who all_warps(uint32_t warps) { return {static_cast<uint8_t>((1u << warps) - 1)}; }

enum class RaceSpace : uint8_t { Shared, Global };

/// One side of a finding: an access but for where and when.
struct RaceSite {
  uint32_t agent = 0;
  AccessKind kind = AccessKind::Read;
  Who who;
  Step step = Step::None;
  Scope scope = Scope::Sys;  ///< of an atomic access
  friend constexpr bool operator==(const RaceSite& a, const RaceSite& b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  }
};

/// Where the clocks of others hold how far something is known.
struct ClockPlace {
  uint16_t row = 0;
  uint16_t place = 0;
};

/// Where an agent's part of a clock begins, and the agent's rank.
struct SourceAgent {
  ClockPlace clock;
  uint32_t rank = 0;
};

/// Numbers for the sources of accesses: who made one, where in the programs, and on which mbarrier
/// if it is a bulk load. A number is the agent's and behind it that of the place in the programs,
/// of which there are a few hundred for all agents together. 0 is none.
class SourceTable {
 public:
  struct Place {
    AccessKind kind = AccessKind::Read;
    Who who;
    Step step = Step::None;
    Scope scope = Scope::Sys;
    uint16_t clock = 0;  ///< where the clocks hold it, from its agent's part of them on
    uint16_t load = 0;   ///< 1 for a load, whose clock place is not within its agent's
  };
  static_assert(sizeof(Place) == 8);

  explicit SourceTable(std::vector<SourceAgent> agents)
      : agents_(std::move(agents)), places_(1), slots_(kFirstSlots) {}

  static uint32_t agent_of(uint32_t source) { return source / kPlaces; }
  static bool same_agent(uint32_t first, uint32_t second) { return (first ^ second) < kPlaces; }
  const Place& place_of(uint32_t source) const { return places_[source % kPlaces]; }
  RaceSite site_of(uint32_t source) const {
    const Place& place = place_of(source);
    return {agent_of(source), place.kind, place.who, place.step, place.scope};
  }
  /// Where the clocks hold what is known of the source's agent, and of the source.
  const SourceAgent& source_agent(uint32_t source) const { return agents_[agent_of(source)]; }
  ClockPlace clock_of(uint32_t source) const {
    const Place& place = place_of(source);
    const ClockPlace& agent = source_agent(source).clock;
    const auto begin = place.load != 0 ? 0u : agent.place;
    return {agent.row, static_cast<uint16_t>(begin + place.clock)};
  }
  /// The number of `site`. `clock`: its place in its agent's part of a clock, or of a load in the
  /// row, which is told by the site and the load's mbarrier.
  uint32_t number_of(const RaceSite& site, uint32_t barrier, uint32_t clock) {
    const uint64_t key = key_of(site, barrier);
    for (size_t i = first_slot(key);; i = next_slot(i)) {
      if (slots_[i].key == key) return site.agent * kPlaces + slots_[i].place;
      if (slots_[i].place == 0) break;
    }
    return site.agent * kPlaces + add_place(site, key, clock);
  }
  /// Whether two sources of one agent differ in their step at most.
  bool alike(uint32_t first, uint32_t second) const {
    Place as_second = place_of(first);
    as_second.step = place_of(second).step;
    return std::bit_cast<uint64_t>(as_second) == std::bit_cast<uint64_t>(place_of(second));
  }

 private:
  /// Of an open hash table, never more than half full.
  struct Slot {
    uint64_t key = 0;
    uint32_t place = 0;  ///< 0: free
  };
  static constexpr uint32_t kPlaces = 1u << 12;
  static constexpr size_t kFirstSlots = 512;

  /// Not 0: who is somebody. `barrier` tells loads apart.
  static uint64_t key_of(const RaceSite& site, uint32_t barrier) {
    const uint64_t bits = std::bit_cast<uint64_t>(site);
    static_assert(offsetof(RaceSite, agent) == 0 && std::endian::native == std::endian::little);
    return bits >> 32 | uint64_t{barrier} << 32;
  }
  size_t first_slot(uint64_t key) const {
    return (key * 0x9E3779B97F4A7C15u >> 40) & (slots_.size() - 1);
  }
  size_t next_slot(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  uint32_t add_place(const RaceSite& site, uint64_t key, uint32_t clock);

  std::vector<SourceAgent> agents_;
  std::vector<Place> places_;
  std::vector<Slot> slots_;  ///< a power of two of them
};

}  // namespace moetwin
