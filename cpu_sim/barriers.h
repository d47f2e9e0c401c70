// The barriers of a simulated CTA with the full state that silicon keeps only in part: whole phase
// numbers, signed byte counts, and which agents have arrived. Pure bookkeeping: who is woken and
// what is reported is the simulation's business.
#pragma once

#include <cstdint>

#include "common/wait_table.h"

namespace moetwin {

/// Bytes an mbarrier's transaction count may be off zero, either way.
constexpr int64_t kMaxTransactionBytes = (int64_t{1} << 20) - 1;

/// What an operation on a barrier may be guilty of.
enum class BarrierFault : uint8_t {
  None,
  NotInitialised,    ///< used before init
  InitialisedTwice,  ///< init of a live barrier
  ExtraArrival,      ///< more arrivals than the phase has
  ByteRange,         ///< the byte count left its range
  ExtraBytes,        ///< all arrived, and more bytes landed than were announced
  Unobserved,        ///< a phase ended before anybody had seen the one before it
  Lapped,            ///< a wait passed on a later phase of the same parity
  ThreadCount,       ///< participants disagree on the number of threads, or it is no multiple of 32
  Twice,             ///< one agent came twice in one round
};

struct SimMbarrier {
  bool initialised = false;
  uint32_t expected = 0;    ///< arrivals of a phase
  uint32_t arrivals = 0;    ///< of the current phase
  int64_t bytes = 0;        ///< announced and not landed yet
  uint64_t phases = 0;      ///< completed phases
  AgentMask arrived = 0;    ///< agents that arrived in the current phase
  AgentMask waiting = 0;    ///< agents blocked on it
  bool observed = true;     ///< somebody has waited for the last completed phase
  bool unobserved = false;  ///< a phase was over before anybody had seen the one before it

  BarrierFault init(uint32_t count) {
    if (initialised) return BarrierFault::InitialisedTwice;
    *this = {};
    initialised = true;
    expected = count;
    return BarrierFault::None;
  }

  BarrierFault arrive(uint32_t agent, uint32_t count) {
    if (!initialised) return BarrierFault::NotInitialised;
    arrived |= AgentMask{1} << agent;
    arrivals += count;
    return arrivals > expected ? BarrierFault::ExtraArrival : BarrierFault::None;
  }

  /// Positive: bytes announced; negative: bytes landed.
  BarrierFault transact(int64_t count) {
    if (!initialised) return BarrierFault::NotInitialised;
    bytes += count;
    const bool in_range = bytes <= kMaxTransactionBytes && bytes >= -kMaxTransactionBytes;
    return in_range ? BarrierFault::None : BarrierFault::ByteRange;
  }

  /// Ends the phase if it is complete; true if it did.
  bool complete_phase() {
    if (arrivals != expected || bytes != 0) return false;
    unobserved |= !observed;
    observed = waiting != 0;
    ++phases;
    arrivals = 0;
    arrived = 0;
    return true;
  }

  /// A phase that nobody waits for may be the last one only.
  BarrierFault observation() const {
    return unobserved ? BarrierFault::Unobserved : BarrierFault::None;
  }

  /// All arrived, yet the phase can never end by itself: too many bytes landed.
  bool overrun() const { return arrivals == expected && bytes < 0; }

  /// What the hardware's parity wait sees.
  bool passed(uint32_t parity) const { return (phases & 1) != (parity & 1); }
};

struct SimNamedBarrier {
  uint32_t threads = 0;  ///< of the current round; 0: nobody came yet
  uint32_t arrived_threads = 0;
  uint64_t rounds = 0;
  AgentMask arrived = 0;
  AgentMask waiting = 0;

  /// Counts an agent's threads in; `complete` tells whether the round ended.
  BarrierFault arrive(uint32_t agent, uint32_t agent_threads, uint32_t count, bool& complete) {
    complete = false;
    if (count % 32 != 0 || count == 0) return BarrierFault::ThreadCount;
    if (threads != 0 && threads != count) return BarrierFault::ThreadCount;
    if ((arrived >> agent & 1) != 0) return BarrierFault::Twice;
    threads = count;
    arrived |= AgentMask{1} << agent;
    arrived_threads += agent_threads;
    if (arrived_threads > threads) return BarrierFault::ExtraArrival;
    if (arrived_threads < threads) return BarrierFault::None;
    complete = true;
    ++rounds;
    threads = 0;
    arrived_threads = 0;
    arrived = 0;
    return BarrierFault::None;
  }
};

}  // namespace moetwin
