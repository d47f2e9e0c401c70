// What the events of a run say about it as a whole, the same for every machine: which arrival or
// copy ended each wait, how full the rings were, how many bytes were on their way, who waited for
// what and how long. trace.h draws it for Perfetto; a report shows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/machine.h"
#include "common/trace_event.h"

namespace moetwin {

/// The events of a run. `launches` are the arguments of each launch of the case, all with the same
/// ranks and SMs; `events` stand in an order in which each is behind what caused it, and those of
/// one agent in the order in which it logged them.
struct Timeline {
  std::vector<KernelArgs> launches;
  std::vector<TraceEvent> events;
};

/// What ended a wait: an arrival or the issue of a copy, and the end of the wait that saw it, as
/// places among the events.
struct Arrow {
  size_t from;
  size_t to;
};

/// In the order of the waits' ends. An agent's own arrival is no arrow; each copy is one.
std::vector<Arrow> find_arrows(uint32_t sms, const std::vector<TraceEvent>& events);

enum class RankCounter : uint32_t { PoolRing, Linear1Ring, BytesInFlight, TokensDone, Count };
constexpr uint32_t kNumRankCounters = static_cast<uint32_t>(RankCounter::Count);
constexpr const char* rank_counter_name(RankCounter counter) {
  constexpr const char* kNames[] = {"pool ring, slots in use", "Linear1 ring, slots in use",
                                    "bytes in flight", "tokens done"};
  return kNames[static_cast<uint32_t>(counter)];
}

/// Slots of one ring that hold a block: from its first contribution on until the last tile has
/// read it.
class RingOccupancy {
 public:
  /// What fills a block and what empties it.
  struct Shares {
    uint32_t filled_by = 1;
    uint32_t emptied_by = 1;
  };
  void start(Shares shares);
  void fill(uint64_t slot, uint32_t value) { add(slot, value, 0); }
  void empty(uint64_t slot, uint32_t value) { add(slot, 0, value); }
  int64_t occupied() const { return occupied_; }

 private:
  struct Slot {
    uint32_t filled = 0;
    uint32_t emptied = 0;
  };
  int64_t blocks_in(const Slot& slot) const;
  void add(uint64_t slot, uint32_t filled, uint32_t emptied);

  Shares shares_;
  std::unordered_map<uint64_t, Slot> slots_;
  int64_t occupied_ = 0;
};

/// The counters of every rank while events go by.
class RankCounters {
 public:
  explicit RankCounters(const std::vector<KernelArgs>& launches);

  void count(const TraceEvent& event);
  /// A wait saw the copy land that `issue` began.
  void landed(const TraceEvent& issue);
  int64_t value(uint32_t rank, uint32_t counter) const { return ranks_[rank].values[counter]; }
  /// Ranks whose counters count(event) may have changed: the agent's and, for a word, its owner.
  std::array<uint32_t, 2> ranks_of(const TraceEvent& event) const;

 private:
  struct Rank {
    RingOccupancy pool;
    RingOccupancy linear1;
    std::array<int64_t, kNumRankCounters> values{};
  };
  void start_launch(const TraceEvent& event);
  void count_arrival(const TraceEvent& event);

  const std::vector<KernelArgs>& launches_;
  std::vector<Rank> ranks_;
};

/// A counter's value from `time` on.
struct CounterPoint {
  uint64_t time;
  int64_t value;
};

/// [rank][counter]: every change, in order. Times count from the earliest event and never go back.
using CounterSeries = std::vector<std::array<std::vector<CounterPoint>, kNumRankCounters>>;
CounterSeries counter_series(const Timeline& timeline);

/// All waits of the agents of one role of one rank at one step.
struct WaitSummary {
  uint32_t rank = 0;
  Role role = Role::Dispatch;
  Step step = Step::None;
  uint64_t waits = 0;
  uint64_t unended = 0;  ///< still waiting where the run ended
  uint64_t total = 0;    ///< time waited, by all these agents together, in the events' unit
  uint64_t longest = 0;
  bool ended_by_others = false;
  Role provider = Role::Dispatch;   ///< whose arrivals or copies ended most of that time
  Step provider_step = Step::None;  ///< with what
  uint32_t longest_sm = 0;          ///< where the longest one was
};

/// Waits that took time, the longest total first; within a total by rank, role, step.
std::vector<WaitSummary> summarise_waits(const Timeline& timeline);

/// First and last time of the events; both 0 where there are none.
struct TimeSpan {
  uint64_t first = 0;
  uint64_t last = 0;
};
TimeSpan time_span(const std::vector<TraceEvent>& events);

}  // namespace moetwin
