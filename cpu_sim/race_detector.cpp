// What is known of what: whether clocks order two accesses, and what asynchronous operations do.
#include "cpu_sim/race_detector.h"

#include <algorithm>

#include "common/check.h"
#include "cpu_sim/race_explain.h"

namespace moetwin {
namespace {

constexpr uint32_t kMaxEpoch = 0x7FFFFFFF;  // clocks compare signed

std::vector<SourceAgent> source_agents(const RaceTopology& topology) {
  std::vector<SourceAgent> places;
  for (uint32_t agent = 0; agent < topology.num_agents() + topology.ranks; ++agent) {
    const uint32_t in_cta = topology.is_host(agent) ? 0 : agent % topology.agents_per_cta();
    places.push_back({{static_cast<uint16_t>(topology.cta_of(agent)),
                       static_cast<uint16_t>(in_cta * kAgentPlaces)},
                      topology.rank_of(agent)});
  }
  return places;
}

}  // namespace

bool scope_includes(const RaceTopology& t, Scope scope, uint32_t agent, uint32_t other) {
  if (scope == Scope::Sys) return true;
  if (scope == Scope::Gpu) return t.rank_of(agent) == t.rank_of(other);
  return t.cta_of(agent) == t.cta_of(other);
}

RaceDetector::RaceDetector(RaceTopology topology, Sink sink)
    : topology_(std::move(topology)),
      sink_(std::move(sink)),
      space_(topology_.num_ctas() + topology_.ranks,
             kAgentPlaces * topology_.agents_per_cta() + topology_.mbarriers),
      sources_(source_agents(topology_)) {
  const uint32_t ctas = topology_.num_ctas();
  for (const SourceAgent& place : source_agents(topology_)) {
    agents_.emplace_back(space_, place.clock.row);
    agents_.back().place = place.clock.place;
  }
  for (uint32_t i = 0; i < ctas * topology_.mbarriers; ++i)
    barriers_.emplace_back(space_, i / topology_.mbarriers);
  uses_.resize(size_t{ctas} * topology_.agents_per_cta() * 2 * topology_.mbarriers);
  used_.resize(ctas);
  for (uint32_t i = 0; i < ctas * topology_.named_barriers; ++i)
    named_.emplace_back(space_, i / topology_.named_barriers);
  operations_.emplace_back();
  done_.emplace_back();
  const auto add_areas = [](std::vector<ShadowArea>& areas, const std::vector<RacePiece>& pieces) {
    for (const RacePiece& piece : pieces) areas.emplace_back(piece.bytes, piece.shape);
  };
  MOETWIN_CHECK(!topology_.shared.empty() && topology_.shared[0].begin == 0);
  for (const RacePiece& piece : topology_.shared) piece_begins_.push_back(piece.begin);
  for (uint32_t cta = 0; cta < ctas; ++cta) add_areas(shared_, topology_.shared);
  for (uint32_t rank = 0; rank < topology_.ranks; ++rank) add_areas(regions_, topology_.regions);
}

RaceDetector::Relation RaceDetector::relation_of(uint32_t epoch, uint32_t source,
                                                 const RaceSite& second, RaceSpace space) const {
  const RaceSite first = sources_.site_of(source);
  const bool first_async = is_async(first.kind);
  if (first_async) {
    epoch = done_[epoch];
    if (epoch == 0) return Relation::Unordered;
  }
  const bool own = first.agent == second.agent && !is_load(first.kind);
  const ClockPlace clock = sources_.clock_of(source);
  const bool ordered = own ? knows_own(second, first.who, epoch)
                           : agents_[second.agent].known.at(clock.row, clock.place) >= epoch;
  if (!ordered) return Relation::Unordered;
  const bool crosses = is_async(second.kind) && !first_async;
  if (!crosses || knows_fence(second, first.agent, first.who, epoch, space))
    return Relation::Ordered;
  return Relation::Unfenced;
}

/// Whether an access of the site's own agent is ordered before it without others: by its threads'
/// program, or by a meeting of its warps.
bool RaceDetector::knows_own(const RaceSite& site, Who whose, uint32_t epoch) const {
  const AgentState& state = agents_[site.agent];
  if (whose.warps() == site.who.warps() && whose.one_warp()) return true;
  return epoch <= state.together || epoch <= state.known.at(state.row, state.place + kOrderAgent);
}

bool RaceDetector::knows_fence(const RaceSite& site, uint32_t agent, Who whose, uint32_t epoch,
                               RaceSpace space) const {
  const AgentState& state = agents_[site.agent];
  const AgentState& of = agents_[agent];
  if (site.agent == agent) {
    const Fences& fences = state.fences[static_cast<size_t>(space)];
    const uint32_t fenced = whose.first_lane()   ? fences.first_lane
                            : whose.first_warp() ? fences.warp
                                                 : fences.agent;
    if (epoch <= fenced) return true;
  }
  return epoch <= state.known.at(of.row, of.place + fence_place(whose, space));
}

void RaceDetector::found(Relation relation, const Record& record, const RaceSite& second,
                         const RaceRange& place) {
  const RaceSite first = sources_.site_of(record.source);
  const uint64_t key = static_cast<uint64_t>(relation) << 32 |
                       static_cast<uint64_t>(first.kind) << 24 |
                       static_cast<uint64_t>(second.kind) << 16 |
                       static_cast<uint64_t>(first.step) << 8 | static_cast<uint64_t>(second.step);
  if (!found_.insert(key).second) return;
  RaceFinding finding;
  finding.first = first;
  finding.second = second;
  finding.place = place;
  finding.pending = is_async(first.kind) && done_[record.epoch] == 0;
  if (topology_.is_host(second.agent)) {
    // Nothing that the host could do would order them: the launch ends when it does.
    finding.leaving = true;
    return sink_(finding);
  }
  const RaceExplainer explainer(*this, finding.first, record.epoch, second, place.space);
  if (relation == Relation::Unfenced)
    finding.kind = FindingClass::Proxy;
  else if ((is_atomic(first.kind) && is_atomic(second.kind)) || explainer.ordered_by_wider_scopes())
    finding.kind = FindingClass::Scope;
  finding.remedy = explainer.remedy(relation == Relation::Unfenced);
  sink_(finding);
}

uint32_t RaceDetector::new_operation(uint32_t agent, uint32_t barrier) {
  operations_.push_back({barrier, agents_[agent].epoch});
  done_.push_back(0);
  return static_cast<uint32_t>(operations_.size() - 1);
}

uint32_t RaceDetector::load(uint32_t agent, Step step, const RaceRange* from, const RaceRange& to,
                            uint32_t barrier) {
  const uint32_t operation =
      new_operation(agent, topology_.cta_of(agent) * topology_.mbarriers + barrier);
  check_initialised({agent, AccessKind::LoadRead, kFirstLane, step}, barrier);
  if (from != nullptr)
    touch({agent, AccessKind::LoadRead, kFirstLane, step}, operation, *from, barrier);
  touch({agent, AccessKind::LoadWrite, kFirstLane, step}, operation, to, barrier);
  return operation;
}

void RaceDetector::landed(uint32_t operation) {
  done_[operation] = barriers_[operations_[operation].barrier].phases + 1;
}

void RaceDetector::store(uint32_t agent, Step step, const RaceRange& from, const RaceRange& to) {
  const uint32_t operation = new_operation(agent, 0);
  new_operation(agent, 0);
  touch({agent, AccessKind::StoreRead, kFirstLane, step}, operation, from);
  touch({agent, AccessKind::StoreWrite, kFirstLane, step}, operation + 1, to);
  agents_[agent].stores.push_back({operation, false});
}

void RaceDetector::commit(uint32_t agent) {
  for (OpenStore& store : agents_[agent].stores) store.committed = true;
}

void RaceDetector::stores_waited(uint32_t agent, BulkDone done) {
  AgentState& state = agents_[agent];
  for (const OpenStore& store : state.stores) {
    if (!store.committed) continue;
    if (done_[store.operation] == 0) done_[store.operation] = state.epoch;
    if (done == BulkDone::Written) done_[store.operation + 1] = state.epoch;
  }
  if (done == BulkDone::Written)
    std::erase_if(state.stores, [](const OpenStore& store) { return store.committed; });
}

uint32_t RaceDetector::mma(uint32_t agent, Step step, const RaceRange& a, const RaceRange& b) {
  const uint32_t operation = new_operation(agent, 0);
  const Who who = all_warps(topology_.warps[agent % topology_.agents_per_cta()]);
  touch({agent, AccessKind::MmaRead, who, step}, operation, a);
  touch({agent, AccessKind::MmaRead, who, step}, operation, b);
  return operation;
}

void RaceDetector::retired(uint32_t operation, uint32_t agent) {
  done_[operation] = agents_[agent].epoch;
}

void RaceDetector::next_epoch(AgentState& state) {
  MOETWIN_CHECK(state.epoch < kMaxEpoch);
  ++state.epoch;
}

}  // namespace moetwin
