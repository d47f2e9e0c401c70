#include "model/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "common/check.h"
#include "model/output_file.h"
#include "model/perfetto.h"

namespace moetwin {
namespace {

enum Category : uint32_t { kWait = 1, kArrive, kCopy, kWork, kRun };
enum RankCounter : uint32_t { kPoolRing, kLinear1Ring, kBytesInFlight, kTokensDone, kNumCounters };

constexpr uint32_t kLaunchName = kNumSteps + 1;

uint64_t process_track(uint32_t rank) { return 1 + rank; }
uint64_t counter_track(uint32_t rank, uint32_t counter) {
  return 1000 + uint64_t{rank} * kNumCounters + counter;
}

/// Two ends of an arrow, as places among the events.
struct Arrow {
  size_t from;
  size_t to;
};

/// What each wait was ended by: matches arrivals and copies with the waits that saw them.
class ArrowFinder {
 public:
  ArrowFinder(uint32_t sms, const std::vector<TraceEvent>& events) : sms_(sms), events_(events) {}

  /// In the order of the waits' ends.
  std::vector<Arrow> find() {
    for (size_t i = 0; i < events_.size(); ++i) {
      const TraceEvent& e = events_[i];
      switch (e.kind) {
        case TraceKind::Launch:
          forget(e.rank);
          break;
        case TraceKind::Arrive:
          last_arrival_[key(e)] = i;
          break;
        case TraceKind::Copy:
          pending_[key(e)].push_back(i);
          break;
        case TraceKind::End:
          end_wait(i);
          break;
        default:
          break;
      }
    }
    return std::move(arrows_);
  }

 private:
  /// One number an object: words are the same for all, barriers belong to a CTA, stores to an
  /// agent.
  uint64_t key(const TraceEvent& e) const {
    if (e.what == TraceObject::Word) return e.object;
    const uint64_t cta = uint64_t{e.rank} * sms_ + e.sm;
    const uint64_t object = e.what == TraceObject::Stores ? e.place : e.object;
    return uint64_t{1} << 63 | static_cast<uint64_t>(e.what) << 56 | cta << 16 | object;
  }

  void end_wait(size_t i) {
    const TraceEvent& e = events_[i];
    if (e.what == TraceObject::Nothing || e.what == TraceObject::StoresRead) return;
    const uint64_t object = key(e);
    if (const auto arrival = last_arrival_.find(object); arrival != last_arrival_.end()) {
      const TraceEvent& by = events_[arrival->second];
      const bool own = by.rank == e.rank && by.sm == e.sm && by.place == e.place;
      if (!own) arrows_.push_back({arrival->second, i});
    }
    const auto copies = pending_.find(object);
    if (copies == pending_.end()) return;
    for (const size_t copy : copies->second) arrows_.push_back({copy, i});
    copies->second.clear();
  }

  /// A CTA's barriers are made anew in each launch; copies of the last one have all landed.
  void forget(uint32_t rank) {
    std::erase_if(last_arrival_, [&](const auto& entry) {
      return (entry.first >> 63) != 0 && (entry.first >> 16 & 0xFFFFFFFF) / sms_ == rank;
    });
  }

  uint32_t sms_;
  const std::vector<TraceEvent>& events_;
  std::unordered_map<uint64_t, size_t> last_arrival_;
  std::unordered_map<uint64_t, std::vector<size_t>> pending_;
  std::vector<Arrow> arrows_;
};

/// Slots of one ring that hold a block: from its first contribution on until the last tile has
/// read it.
class RingOccupancy {
 public:
  void start(uint32_t filled_by, uint32_t emptied_by) {
    filled_by_ = filled_by;
    emptied_by_ = emptied_by;
    slots_.clear();
    occupied_ = 0;
  }
  void fill(uint64_t slot, uint32_t value) { add(slot, value, 0); }
  void empty(uint64_t slot, uint32_t value) { add(slot, 0, value); }
  int64_t occupied() const { return occupied_; }

 private:
  struct Slot {
    uint32_t filled = 0;
    uint32_t emptied = 0;
  };

  int64_t blocks_in(const Slot& slot) const {
    return int64_t{(slot.filled + filled_by_ - 1) / filled_by_} - slot.emptied / emptied_by_;
  }
  void add(uint64_t slot, uint32_t filled, uint32_t emptied) {
    Slot& s = slots_[slot];
    occupied_ -= blocks_in(s);
    s.filled += filled;
    s.emptied += emptied;
    occupied_ += blocks_in(s);
  }

  uint32_t filled_by_ = 1;
  uint32_t emptied_by_ = 1;
  std::unordered_map<uint64_t, Slot> slots_;
  int64_t occupied_ = 0;
};

class Drawing {
 public:
  Drawing(const std::vector<KernelArgs>& launches, const std::vector<TraceEvent>& events,
          std::string& out)
      : launches_(launches),
        plan_(launches.front().plan),
        ranks_(launches.front().shape.ranks),
        events_(events),
        writer_(out),
        clocks_(size_t{ranks_} * plan_.sms * kAgentsPerCta, 0),
        rank_states_(ranks_) {}

  void draw() {
    describe_tracks();
    arrows_ = ArrowFinder(plan_.sms, events_).find();
    std::vector<size_t> by_source(arrows_.size());
    for (size_t i = 0; i < by_source.size(); ++i) by_source[i] = i;
    std::stable_sort(by_source.begin(), by_source.end(),
                     [&](size_t a, size_t b) { return arrows_[a].from < arrows_[b].from; });
    written_.resize(events_.size(), 0);
    if (!events_.empty())
      origin_ = std::min_element(events_.begin(), events_.end(), [](const auto& a, const auto& b) {
                  return a.time < b.time;
                })->time;
    size_t next_in = 0;
    size_t next_out = 0;
    for (size_t i = 0; i < events_.size(); ++i) {
      perfetto::Event shown;
      uint64_t earliest = 0;
      for (; next_in < arrows_.size() && arrows_[next_in].to == i; ++next_in) {
        shown.flows_in.push_back(next_in + 1);
        earliest = std::max(earliest, written_[arrows_[next_in].from]);
        landed(events_[arrows_[next_in].from]);
      }
      for (; next_out < by_source.size() && arrows_[by_source[next_out]].from == i; ++next_out)
        shown.flows_out.push_back(by_source[next_out] + 1);
      draw_event(i, earliest, shown);
    }
  }

 private:
  struct RankState {
    RingOccupancy pool;
    RingOccupancy linear1;
    std::array<int64_t, kNumCounters> values{};
    std::array<int64_t, kNumCounters> drawn{};
    uint64_t clock = 0;
  };

  uint32_t agent_number(const TraceEvent& e) const {
    return (e.rank * plan_.sms + e.sm) * kAgentsPerCta + e.place;
  }
  uint64_t agent_track(uint32_t number) const { return counter_track(ranks_, 0) + number; }

  void describe_tracks() {
    std::vector<std::string> names;
    for (uint32_t step = 0; step < kNumSteps; ++step)
      names.emplace_back(step_name(static_cast<Step>(step)));
    names.emplace_back("Launch");
    writer_.intern(names, {"wait", "arrive", "copy", "work", "run"});
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const auto pid = static_cast<int32_t>(rank + 1);
      writer_.process(process_track(rank), pid, fmt::format("rank {}", rank));
      const auto counter = [&](RankCounter which, const char* name, perfetto::CounterUnit unit) {
        writer_.counter(counter_track(rank, which), process_track(rank), name, unit);
      };
      counter(kPoolRing, "pool ring, slots in use", perfetto::kCount);
      counter(kLinear1Ring, "Linear1 ring, slots in use", perfetto::kCount);
      counter(kBytesInFlight, "bytes in flight", perfetto::kBytes);
      counter(kTokensDone, "tokens done", perfetto::kCount);
      for (uint32_t sm = 0; sm < plan_.sms; ++sm)
        for (uint32_t place = 0; place < agent_place(Role::Math, plan_.math_warpgroups); ++place) {
          const uint32_t number = (rank * plan_.sms + sm) * kAgentsPerCta + place;
          const AgentOfCta agent = agent_at(place);
          writer_.thread(agent_track(number), pid, static_cast<int32_t>(1000 + number),
                         fmt::format("SM {} {} {}", sm, role_name(agent.role), agent.number));
        }
    }
  }

  void draw_event(size_t i, uint64_t earliest, perfetto::Event& shown) {
    const TraceEvent& e = events_[i];
    uint64_t& clock = clocks_[agent_number(e)];
    clock = std::max({clock, e.time - origin_, earliest});
    written_[i] = clock;
    shown.time = clock;
    shown.track = agent_track(agent_number(e));
    shown.name = 1 + static_cast<uint32_t>(e.step);
    RankState& rank = rank_states_[e.rank];
    switch (e.kind) {
      case TraceKind::Begin:
        shown.type = perfetto::kSliceBegin;
        shown.category = e.what == TraceObject::Nothing ? kWork : kWait;
        break;
      case TraceKind::End:
        // An arrow ends at a moment, the wait's last one, not at its beginning.
        if (!shown.flows_in.empty()) {
          shown.category = kWait;
          writer_.event(shown);
        }
        shown = {clock, shown.track, perfetto::kSliceEnd, 0, 0, 0, {}, {}};
        break;
      case TraceKind::Arrive:
        shown.category = kArrive;
        count_arrival(e);
        break;
      case TraceKind::Copy:
        shown.category = kCopy;
        rank.values[kBytesInFlight] += e.value;
        break;
      case TraceKind::TokenDone:
        shown.category = kRun;
        ++rank.values[kTokensDone];
        break;
      case TraceKind::Launch:
        shown.category = kRun;
        shown.name = kLaunchName;
        start_launch(e);
        break;
    }
    writer_.event(shown);
    draw_counters(e.rank, clock);
    if (e.what == TraceObject::Word && word_rank(e.object) < ranks_)
      draw_counters(word_rank(e.object), clock);
  }

  void landed(const TraceEvent& e) {
    if (e.kind == TraceKind::Copy) rank_states_[e.rank].values[kBytesInFlight] -= e.value;
  }

  void start_launch(const TraceEvent& e) {
    MOETWIN_CHECK(e.value < launches_.size());
    const KernelPlan& plan = launches_[e.value].plan;
    RankState& rank = rank_states_[e.rank];
    rank.pool.start(plan.block_m, plan.tiles.n1);
    rank.linear1.start(plan.tiles.n1 * plan.math_warpgroups, plan.tiles.n2);
    rank.values.fill(0);
  }

  void count_arrival(const TraceEvent& e) {
    if (e.what != TraceObject::Word || word_rank(e.object) >= ranks_) return;
    RankState& rank = rank_states_[word_rank(e.object)];
    const uint64_t slot = word_offset(e.object) / 4;
    switch (static_cast<Region>(word_region(e.object))) {
      case Region::XFull:
        rank.pool.fill(slot, e.value);
        break;
      case Region::XEmpty:
        rank.pool.empty(slot, e.value);
        break;
      case Region::Linear1Full:
        rank.linear1.fill(slot, e.value);
        break;
      case Region::Linear1Empty:
        rank.linear1.empty(slot, e.value);
        break;
      default:
        return;
    }
    rank.values[kPoolRing] = rank.pool.occupied();
    rank.values[kLinear1Ring] = rank.linear1.occupied();
  }

  /// A counter's new value, where it has one.
  void draw_counters(uint32_t number, uint64_t time) {
    RankState& rank = rank_states_[number];
    rank.clock = std::max(rank.clock, time);
    for (uint32_t counter = 0; counter < kNumCounters; ++counter) {
      if (rank.values[counter] == rank.drawn[counter]) continue;
      rank.drawn[counter] = rank.values[counter];
      perfetto::Event shown;
      shown.time = rank.clock;
      shown.track = counter_track(number, counter);
      shown.type = perfetto::kCounterEvent;
      shown.counter = rank.values[counter];
      writer_.event(shown);
    }
  }

  const std::vector<KernelArgs>& launches_;
  const KernelPlan& plan_;
  uint32_t ranks_;
  const std::vector<TraceEvent>& events_;
  perfetto::Writer writer_;
  std::vector<Arrow> arrows_;
  std::vector<uint64_t> written_;  ///< [events] the time each was drawn at
  std::vector<uint64_t> clocks_;   ///< [agents]
  std::vector<RankState> rank_states_;
  uint64_t origin_ = 0;
};

}  // namespace

std::string encode_trace(const std::vector<KernelArgs>& launches,
                         const std::vector<TraceEvent>& events) {
  std::string bytes;
  Drawing(launches, events, bytes).draw();
  return bytes;
}

void write_trace(const std::string& path, const std::vector<KernelArgs>& launches,
                 const std::vector<TraceEvent>& events) {
  write_file(path, encode_trace(launches, events), "--trace");
}

}  // namespace moetwin
