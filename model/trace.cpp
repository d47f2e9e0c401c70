#include "model/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/output_file.h"
#include "model/perfetto.h"
#include "model/timeline.h"

namespace moetwin {
namespace {

enum Category : uint32_t { kWait = 1, kArrive, kCopy, kWork, kRun };

constexpr uint32_t kLaunchName = kNumSteps + 1;

uint64_t process_track(uint32_t rank) { return 1 + rank; }
uint64_t counter_track(uint32_t rank, uint32_t counter) {
  return 1000 + uint64_t{rank} * kNumRankCounters + counter;
}

class Drawing {
 public:
  Drawing(const std::vector<KernelArgs>& launches, const std::vector<TraceEvent>& events,
          std::string& out)
      : plan_(launches.front().plan),
        ranks_(launches.front().shape.ranks),
        events_(events),
        writer_(out),
        clocks_(size_t{ranks_} * plan_.sms * kAgentsPerCta, 0),
        counters_(launches),
        drawn_(ranks_) {}

  void draw() {
    describe_tracks();
    arrows_ = find_arrows(plan_.sms, events_);
    std::vector<size_t> by_source(arrows_.size());
    for (size_t i = 0; i < by_source.size(); ++i) by_source[i] = i;
    std::stable_sort(by_source.begin(), by_source.end(),
                     [&](size_t a, size_t b) { return arrows_[a].from < arrows_[b].from; });
    written_.resize(events_.size(), 0);
    origin_ = time_span(events_).first;
    size_t next_in = 0;
    size_t next_out = 0;
    for (size_t i = 0; i < events_.size(); ++i) {
      perfetto::Event shown;
      uint64_t earliest = 0;
      for (; next_in < arrows_.size() && arrows_[next_in].to == i; ++next_in) {
        shown.flows_in.push_back(next_in + 1);
        earliest = std::max(earliest, written_[arrows_[next_in].from]);
        counters_.landed(events_[arrows_[next_in].from]);
      }
      for (; next_out < by_source.size() && arrows_[by_source[next_out]].from == i; ++next_out)
        shown.flows_out.push_back(by_source[next_out] + 1);
      draw_event(i, earliest, shown);
    }
  }

 private:
  /// What was last drawn of a rank's counters, and when.
  struct Drawn {
    std::array<int64_t, kNumRankCounters> values{};
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
      for (uint32_t counter = 0; counter < kNumRankCounters; ++counter) {
        const auto which = static_cast<RankCounter>(counter);
        writer_.counter(counter_track(rank, counter), process_track(rank), rank_counter_name(which),
                        which == RankCounter::BytesInFlight ? perfetto::kBytes : perfetto::kCount);
      }
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
    counters_.count(e);
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
        break;
      case TraceKind::Copy:
        shown.category = kCopy;
        break;
      case TraceKind::TokenDone:
        shown.category = kRun;
        break;
      case TraceKind::Launch:
        shown.category = kRun;
        shown.name = kLaunchName;
        break;
    }
    writer_.event(shown);
    for (const uint32_t rank : counters_.ranks_of(e)) draw_counters(rank, clock);
  }

  /// A counter's new value, where it has one.
  void draw_counters(uint32_t number, uint64_t time) {
    Drawn& drawn = drawn_[number];
    drawn.clock = std::max(drawn.clock, time);
    for (uint32_t counter = 0; counter < kNumRankCounters; ++counter) {
      if (counters_.value(number, counter) == drawn.values[counter]) continue;
      drawn.values[counter] = counters_.value(number, counter);
      perfetto::Event shown;
      shown.time = drawn.clock;
      shown.track = counter_track(number, counter);
      shown.type = perfetto::kCounterEvent;
      shown.counter = drawn.values[counter];
      writer_.event(shown);
    }
  }

  const KernelPlan& plan_;
  uint32_t ranks_;
  const std::vector<TraceEvent>& events_;
  perfetto::Writer writer_;
  std::vector<Arrow> arrows_;
  std::vector<uint64_t> written_;  ///< [events] the time each was drawn at
  std::vector<uint64_t> clocks_;   ///< [agents]
  RankCounters counters_;
  std::vector<Drawn> drawn_;  ///< [ranks]
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
