// Accesses: which records of the shadow they conflict with, and whether clocks order the two.
#include "cpu_sim/race_detector.h"

#include <algorithm>

#include "common/check.h"
#include "cpu_sim/race_explain.h"
#include "cpu_sim/race_places.h"

namespace moetwin {
namespace {

constexpr uint32_t kMaxEpoch = 0x7FFFFFFF;  // clocks compare signed

/// Place of an order in an agent's part of a clock's row.
uint32_t order_place(Who who) { return who.first_warp() ? kOrderWarp : kOrderAgent; }

uint32_t fence_place(Who who, RaceSpace space) {
  const uint32_t first = kFences + kFencePlaces * static_cast<uint32_t>(space);
  if (who.first_lane()) return first + kFenceLane;
  return first + (who.first_warp() ? kFenceWarp : kFenceAgent);
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
             kAgentPlaces * topology_.agents_per_cta() + topology_.mbarriers) {
  const uint32_t ctas = topology_.num_ctas();
  for (uint32_t i = 0; i < topology_.num_agents() + topology_.ranks; ++i) {
    AgentState& agent = agents_.emplace_back(space_);
    agent.row = topology_.cta_of(i);
    agent.place = topology_.is_host(i) ? 0 : i % topology_.agents_per_cta() * kAgentPlaces;
  }
  for (uint32_t i = 0; i < ctas * topology_.mbarriers; ++i) barriers_.emplace_back(space_);
  uses_.resize(size_t{ctas} * topology_.mbarriers * topology_.agents_per_cta() * 2);
  used_.resize(ctas);
  for (uint32_t i = 0; i < ctas * topology_.named_barriers; ++i) named_.emplace_back(space_);
  operations_.emplace_back();
  done_.push_back(0);
  const auto areas = [](const std::vector<RacePiece>& pieces) {
    std::vector<ShadowArea> made;
    for (const RacePiece& piece : pieces) made.emplace_back(piece.bytes, piece.shape);
    return made;
  };
  for (uint32_t cta = 0; cta < ctas; ++cta) shared_.push_back(areas(topology_.shared));
  for (uint32_t rank = 0; rank < topology_.ranks; ++rank)
    regions_.push_back(areas(topology_.regions));
}

ShadowArea& RaceDetector::area(const RaceRange& range, uint64_t& offset) {
  offset = range.offset;
  if (range.space == RaceSpace::Global) return regions_[range.owner][range.region];
  const auto& pieces = topology_.shared;
  const auto after =
      std::upper_bound(pieces.begin(), pieces.end(), range.offset,
                       [](uint64_t byte, const RacePiece& piece) { return byte < piece.begin; });
  MOETWIN_CHECK(after != pieces.begin());
  const auto piece = static_cast<size_t>(after - pieces.begin() - 1);
  offset -= pieces[piece].begin;
  return shared_[range.owner][piece];
}

uint16_t RaceDetector::clock_place(const RaceSite& site, uint32_t epoch) const {
  if (is_load(site.kind))
    return static_cast<uint16_t>(kAgentPlaces * topology_.agents_per_cta() +
                                 operations_[epoch].barrier % topology_.mbarriers);
  return static_cast<uint16_t>(agents_[site.agent].place + order_place(site.who));
}

void RaceDetector::touch(const RaceSite& site, uint32_t epoch, const RaceRange& range) {
  if (touches_barriers(range) && !is_atomic(site.kind)) settle_barrier_uses(range.owner);
  uint64_t offset = 0;
  ShadowArea& shadow = area(range, offset);
  const Touch touch{site,
                    range,
                    shadow,
                    range.offset - offset,
                    Record::source_of(site.kind, site.who, site.scope),
                    {0, epoch, site.agent, site.kind, site.who, site.scope, site.step,
                     static_cast<uint16_t>(agents_[site.agent].row), clock_place(site, epoch)},
                    writes(site.kind),
                    is_atomic(site.kind)};
  shadow.for_each(offset, range.row_bytes, range.rows, range.pitch,
                  [&](Granule& granule, uint64_t mask, uint64_t number) {
                    touch_granule(touch, granule, mask, number);
                  });
}

/// A read of bytes that its source has read before. No write has come between, or it would have
/// replaced that read, and what was ordered before it still is: `known` says so. True if the
/// earlier record could be renewed and nothing is left to do.
bool RaceDetector::read_again(const Touch& touch, Granule& granule, uint64_t mask,
                              bool& known) const {
  for (Record& record : granule) {
    if (record.agent != touch.record.agent || record.source() != touch.source ||
        (record.mask & mask) != mask || record.step != touch.record.step)
      continue;
    known = true;
    if (record.place != touch.record.place) continue;
    if (record.mask != mask && record.epoch != touch.record.epoch) return false;
    record.epoch = touch.record.epoch;
    return true;
  }
  return false;
}

void RaceDetector::touch_granule(const Touch& touch, Granule& granule, uint64_t mask,
                                 uint64_t number) {
  const Record& mine = touch.record;
  bool known = false;
  if (!touch.write && read_again(touch, granule, mask, known)) return;
  Record* same = nullptr;
  for (Record* record = granule.begin(); record != granule.end();) {
    const uint64_t common = record->mask & mask;
    const bool from_same = record->agent == mine.agent && record->source() == touch.source;
    if (common == 0) {
      if (from_same && record->epoch == mine.epoch && record->step == mine.step) same = record;
      ++record;
      continue;
    }
    const bool both_atomic = touch.atomic && is_atomic(record->kind);
    if (!known && (touch.write || writes(record->kind)) &&
        (!both_atomic || atomics_conflict(*record, touch.site))) {
      const Relation relation = relation_of(*record, touch.site, touch.range.space);
      if (relation != Relation::Ordered) [[unlikely]]
        found_at(relation, *record, touch, number, common);
    }
    // Whoever is ordered behind the new access is ordered behind what it replaces. Adds stand
    // beside each other; so do loads on different mbarriers.
    const bool newer = from_same && record->place == mine.place;
    const bool over = touch.write && !both_atomic;
    chain_ended_ |= over && record->kind == AccessKind::AtomicAdd;
    if (newer || over) record->mask &= ~mask;
    if (record->mask == 0) {
      granule.remove(record);
      continue;
    }
    if (from_same && record->epoch == mine.epoch && record->step == mine.step) same = record;
    ++record;
  }
  if (same != nullptr) {
    same->mask |= mask;
    return;
  }
  Record& added = granule.add(mine, pool_);
  added.mask = mask;
}

void RaceDetector::found_at(Relation relation, const Record& first, const Touch& touch,
                            uint64_t granule, uint64_t units) {
  RaceRange overlap = touch.range;
  overlap.offset = touch.area_begin +
                   touch.shadow.byte_of(granule, static_cast<uint32_t>(std::countr_zero(units)));
  found(relation, first, touch.site, overlap);
}

bool RaceDetector::atomics_conflict(const Record& first, const RaceSite& second) const {
  if (first.row == agents_[second.agent].row) return false;
  return !scope_includes(topology_, first.scope, first.agent, second.agent) ||
         !scope_includes(topology_, second.scope, second.agent, first.agent);
}

RaceDetector::Relation RaceDetector::relation_of(const Record& first, const RaceSite& second,
                                                 RaceSpace space) const {
  uint32_t epoch = first.epoch;
  const bool first_async = is_async(first.kind);
  if (first_async) {
    epoch = done_[first.epoch];
    if (epoch == 0) return Relation::Unordered;
  }
  const bool own = first.agent == second.agent && !is_load(first.kind);
  const bool ordered = own ? knows_own(second, first.who, epoch)
                           : agents_[second.agent].known.at(first.row, first.place) >= epoch;
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

void RaceDetector::found(Relation relation, const Record& first, const RaceSite& second,
                         const RaceRange& place) {
  const uint64_t key = static_cast<uint64_t>(relation) << 32 |
                       static_cast<uint64_t>(first.kind) << 24 |
                       static_cast<uint64_t>(second.kind) << 16 |
                       static_cast<uint64_t>(first.step) << 8 | static_cast<uint64_t>(second.step);
  if (!found_.insert(key).second) return;
  RaceFinding finding;
  finding.first = {first.agent, first.kind, first.who, first.step, first.scope};
  finding.second = second;
  finding.place = place;
  finding.pending = is_async(first.kind) && done_[first.epoch] == 0;
  if (topology_.is_host(second.agent)) {
    // Nothing that the host could do would order them: the launch ends when it does.
    finding.leaving = true;
    return sink_(finding);
  }
  const RaceExplainer explainer(*this, first, second, place.space);
  if (relation == Relation::Unfenced)
    finding.kind = FindingClass::Proxy;
  else if (conflicts_only_by_scope(first, second) || explainer.ordered_by_wider_scopes())
    finding.kind = FindingClass::Scope;
  finding.remedy = explainer.remedy(relation == Relation::Unfenced);
  sink_(finding);
}

bool RaceDetector::conflicts_only_by_scope(const Record& first, const RaceSite& second) const {
  return is_atomic(first.kind) && is_atomic(second.kind);
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
  if (from != nullptr) touch({agent, AccessKind::LoadRead, kFirstLane, step}, operation, *from);
  touch({agent, AccessKind::LoadWrite, kFirstLane, step}, operation, to);
  return operation;
}

void RaceDetector::use_barrier(const RaceSite& site, uint32_t number) {
  const uint32_t cta = topology_.cta_of(site.agent);
  const uint32_t agents = topology_.agents_per_cta();
  const uint32_t object = cta * topology_.mbarriers + number;
  BarrierUse& use = uses_[(size_t{object} * agents + site.agent % agents) * 2 +
                          (site.kind == AccessKind::AtomicRead ? 1 : 0)];
  if (use.step != site.step || use.who != site.who) {
    access(site, mbarrier_bytes(site.agent, number));
    use.step = site.step;
    use.who = site.who;
    used_[cta] = true;
  }
  use.epoch = agents_[site.agent].epoch;
}

void RaceDetector::settle_barrier_uses(uint32_t cta) {
  if (!used_[cta]) return;
  used_[cta] = false;
  const uint32_t agents = topology_.agents_per_cta();
  for (uint32_t number = 0; number < topology_.mbarriers; ++number) {
    const uint32_t object = cta * topology_.mbarriers + number;
    barriers_[object].loaders = 0;
    for (uint32_t i = 0; i < 2 * agents; ++i) {
      BarrierUse& use = uses_[size_t{object} * agents * 2 + i];
      if (use.who == Who{}) continue;
      const uint32_t agent = cta * agents + i / 2;
      const AccessKind kind = i % 2 == 0 ? AccessKind::AtomicAdd : AccessKind::AtomicRead;
      touch({agent, kind, use.who, use.step, Scope::Cta}, use.epoch, mbarrier_bytes(agent, number));
      use = {};
    }
  }
}

void RaceDetector::check_initialised(const RaceSite& site, uint32_t barrier) {
  const uint32_t cta = topology_.cta_of(site.agent);
  const uint32_t bit = 1u << site.agent % topology_.agents_per_cta();
  uint32_t& loaders = barriers_[cta * topology_.mbarriers + barrier].loaders;
  if ((loaders & bit) != 0) return;
  used_[cta] = true;
  bool ordered = true;
  const RaceRange bytes = mbarrier_bytes(site.agent, barrier);
  uint64_t offset = 0;
  ShadowArea& shadow = area(bytes, offset);
  shadow.for_each(offset, bytes.row_bytes, 1, 0, [&](Granule& granule, uint64_t mask, uint64_t) {
    for (const Record& record : granule) {
      if ((record.mask & mask) == 0 || record.kind != AccessKind::Write) continue;
      const Relation relation = relation_of(record, site, RaceSpace::Shared);
      ordered = ordered && relation == Relation::Ordered;
      if (relation != Relation::Ordered) return found(relation, record, site, bytes);
    }
  });
  if (ordered) loaders |= bit;
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
