#include "fuzz/exhaustive.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "common/check.h"
#include "cpu_sim/simulation.h"
#include "fuzz/conflicts.h"
#include "fuzz/plants.h"

namespace moetwin {
namespace {

struct ObjectOperation {
  uint64_t object = 0;
  Operation operation;
};

/// What one agent does from one choice to the next.
struct Transition {
  uint32_t agent = 0;
  std::vector<ObjectOperation> operations;
};

bool independent(const Transition& a, const Transition& b) {
  if (a.agent == b.agent) return false;
  for (const ObjectOperation& x : a.operations)
    for (const ObjectOperation& y : b.operations)
      if (x.object == y.object && (conflict_of(x.operation, y.operation) != Conflict::None ||
                                   conflict_of(y.operation, x.operation) != Conflict::None))
        return false;
  return true;
}

/// A choice on the current path.
struct Node {
  std::vector<uint32_t> runnable;
  uint32_t running = Chooser::kNobody;
  uint32_t preemptions = 0;          ///< before this choice
  std::vector<Transition> sleeping;  ///< agents whose next step has been explored from here
  std::vector<uint32_t> to_explore;  ///< agents still to be tried here
  std::vector<uint32_t> cut;         ///< agents that the bound kept out
  Transition taken;

  bool enabled(uint32_t agent) const {
    return std::find(runnable.begin(), runnable.end(), agent) != runnable.end();
  }
  bool asleep(uint32_t agent) const {
    return std::any_of(sleeping.begin(), sleeping.end(),
                       [agent](const Transition& t) { return t.agent == agent; });
  }
  uint32_t preemptions_with(uint32_t agent, uint32_t agents) const {
    if (running != Chooser::kNobody) return preemptions + (agent != running ? 1 : 0);
    const bool others = std::any_of(runnable.begin(), runnable.end(),
                                    [agents](uint32_t id) { return id < agents; });
    return preemptions + (agent >= agents && others ? 1 : 0);
  }
};

bool contains(const std::vector<uint32_t>& list, uint32_t agent) {
  return std::find(list.begin(), list.end(), agent) != list.end();
}

/// One run along the path so far and on by default, writing down what happens.
class PathRun : public SyncObserver, public Chooser {
 public:
  PathRun(std::vector<Node>& path, size_t fixed, uint32_t agents, CoverageObserver& coverage)
      : path_(path), fixed_(fixed), agents_(agents), coverage_(coverage) {}

  void on_sync(const Observation& event) override {
    coverage_.on_sync(event);
    if (depth_ == 0) return;
    uint64_t& value = values_[event.object];
    const uint64_t before = value;
    if (event.op == SyncOp::Add || event.op == SyncOp::Fetch || event.op == SyncOp::Write)
      value = event.number;
    path_[depth_ - 1].taken.operations.push_back(
        {event.object, {event.op, event.number, before, event.completes}});
  }

  uint32_t choose(std::span<const uint32_t> runnable, uint32_t running) override {
    if (depth_ < fixed_) {
      Node& node = path_[depth_++];
      MOETWIN_CHECK(node.enabled(node.taken.agent) && node.runnable.size() == runnable.size());
      node.taken.operations.clear();
      return node.taken.agent;
    }
    Node node;
    node.runnable.assign(runnable.begin(), runnable.end());
    node.running = running;
    if (depth_ > 0) inherit(path_[depth_ - 1], node);
    const auto first = std::find_if(runnable.begin(), runnable.end(),
                                    [&](uint32_t agent) { return !node.asleep(agent); });
    if (first == runnable.end()) {
      redundant_ = true;
      throw StopRun{};
    }
    node.taken.agent = *first;
    path_.push_back(std::move(node));
    ++depth_;
    return *first;
  }

  bool redundant() const { return redundant_; }

 private:
  void inherit(const Node& parent, Node& node) const {
    node.preemptions = parent.preemptions_with(parent.taken.agent, agents_);
    for (const Transition& sleeper : parent.sleeping)
      if (independent(sleeper, parent.taken)) node.sleeping.push_back(sleeper);
  }

  std::vector<Node>& path_;
  size_t fixed_;
  uint32_t agents_;
  CoverageObserver& coverage_;
  size_t depth_ = 0;
  bool redundant_ = false;
  std::unordered_map<uint64_t, uint64_t> values_;
};

/// Finds the races of a finished path and marks where their other order is to be tried.
class RaceFinder {
 public:
  /// Races among the transitions before `known` have been marked by earlier runs.
  RaceFinder(std::vector<Node>& path, uint32_t agents, size_t known)
      : path_(path), agents_(agents), known_(known) {}

  void mark() {
    last_.assign(size_t{2} * agents_, kNone);
    clocks_.assign(path_.size() * 2 * agents_, 0);
    for (size_t j = 0; j < path_.size(); ++j) {
      uint32_t* clock = clock_of(j);
      const uint32_t agent = path_[j].taken.agent;
      if (last_[agent] != kNone) join(clock, last_[agent]);
      order(j, clock);
      clock[agent] = static_cast<uint32_t>(j) + 1;
      last_[agent] = j;
      for (const ObjectOperation& o : path_[j].taken.operations)
        objects_[o.object].push_back({j, o.operation});
    }
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Seen {
    size_t place;
    Operation operation;
  };
  struct Earlier {
    size_t place;
    Conflict conflict;
  };

  uint32_t* clock_of(size_t place) { return &clocks_[place * 2 * agents_]; }
  /// Whether transition `place` happens before what has `clock`.
  bool before(size_t place, const uint32_t* clock) const {
    return clock[path_[place].taken.agent] > place;
  }
  void join(uint32_t* clock, size_t place) {
    const uint32_t* other = clock_of(place);
    for (uint32_t a = 0; a < 2 * agents_; ++a) clock[a] = std::max(clock[a], other[a]);
  }

  /// Orders transition j behind everything it conflicts with, the latest first, so that what is
  /// already ordered through another is no race.
  void order(size_t j, uint32_t* clock) {
    std::vector<Earlier> earlier;
    for (const ObjectOperation& o : path_[j].taken.operations) {
      const auto found = objects_.find(o.object);
      if (found == objects_.end()) continue;
      for (const Seen& seen : found->second) {
        if (path_[seen.place].taken.agent == path_[j].taken.agent) continue;
        const Conflict conflict = conflict_of(seen.operation, o.operation);
        if (conflict != Conflict::None) earlier.push_back({seen.place, conflict});
      }
    }
    std::sort(earlier.begin(), earlier.end(), [](const Earlier& x, const Earlier& y) {
      return x.place != y.place ? x.place > y.place : x.conflict > y.conflict;
    });
    for (const Earlier& e : earlier) {
      if (before(e.place, clock)) continue;
      if (e.conflict == Conflict::Race && j >= known_) reverse(e.place, j);
      join(clock, e.place);
    }
  }

  /// Plans a run in which what transition i holds up, and then j, comes before i.
  void reverse(size_t i, size_t j) {
    Node& node = path_[i];
    std::vector<uint32_t> first_place(size_t{2} * agents_, UINT32_MAX);
    std::vector<uint32_t> initials;
    const auto consider = [&](size_t k, const uint32_t* clock) {
      const uint32_t agent = path_[k].taken.agent;
      if (first_place[agent] != UINT32_MAX) return;
      bool initial = true;
      for (uint32_t a = 0; a < 2 * agents_; ++a)
        initial &= first_place[a] == UINT32_MAX || clock[a] <= first_place[a];
      if (initial) initials.push_back(agent);
      first_place[agent] = static_cast<uint32_t>(k);
    };
    for (size_t k = i + 1; k < j; ++k)
      if (!before(i, clock_of(k))) consider(k, clock_of(k));
    consider(j, clock_of(j));
    for (const uint32_t agent : initials)
      if (agent == node.taken.agent || contains(node.to_explore, agent) || node.asleep(agent))
        return;
    for (const uint32_t agent : initials)
      if (node.enabled(agent)) {
        node.to_explore.push_back(agent);
        add_before_block(i, agent);
        return;
      }
    // Nobody who leads there can run at that point: try everybody.
    for (const uint32_t agent : node.runnable)
      if (agent != node.taken.agent && !node.asleep(agent) && !contains(node.to_explore, agent))
        node.to_explore.push_back(agent);
  }

  /// Under a preemption bound the same agent must also be tried where its rival was switched in,
  /// because there it costs no preemption.
  void add_before_block(size_t i, uint32_t agent) {
    while (i > 0 && path_[i].running == path_[i].taken.agent) --i;
    Node& node = path_[i];
    if (node.enabled(agent) && agent != node.taken.agent && !node.asleep(agent) &&
        !contains(node.to_explore, agent))
      node.to_explore.push_back(agent);
  }

  std::vector<Node>& path_;
  uint32_t agents_;
  size_t known_;
  std::vector<size_t> last_;
  std::vector<uint32_t> clocks_;
  std::unordered_map<uint64_t, std::vector<Seen>> objects_;
};

/// Goes back to the last choice with something left to try; false when there is none.
bool backtrack(std::vector<Node>& path, uint32_t agents, uint32_t bound, uint64_t& cut) {
  while (!path.empty()) {
    Node& node = path.back();
    node.sleeping.push_back(node.taken);
    while (!node.to_explore.empty()) {
      const uint32_t agent = node.to_explore.back();
      node.to_explore.pop_back();
      if (node.asleep(agent) || contains(node.cut, agent)) continue;
      if (node.preemptions_with(agent, agents) > bound) {
        node.cut.push_back(agent);
        ++cut;
        continue;
      }
      node.taken = {agent, {}};
      return true;
    }
    path.pop_back();
  }
  return false;
}

}  // namespace

ExhaustiveResult explore_exhaustively(const Case& c, const ExhaustiveOptions& options,
                                      const ScheduleVisitor& visit) {
  const PlanResult planned =
      make_plan(c.shape, c.kernel, options.run.unsafe_ring, options.run.math);
  MOETWIN_CHECK(!planned.error && c.launches.size() == 1);
  const uint32_t agents = c.shape.ranks * planned.plan.sms * agents_per_cta(planned.plan);
  RunOptions run = options.run;
  run.record = true;
  run.full_k_loop = true;
  ExhaustiveResult result;
  std::vector<Node> path;
  size_t fixed = 0;
  while (result.schedules + result.redundant < options.schedules) {
    CoverageObserver coverage(planned.plan, c.shape.ranks);
    PathRun path_run(path, fixed, agents, coverage);
    const RunResult ran = simulate_case(c, run, {&path_run, &path_run}, options.mutant);
    result.choices = std::max<uint64_t>(result.choices, path.size());
    RaceFinder(path, agents, fixed > 0 ? fixed - 1 : 0).mark();
    if (path_run.redundant()) {
      ++result.redundant;
    } else {
      ++result.schedules;
      if (!visit(ran, coverage)) return result;
    }
    if (!backtrack(path, agents, options.preemptions, result.cut)) {
      result.exhausted = true;
      return result;
    }
    fixed = path.size();
  }
  return result;
}

}  // namespace moetwin
