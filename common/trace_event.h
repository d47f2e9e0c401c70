// What a machine logs of a run for a timeline: one event of one agent. Both machines log the same
// events; model/trace.h draws them. Host and device.
#pragma once

#include <cstdint>

#include "common/wait_table.h"

namespace moetwin {

enum class TraceKind : uint8_t {
  Begin,      ///< a wait or a product begins
  End,        ///< the same agent's latest one ends
  Arrive,     ///< an arrival at a barrier, or a release add of `value` on a word
  Copy,       ///< a bulk copy of `value` bytes is issued
  TokenDone,  ///< y of one more token is written
  Launch,     ///< the rank starts launch `value`; its barriers and counters start over
};

/// What an event happens to.
enum class TraceObject : uint8_t {
  Nothing,
  Mbarrier,      ///< `object`: place in the CTA's mbarriers
  NamedBarrier,  ///< `object`: NamedBarrier
  Word,          ///< `object`: word_id()
  StoresRead,    ///< the agent's own bulk stores: sources read
  Stores,        ///< the agent's own bulk stores: destinations written
};

struct TraceEvent {
  uint64_t time;    ///< nanoseconds, or control events where the schedule has no clock
  uint64_t object;  ///< which one of `what`
  uint32_t value;
  uint16_t rank;
  uint16_t sm;
  uint8_t place;  ///< agent_place()
  TraceKind kind;
  Step step;
  TraceObject what;
};
static_assert(sizeof(TraceEvent) == 32);

/// A word of a rank's symmetric buffer, the same on both machines.
constexpr uint64_t word_id(uint32_t rank, uint32_t region, uint64_t offset) {
  return uint64_t{rank} << 56 | uint64_t{region} << 48 | offset;
}
constexpr uint32_t word_rank(uint64_t id) { return static_cast<uint32_t>(id >> 56); }
constexpr uint32_t word_region(uint64_t id) { return (id >> 48) & 0xFF; }
constexpr uint64_t word_offset(uint64_t id) { return id & 0xFFFFFFFFFFFFull; }

}  // namespace moetwin
