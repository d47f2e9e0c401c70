// Synchronisation as the race checker sees it: what each operation makes known to whom.
#include <algorithm>

#include "common/check.h"
#include "cpu_sim/race_detector.h"

namespace moetwin {
namespace {

constexpr uint8_t kReleases = 1;
constexpr uint8_t kAcquires = 2;

void raise(uint32_t& place, uint32_t epoch) { place = std::max(place, epoch); }

}  // namespace

void RaceDetector::log(SyncKind kind, uint32_t agent, uint32_t object, Step step, Scope scope,
                       uint8_t detail) {
  log_.add({agent, object, agents_[agent].epoch, kind, step, scope, detail});
}

void RaceDetector::publish(VectorClock& to, uint32_t agent, bool each_warp) {
  AgentState& state = agents_[agent];
  if (each_warp) warps_together(agent);
  to.join(state.known);
  uint32_t* const mine = to.writable(state.row) + state.place;
  raise(mine[kOrderWarp], state.epoch);
  raise(mine[kOrderAgent], each_warp ? state.epoch : state.together);
  for (uint32_t space = 0; space < 2; ++space) {
    const Fences& fences = state.fences[space];
    uint32_t* const fenced = mine + kFences + kFencePlaces * space;
    raise(fenced[kFenceLane], fences.first_lane);
    raise(fenced[kFenceWarp], fences.warp);
    raise(fenced[kFenceAgent], each_warp ? fences.all_lanes : fences.agent);
  }
  next_epoch(state);
}

void RaceDetector::fence(uint32_t agent, FenceSpace space, bool first_lane_only, Step step) {
  AgentState& state = agents_[agent];
  const bool shared = space != FenceSpace::Global;
  const bool global = space != FenceSpace::Shared;
  log(first_lane_only ? SyncKind::LeaderFence : SyncKind::Fence, agent, 0, step, Scope::Cta,
      static_cast<uint8_t>((shared ? 1 : 0) | (global ? 2 : 0)));
  for (uint32_t s = 0; s < 2; ++s) {
    if (s == 0 ? !shared : !global) continue;
    state.fences[s].first_lane = state.epoch;
    if (!first_lane_only) state.fences[s].all_lanes = state.epoch;
  }
  next_epoch(state);
}

void RaceDetector::warps_together(uint32_t agent) {
  AgentState& state = agents_[agent];
  if (state.fences[0].warp == state.fences[0].all_lanes &&
      state.fences[1].warp == state.fences[1].all_lanes)
    return;
  log(SyncKind::WarpTogether, agent, 0, Step::None);
  for (Fences& fences : state.fences) fences.warp = fences.all_lanes;
}

void RaceDetector::agent_together(uint32_t agent, Step step) {
  AgentState& state = agents_[agent];
  log(SyncKind::Together, agent, 0, step);
  state.together = state.epoch;
  for (Fences& fences : state.fences) fences.warp = fences.agent = fences.all_lanes;
  next_epoch(state);
}

void RaceDetector::named_arrive(uint32_t agent, uint32_t barrier, Step step) {
  const uint32_t object = topology_.cta_of(agent) * topology_.named_barriers + barrier;
  log(SyncKind::NamedArrive, agent, object, step);
  publish(named_[object], agent, true);
}

void RaceDetector::named_complete(uint32_t cta, uint32_t barrier, uint32_t leaving, Step step) {
  const uint32_t object = cta * topology_.named_barriers + barrier;
  const uint32_t first = cta * topology_.agents_per_cta();
  for (uint32_t i = 0; i < topology_.agents_per_cta(); ++i) {
    if ((leaving >> i & 1) == 0) continue;
    log(SyncKind::NamedLeave, first + i, object, step);
    agents_[first + i].known.join(named_[object]);
    agent_together(first + i, step);
  }
  log(SyncKind::NamedEnd, first, object, step);
  named_[object].forget();
}

void RaceDetector::mbarrier_init(uint32_t agent, uint32_t number, Step step) {
  access({agent, AccessKind::Write, kFirstLane, step}, mbarrier_bytes(agent, number));
}

void RaceDetector::mbarrier_arrive(uint32_t agent, uint32_t number, bool each_warp, Step step) {
  const uint32_t object = topology_.cta_of(agent) * topology_.mbarriers + number;
  const Who who =
      each_warp ? all_warps(topology_.warps[agent % topology_.agents_per_cta()]) : kFirstLane;
  use_barrier({agent, AccessKind::AtomicAdd, who, step, Scope::Cta}, number);
  log(each_warp ? SyncKind::Arrive : SyncKind::LeaderArrive, agent, object, step);
  publish(barriers_[object].pending, agent, each_warp);
}

void RaceDetector::mbarrier_phase(uint32_t cta, uint32_t number) {
  const uint32_t object = cta * topology_.mbarriers + number;
  Barrier& barrier = barriers_[object];
  ++barrier.phases;
  log_.add({cta * topology_.agents_per_cta(), object, barrier.phases, SyncKind::PhaseEnd,
            Step::None, Scope::Cta, 0});
  barrier.complete.swap(barrier.pending);
  barrier.pending.forget();
  barrier.complete.raise(cta, kAgentPlaces * topology_.agents_per_cta() + number, barrier.phases);
}

void RaceDetector::mbarrier_seen(uint32_t agent, uint32_t number, Step step) {
  const uint32_t object = topology_.cta_of(agent) * topology_.mbarriers + number;
  const Who who = all_warps(topology_.warps[agent % topology_.agents_per_cta()]);
  use_barrier({agent, AccessKind::AtomicRead, who, step, Scope::Cta}, number);
  log(SyncKind::PhaseSeen, agent, object, step);
  agents_[agent].known.join(barriers_[object].complete);
}

RaceDetector::Word& RaceDetector::word_of(const RaceRange& range, uint32_t& number) {
  const uint64_t key = static_cast<uint64_t>(range.space) << 63 | uint64_t{range.owner} << 46 |
                       uint64_t{range.region} << 40 | range.offset;
  const auto [place, made] =
      word_numbers_.try_emplace(key, static_cast<uint32_t>(word_numbers_.size()));
  if (made) words_.emplace_back();
  number = place->second;
  return words_[number];
}

void RaceDetector::atomic_add(uint32_t agent, Who who, Order order, Scope scope, Step step,
                              const RaceRange& range) {
  touch({agent, AccessKind::AtomicAdd, who, step, scope}, agents_[agent].epoch, range);
  if (order == Order::Relaxed && range.space == RaceSpace::Shared) return;
  uint32_t number = 0;
  Word& word = word_of(range, number);
  const bool releases = order == Order::Release;
  const bool acquires = order == Order::Acquire;
  log(SyncKind::Add, agent, number, step, scope,
      static_cast<uint8_t>((releases ? kReleases : 0) | (acquires ? kAcquires : 0)));
  if (acquires) acquire(agent, word, scope);
  if (!releases) return;
  ++word.version;
  // One clock for each group of releasers that the same acquirers include.
  const auto same_group = [&](const Release& release) {
    if (release.scope != scope) return false;
    if (scope == Scope::Cta) return topology_.cta_of(release.agent) == topology_.cta_of(agent);
    return topology_.rank_of(release.agent) == topology_.rank_of(agent);
  };
  auto group = std::find_if(word.releases.begin(), word.releases.end(), same_group);
  if (group == word.releases.end()) {
    word.releases.push_back({scope, agent, true, VectorClock(space_)});
    group = word.releases.end() - 1;
  }
  group->one_cta &= topology_.cta_of(group->agent) == topology_.cta_of(agent);
  publish(group->clock, agent, false);
}

void RaceDetector::acquire(uint32_t agent, const Word& word, Scope scope) {
  AgentState& state = agents_[agent];
  if (state.acquired == &word && state.acquired_version == word.version &&
      state.acquired_scope == scope)
    return;
  state.acquired = &word;
  state.acquired_version = word.version;
  state.acquired_scope = scope;
  for (const Release& release : word.releases) {
    if (!scope_includes(topology_, release.scope, release.agent, agent)) continue;
    if (!scope_includes(topology_, scope, agent, release.agent)) continue;
    if (scope == Scope::Cta && !release.one_cta) continue;
    state.known.join(release.clock);
  }
}

void RaceDetector::word_wait(uint32_t agent, Who who, Order order, Scope scope, Step step,
                             const RaceRange& range) {
  touch({agent, AccessKind::AtomicRead, who, step, scope}, agents_[agent].epoch, range);
  uint32_t number = 0;
  const Word& word = word_of(range, number);
  const bool acquires = order != Order::Relaxed;
  log(SyncKind::Wait, agent, number, step, scope, acquires ? kAcquires : 0);
  if (acquires) acquire(agent, word, scope);
}

void RaceDetector::end_chain(const RaceSite& site, const RaceRange& range) {
  uint32_t number = 0;
  Word& word = word_of(range, number);
  word.releases.clear();
  ++word.version;
  log(SyncKind::PlainStore, site.agent, number, site.step);
}

std::vector<uint32_t> RaceDetector::agents_of_rank(uint32_t rank) const {
  const uint32_t count = topology_.sms * topology_.agents_per_cta();
  std::vector<uint32_t> agents{topology_.host_of(rank)};
  for (uint32_t i = 0; i < count; ++i) agents.push_back(rank * count + i);
  return agents;
}

VectorClock RaceDetector::knowledge_of_rank(uint32_t rank) {
  VectorClock all(space_);
  for (const uint32_t agent : agents_of_rank(rank)) {
    const AgentState& state = agents_[agent];
    all.join(state.known);
    // The host's own epoch is the one in which it is about to write the launch's inputs.
    const uint32_t epoch = topology_.is_host(agent) ? state.epoch + 1 : state.epoch;
    std::fill_n(all.writable(state.row) + state.place, kAgentPlaces, epoch);
  }
  return all;
}

void RaceDetector::start_launch(uint32_t rank) {
  const std::vector<uint32_t> members = agents_of_rank(rank);
  log(SyncKind::LaunchStart, topology_.host_of(rank), rank, Step::None);
  VectorClock all = knowledge_of_rank(rank);
  for (const uint32_t agent : members) {
    AgentState& state = agents_[agent];
    for (const OpenStore& store : state.stores)
      for (const uint32_t end : {store.operation, store.operation + 1})
        if (done_[end] == 0) done_[end] = state.epoch;
    state.stores.clear();
    state.together = state.epoch;
    for (Fences& fences : state.fences)
      fences = {state.epoch, state.epoch, state.epoch, state.epoch};
    next_epoch(state);
    ++state.launch;
    state.launched = state.epoch;
  }
  for (uint32_t cta = rank * topology_.sms; cta < (rank + 1) * topology_.sms; ++cta) {
    for (uint32_t number = 0; number < topology_.mbarriers; ++number) {
      Barrier& barrier = barriers_[cta * topology_.mbarriers + number];
      ++barrier.phases;
      all.raise(cta, kAgentPlaces * topology_.agents_per_cta() + number, barrier.phases);
      barrier.pending.clear();
      barrier.complete.clear();
      barrier.loaders = 0;
    }
    for (uint32_t number = 0; number < topology_.named_barriers; ++number)
      named_[cta * topology_.named_barriers + number].clear();
    const size_t uses = size_t{topology_.mbarriers} * topology_.agents_per_cta() * 2;
    std::fill_n(uses_.begin() + static_cast<ptrdiff_t>(cta * uses), uses, BarrierUse{});
    used_[cta] = false;
    const size_t pieces = topology_.shared.size();
    for (size_t piece = 0; piece < pieces; ++piece) shared_[cta * pieces + piece].clear(pool_);
  }
  for (const uint32_t agent : members) agents_[agent].known.join(all);
}

void RaceDetector::end_launch(uint32_t rank) {
  const uint32_t host = topology_.host_of(rank);
  agents_[host].known.join(knowledge_of_rank(rank));
  const RaceSite site{host, AccessKind::Write, kFirstLane, Step::None};
  const Touch leaving = begin_touch(site, agents_[host].epoch, RaceSpace::Global, 0);
  for (uint32_t region = 0; region < topology_.regions.size(); ++region) {
    ShadowArea& shadow = region_area(rank, region);
    shadow.for_each_touched([&](const ShadowPlace& place) {
      const auto leaves = [&](const Record& record) {
        const uint32_t row = sources_.source_agent(record.source).clock.row;
        if (row - rank * topology_.sms < topology_.sms || row == agents_[host].row) return;
        if (plainly_ordered(leaving, record.epoch, record.source)) return;
        const RaceSite source = sources_.site_of(record.source);
        const AgentState& other = agents_[source.agent];
        const uint32_t epoch =
            is_async(source.kind) ? operations_[record.epoch].issued : record.epoch;
        // A peer may be ahead by one launch, whose writes this rank's next launch waits for.
        if (other.launch > agents_[host].launch && epoch >= other.launched) return;
        const Relation relation = relation_of(record.epoch, record.source, site, RaceSpace::Global);
        if (relation == Relation::Ordered) return;
        const auto unit = static_cast<uint32_t>(std::countr_zero(record.mask));
        found(relation, record, site,
              {RaceSpace::Global, rank, region, shadow.byte_of(place.number, unit)});
      };
      for (const Record& record : *place.granule) leaves(record);
      if (place.writes == nullptr) return;
      UnitWrite checked;
      for (uint32_t unit = 0; unit < shadow.units(); ++unit) {
        const UnitWrite write = place.writes[unit];
        if (write.source != 0 && write != checked)
          leaves({uint64_t{1} << unit, write.epoch, write.source});
        checked = write;
      }
    });
  }
}

}  // namespace moetwin
