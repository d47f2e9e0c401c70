#include "model/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "common/check.h"

namespace moetwin {
namespace {

/// Matches arrivals and copies with the waits that saw them.
class ArrowFinder {
 public:
  ArrowFinder(uint32_t sms, const std::vector<TraceEvent>& events) : sms_(sms), events_(events) {}

  std::vector<Arrow> find() {
    for (size_t i = 0; i < events_.size(); ++i) {
      const TraceEvent& e = events_[i];
      switch (e.kind) {
        case TraceKind::Launch:
          forget(e.rank);
          break;
        case TraceKind::Arrive:
          last_arrival_[object_key(e)] = i;
          break;
        case TraceKind::Copy:
          pending_[object_key(e)].push_back(i);
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
  using Key = std::pair<uint64_t, uint32_t>;

  /// One number an object: words are the same for all, barriers belong to a CTA, stores to an
  /// agent.
  uint64_t key(const TraceEvent& e) const {
    if (e.what == TraceObject::Word) return e.object;
    const uint64_t cta = uint64_t{e.rank} * sms_ + e.sm;
    const uint64_t object = e.what == TraceObject::Stores ? e.place : e.object;
    return uint64_t{1} << 63 | static_cast<uint64_t>(e.what) << 56 | cta << 16 | object;
  }

  /// A named barrier has a key a round: whoever ends one may have arrived at the next before the
  /// others are seen to leave. A member arrives once a round, so its own count tells the round.
  Key object_key(const TraceEvent& e) {
    if (e.what != TraceObject::NamedBarrier) return {key(e), 0};
    uint32_t& arrivals = arrivals_[{key(e), e.place}];
    if (e.kind == TraceKind::Arrive) ++arrivals;
    return {key(e), arrivals};
  }

  void end_wait(size_t i) {
    const TraceEvent& e = events_[i];
    if (e.what == TraceObject::Nothing || e.what == TraceObject::StoresRead) return;
    const Key object = object_key(e);
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
    const auto of_rank = [&](const auto& entry) {
      const uint64_t object = entry.first.first;
      return (object >> 63) != 0 && (object >> 16 & 0xFFFFFFFF) / sms_ == rank;
    };
    std::erase_if(last_arrival_, of_rank);
    std::erase_if(arrivals_, of_rank);
  }

  uint32_t sms_;
  const std::vector<TraceEvent>& events_;
  std::map<Key, size_t> last_arrival_;
  std::map<Key, std::vector<size_t>> pending_;
  std::map<Key, uint32_t> arrivals_;  ///< by named barrier and member
  std::vector<Arrow> arrows_;
};

constexpr size_t kNoEvent = SIZE_MAX;

/// Gathers waits by (rank, role, step), and within each by who ended them.
class WaitGatherer {
 public:
  explicit WaitGatherer(const Timeline& timeline)
      : events_(timeline.events), ended_by_(events_.size(), kNoEvent) {
    if (events_.empty()) return;
    // Where several ended a wait together, the last one of them did.
    for (const Arrow& arrow : find_arrows(timeline.launches.front().plan.sms, events_)) {
      size_t& by = ended_by_[arrow.to];
      if (by == kNoEvent || by < arrow.from) by = arrow.from;
    }
  }

  std::vector<WaitSummary> gather() {
    for (size_t i = 0; i < events_.size(); ++i) {
      const TraceEvent& e = events_[i];
      auto& open = open_[{e.rank, e.sm, e.place}];
      if (e.kind == TraceKind::Begin) open.push_back(i);
      if (e.kind != TraceKind::End || open.empty()) continue;
      if (e.what != TraceObject::Nothing) end(open.back(), i);
      open.pop_back();
    }
    const uint64_t last = time_span(events_).last;
    for (const auto& [agent, begins] : open_)
      for (const size_t begin : begins)
        if (events_[begin].what != TraceObject::Nothing) add(events_[begin], last, true);
    return summaries();
  }

 private:
  struct Group {
    WaitSummary summary;
    std::map<std::pair<Role, Step>, uint64_t> providers;
  };

  WaitSummary& add(const TraceEvent& begin, uint64_t end, bool unended) {
    const Role role = agent_at(begin.place).role;
    WaitSummary& s = groups_[{begin.rank, role, begin.step}].summary;
    s.rank = begin.rank;
    s.role = role;
    s.step = begin.step;
    ++s.waits;
    s.unended += unended ? 1 : 0;
    const uint64_t time = end > begin.time ? end - begin.time : 0;
    s.total += time;
    if (time > s.longest) {
      s.longest = time;
      s.longest_sm = begin.sm;
    }
    return s;
  }

  void end(size_t begin, size_t end) {
    const TraceEvent& from = events_[begin];
    add(from, events_[end].time, false);
    const size_t by = ended_by_[end];
    if (by == kNoEvent || events_[end].time <= from.time) return;
    const TraceEvent& provider = events_[by];
    groups_[{from.rank, agent_at(from.place).role, from.step}]
        .providers[{agent_at(provider.place).role, provider.step}] += events_[end].time - from.time;
  }

  std::vector<WaitSummary> summaries() {
    std::vector<WaitSummary> all;
    for (auto& [key, group] : groups_) {
      if (group.summary.total == 0 && group.summary.unended == 0) continue;
      uint64_t most = 0;
      for (const auto& [provider, time] : group.providers) {
        if (time <= most) continue;
        most = time;
        group.summary.ended_by_others = true;
        group.summary.provider = provider.first;
        group.summary.provider_step = provider.second;
      }
      all.push_back(group.summary);
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const WaitSummary& a, const WaitSummary& b) { return a.total > b.total; });
    return all;
  }

  const std::vector<TraceEvent>& events_;
  std::vector<size_t> ended_by_;  ///< [events] what ended the wait that ends here
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<size_t>> open_;
  std::map<std::tuple<uint32_t, Role, Step>, Group> groups_;
};

}  // namespace

std::vector<Arrow> find_arrows(uint32_t sms, const std::vector<TraceEvent>& events) {
  return ArrowFinder(sms, events).find();
}

void RingOccupancy::start(Shares shares) {
  shares_ = shares;
  slots_.clear();
  occupied_ = 0;
}

int64_t RingOccupancy::blocks_in(const Slot& slot) const {
  return int64_t{(slot.filled + shares_.filled_by - 1) / shares_.filled_by} -
         slot.emptied / shares_.emptied_by;
}

void RingOccupancy::add(uint64_t slot, uint32_t filled, uint32_t emptied) {
  Slot& s = slots_[slot];
  occupied_ -= blocks_in(s);
  s.filled += filled;
  s.emptied += emptied;
  occupied_ += blocks_in(s);
}

RankCounters::RankCounters(const std::vector<KernelArgs>& launches)
    : launches_(launches), ranks_(launches.front().shape.ranks) {}

void RankCounters::start_launch(const TraceEvent& event) {
  MOETWIN_CHECK(event.value < launches_.size());
  const KernelPlan& plan = launches_[event.value].plan;
  Rank& rank = ranks_[event.rank];
  const TileCounts tiles = plan.tiles;
  rank.pool.start({plan.x_full_a_block(), tiles.linear1_slices()});
  rank.linear1.start({tiles.linear1_slices() * plan.math_warpgroups, tiles.linear2_slices()});
  rank.values.fill(0);
}

std::array<uint32_t, 2> RankCounters::ranks_of(const TraceEvent& event) const {
  const bool word = event.what == TraceObject::Word && word_rank(event.object) < ranks_.size();
  return {event.rank, word ? word_rank(event.object) : event.rank};
}

void RankCounters::count(const TraceEvent& event) {
  auto& values = ranks_[event.rank].values;
  if (event.kind == TraceKind::Launch) start_launch(event);
  if (event.kind == TraceKind::Arrive) count_arrival(event);
  if (event.kind == TraceKind::Copy)
    values[static_cast<uint32_t>(RankCounter::BytesInFlight)] += event.value;
  if (event.kind == TraceKind::TokenDone) ++values[static_cast<uint32_t>(RankCounter::TokensDone)];
}

void RankCounters::landed(const TraceEvent& issue) {
  if (issue.kind != TraceKind::Copy) return;
  ranks_[issue.rank].values[static_cast<uint32_t>(RankCounter::BytesInFlight)] -= issue.value;
}

void RankCounters::count_arrival(const TraceEvent& event) {
  if (event.what != TraceObject::Word || word_rank(event.object) >= ranks_.size()) return;
  Rank& rank = ranks_[word_rank(event.object)];
  const uint64_t slot = word_offset(event.object) / 4;
  switch (static_cast<Region>(word_region(event.object))) {
    case Region::XFull:
      rank.pool.fill(slot, event.value);
      break;
    case Region::XEmpty:
      rank.pool.empty(slot, event.value);
      break;
    case Region::Linear1Full:
      rank.linear1.fill(slot, event.value);
      break;
    case Region::Linear1Empty:
      rank.linear1.empty(slot, event.value);
      break;
    default:
      return;
  }
  rank.values[static_cast<uint32_t>(RankCounter::PoolRing)] = rank.pool.occupied();
  rank.values[static_cast<uint32_t>(RankCounter::Linear1Ring)] = rank.linear1.occupied();
}

CounterSeries counter_series(const Timeline& timeline) {
  const std::vector<TraceEvent>& events = timeline.events;
  CounterSeries series(timeline.launches.front().shape.ranks);
  const std::vector<Arrow> arrows = find_arrows(timeline.launches.front().plan.sms, events);
  const uint64_t first = time_span(events).first;
  RankCounters counters(timeline.launches);
  std::vector<uint64_t> clocks(series.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    for (; next < arrows.size() && arrows[next].to == i; ++next)
      counters.landed(events[arrows[next].from]);
    counters.count(events[i]);
    for (const uint32_t rank : counters.ranks_of(events[i])) {
      clocks[rank] = std::max(clocks[rank], events[i].time - first);
      for (uint32_t counter = 0; counter < kNumRankCounters; ++counter) {
        auto& points = series[rank][counter];
        const int64_t value = counters.value(rank, counter);
        if (value == (points.empty() ? 0 : points.back().value)) continue;
        if (!points.empty() && points.back().time == clocks[rank])
          points.back().value = value;
        else
          points.push_back({clocks[rank], value});
      }
    }
  }
  return series;
}

std::vector<WaitSummary> summarise_waits(const Timeline& timeline) {
  return WaitGatherer(timeline).gather();
}

TimeSpan time_span(const std::vector<TraceEvent>& events) {
  if (events.empty()) return {};
  TimeSpan span{UINT64_MAX, 0};
  for (const TraceEvent& e : events) {
    span.first = std::min(span.first, e.time);
    span.last = std::max(span.last, e.time);
  }
  return span;
}

}  // namespace moetwin
