// Carrying knowledge of one access through the recorded synchronisation, as it was and changed.
#include "cpu_sim/race_explain.h"

#include <algorithm>
#include <bit>

namespace moetwin {
namespace {

/// How many of its own earlier operations an access is tried in front of.
constexpr size_t kEarlier = 8;

bool publishes(SyncKind kind) {
  return kind == SyncKind::Add || kind == SyncKind::NamedArrive || kind == SyncKind::Arrive ||
         kind == SyncKind::LeaderArrive || kind == SyncKind::Together;
}

}  // namespace

RaceExplainer::RaceExplainer(const RaceDetector& detector, const RaceSite& first, uint32_t epoch,
                             const RaceSite& second, RaceSpace space)
    : detector_(detector),
      topology_(detector.topology_),
      events_(detector.log_),
      first_(first),
      second_(second),
      space_bit_(space == RaceSpace::Shared ? 1 : 2),
      load_(is_load(first.kind)),
      needs_fence_(!is_async(first.kind) && is_async(second.kind)) {
  const auto own_event_from = [&](uint32_t from) {
    bool before = !detector_.log_.truncated();
    for (size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].agent != first_.agent || events_[i].kind == SyncKind::PhaseEnd) continue;
      if (events_[i].epoch >= from) return before ? i : kNever;
      before = true;
    }
    return events_.size();
  };
  if (is_async(first.kind)) {
    const RaceDetector::Operation& operation = detector.operations_[epoch];
    issued_ = own_event_from(operation.issued);
    epoch = detector.done_[epoch];
    barrier_ = operation.barrier;
    if (load_) {
      phases_ = epoch;
      start_ = issued_;
      return;
    }
    if (epoch == 0) return;
  }
  start_ = own_event_from(epoch);
}

RaceExplainer::Know RaceExplainer::publish(World& world, uint32_t agent, bool each_warp) const {
  Know know = world.agents[agent];
  if (agent != first_.agent || load_) return know;
  Own& own = world.own;
  const Who who = first_.who;
  if (each_warp && own.fenced) own.fence_warp = true;
  know.order |= each_warp || who.warps() == 1 || own.together;
  know.fence |= own.fenced && (each_warp || who.first_lane() ||
                               (who.warps() == 1 && own.fence_warp) || own.fence_agent);
  return know;
}

void RaceExplainer::apply_own(World& world, const SyncEvent& event, const Change& change) const {
  Own& own = world.own;
  const auto meet = [&own] {
    own.together = true;
    own.fence_warp |= own.fenced;
    own.fence_agent |= own.fenced;
  };
  if (event.step == change.step && publishes(event.kind)) {
    if (change.kind == Remedy::Kind::FenceBefore) own.fenced = true;
    if (change.kind == Remedy::Kind::Together) meet();
  }
  const bool covers = (event.detail & space_bit_) != 0;
  switch (event.kind) {
    case SyncKind::Fence:
      own.fenced |= covers;
      break;
    case SyncKind::LeaderFence:
      own.fenced |= covers && (first_.who.first_lane() || (change.step == event.step &&
                                                           change.kind == Remedy::Kind::EveryLane));
      break;
    case SyncKind::WarpTogether:
      own.fence_warp |= own.fenced;
      break;
    case SyncKind::Together:
      meet();
      break;
    default:
      break;
  }
}

void RaceExplainer::apply_word(World& world, const SyncEvent& event, const Change& change) const {
  const bool changed = change.step == event.step;
  const bool stronger = changed && change.kind == Remedy::Kind::Stronger;
  const bool wider = change.all_scopes || (changed && change.kind == Remedy::Kind::WiderScope);
  const Scope scope = wider ? Scope::Sys : event.scope;
  const bool wait = event.kind == SyncKind::Wait;
  if ((event.detail & 1) != 0 || (stronger && !wait)) {
    const Know know = publish(world, event.agent, false);
    if (know.order) world.released.push_back({event.object, event.agent, scope, know, event.step});
  }
  if ((event.detail & 2) == 0 && !(stronger && wait)) return;
  for (const Released& release : world.released)
    if (release.word == event.object &&
        scope_includes(topology_, release.scope, release.agent, event.agent) &&
        scope_includes(topology_, scope, event.agent, release.agent))
      world.agents[event.agent].join(release.know);
}

void RaceExplainer::start_launch(World& world, uint32_t rank) const {
  Know all;
  for (uint32_t agent = 0; agent < world.agents.size(); ++agent)
    if (topology_.rank_of(agent) == rank) all.join(world.agents[agent]);
  if (topology_.rank_of(first_.agent) == rank) all = {true, true};
  for (uint32_t agent = 0; agent < world.agents.size(); ++agent)
    if (topology_.rank_of(agent) == rank) world.agents[agent].join(all);
}

void RaceExplainer::apply(World& world, const SyncEvent& event, const Change& change) const {
  if (event.agent == first_.agent && event.kind != SyncKind::PhaseEnd && !load_)
    apply_own(world, event, change);
  const uint32_t agent = event.agent;
  switch (event.kind) {
    case SyncKind::Add:
    case SyncKind::Wait:
      return apply_word(world, event, change);
    case SyncKind::PlainStore:
      std::erase_if(world.released, [&](const Released& r) { return r.word == event.object; });
      return;
    case SyncKind::NamedArrive:
      return world.named[event.object].join(publish(world, agent, true));
    case SyncKind::NamedLeave:
      return world.agents[agent].join(world.named[event.object]);
    case SyncKind::NamedEnd:
      world.named[event.object] = {};
      return;
    case SyncKind::Arrive:
    case SyncKind::LeaderArrive: {
      const Know know = publish(world, agent, event.kind == SyncKind::Arrive);
      if (know.order) world.arrived[event.object] = event.step;
      return world.pending[event.object].join(know);
    }
    case SyncKind::PhaseEnd:
      world.complete[event.object] = world.pending[event.object];
      world.pending[event.object] = {};
      if (load_ && event.object == barrier_ && phases_ != 0 && event.epoch >= phases_)
        world.complete[event.object] = {true, true};
      return;
    case SyncKind::PhaseSeen:
      return world.agents[agent].join(world.complete[event.object]);
    case SyncKind::LaunchStart:
      return start_launch(world, event.object);
    default:
      return;
  }
}

RaceExplainer::World RaceExplainer::run(const Change& change) const {
  World world;
  world.agents.resize(topology_.num_agents() + topology_.ranks);
  world.named.resize(size_t{topology_.num_ctas()} * topology_.named_barriers);
  world.pending.resize(size_t{topology_.num_ctas()} * topology_.mbarriers);
  world.complete.resize(world.pending.size());
  world.arrived.resize(world.pending.size(), Step::None);
  const size_t start = change.start != kNever ? change.start : start_;
  for (size_t i = start; i < events_.size(); ++i) apply(world, events_[i], change);
  return world;
}

bool RaceExplainer::ordered(const World& world) const {
  if (world.agents[second_.agent].order) return true;
  if (second_.agent != first_.agent || load_) return false;
  const uint32_t warps = first_.who.warps();
  return world.own.together || (warps == second_.who.warps() && std::has_single_bit(warps));
}

bool RaceExplainer::fenced(const World& world) const {
  if (!needs_fence_ || world.agents[second_.agent].fence) return true;
  if (second_.agent != first_.agent) return false;
  const Own& own = world.own;
  return own.fenced && (first_.who.first_lane() || (first_.who.warps() == 1 && own.fence_warp) ||
                        own.fence_agent);
}

bool RaceExplainer::ordered() const {
  if (start_ == kNever) return false;
  const World world = run({});
  return ordered(world) && fenced(world);
}

bool RaceExplainer::ordered_by_wider_scopes() const {
  if (start_ == kNever || (load_ && phases_ == 0)) return false;
  Change change;
  change.all_scopes = true;
  return ordered(run(change));
}

bool RaceExplainer::tried(const Change& change, bool unfenced) const {
  const World world = run(change);
  return ordered(world) && (!unfenced || fenced(world));
}

std::vector<Step> RaceExplainer::steps_of(SyncKind a, SyncKind b) const {
  std::vector<Step> steps;
  for (size_t i = std::min(start_, events_.size()); i < events_.size(); ++i)
    if ((events_[i].kind == a || events_[i].kind == b) &&
        std::find(steps.begin(), steps.end(), events_[i].step) == steps.end())
      steps.push_back(events_[i].step);
  return steps;
}

std::vector<size_t> RaceExplainer::publications(size_t from) const {
  std::vector<size_t> found;
  for (size_t i = from; i < events_.size(); ++i)
    if (events_[i].agent == first_.agent && publishes(events_[i].kind)) found.push_back(i);
  return found;
}

Remedy RaceExplainer::second_waits() const {
  const World world = run({});
  for (uint32_t i = 0; i < topology_.mbarriers; ++i) {
    if (topology_.is_host(second_.agent)) break;
    const uint32_t object = topology_.cta_of(second_.agent) * topology_.mbarriers + i;
    const bool of_load = load_ && object == barrier_;
    if (of_load || world.complete[object].order || world.pending[object].order)
      return {Remedy::Kind::SecondWaits, world.arrived[object], Step::None, i};
  }
  for (const Released& release : world.released)
    if (scope_includes(topology_, release.scope, release.agent, second_.agent))
      return {Remedy::Kind::SecondAcquires, release.step, Step::None, 0};
  return {};
}

Remedy RaceExplainer::order_remedy() const {
  if (is_atomic(first_.kind) && is_atomic(second_.kind)) {
    const bool first_reaches = scope_includes(topology_, first_.scope, first_.agent, second_.agent);
    return {Remedy::Kind::WiderScope, first_reaches ? second_.step : first_.step, Step::None, 0};
  }
  for (const auto kind : {Remedy::Kind::WiderScope, Remedy::Kind::Stronger}) {
    for (const Step step : steps_of(SyncKind::Add, SyncKind::Wait)) {
      Change change;
      change.kind = kind;
      change.step = step;
      if (tried(change, false)) return {kind, step, Step::None, 0};
    }
  }
  if (load_) return second_waits();
  if (second_.agent == first_.agent && !is_async(first_.kind))
    return {Remedy::Kind::Together, second_.step, Step::None, 0};
  if (is_async(first_.kind)) {
    for (const size_t event : publications(issued_)) {
      Change change;
      change.start = event;
      if (tried(change, false)) return {Remedy::Kind::FirstWaits, events_[event].step, {}, 0};
    }
    if (second_.agent == first_.agent) return {Remedy::Kind::FirstWaits, second_.step, {}, 0};
  }
  if (start_ == kNever) return {};
  for (const size_t event : publications(start_)) {
    Change change;
    change.kind = Remedy::Kind::Together;
    change.step = events_[event].step;
    if (tried(change, false)) return {Remedy::Kind::Together, change.step, Step::None, 0};
  }
  const Remedy waits = second_waits();
  if (waits.kind != Remedy::Kind::None) return waits;
  std::vector<size_t> earlier = publications(0);
  std::erase_if(earlier, [this](size_t event) { return event >= start_; });
  for (size_t i = 0; i < kEarlier && i < earlier.size(); ++i) {
    Change change;
    change.start = earlier[earlier.size() - 1 - i];
    if (tried(change, false))
      return {Remedy::Kind::AccessEarlier, events_[change.start].step, Step::None, 0};
  }
  return {};
}

Remedy RaceExplainer::fence_remedy() const {
  for (const Step step : steps_of(SyncKind::LeaderFence, SyncKind::LeaderFence)) {
    Change change;
    change.kind = Remedy::Kind::EveryLane;
    change.step = step;
    if (tried(change, true)) return {change.kind, step, Step::None, 0};
  }
  const std::vector<size_t> places = publications(start_);
  for (size_t i = places.size(); i-- > 0;) {
    Change change;
    change.kind = Remedy::Kind::FenceBefore;
    change.step = events_[places[i]].step;
    if (!tried(change, true)) continue;
    // A fence that the agent did execute, but too late.
    const size_t next = i + 1 < places.size() ? places[i + 1] : events_.size();
    for (size_t late = places[i] + 1; late < next; ++late)
      if (events_[late].agent == first_.agent && events_[late].kind == SyncKind::Fence &&
          (events_[late].detail & space_bit_) != 0)
        return {Remedy::Kind::FenceEarlier, events_[late].step, change.step, 0};
    return {change.kind, change.step, Step::None, 0};
  }
  for (size_t i = places.size(); i-- > 0;) {
    Change change;
    change.kind = Remedy::Kind::Together;
    change.step = events_[places[i]].step;
    if (tried(change, true)) return {change.kind, change.step, Step::None, 0};
  }
  if (second_.agent == first_.agent)
    return {Remedy::Kind::FenceBefore, second_.step, Step::None, 0};
  return {};
}

Remedy RaceExplainer::remedy(bool unfenced) const {
  if (unfenced) return start_ == kNever ? Remedy{} : fence_remedy();
  return order_remedy();
}

}  // namespace moetwin
