// Accesses on their way through the shadow: which of its records they conflict with and replace.
// Where a look at the clocks does not show the two ordered, race_detector.cpp decides.
#include <algorithm>

#include "cpu_sim/race_detector.h"

namespace moetwin {
namespace {

constexpr size_t kMaxUnits = 64;       // of a granule
constexpr size_t kOrderedRegions = 4;  // remembered beside each other

}  // namespace

[[gnu::always_inline]] inline ShadowArea& RaceDetector::area(const RaceRange& range,
                                                             uint64_t& offset) {
  offset = range.offset;
  if (range.space == RaceSpace::Global) return region_area(range.owner, range.region);
  size_t piece = piece_begins_.size() - 1;
  while (piece_begins_[piece] > offset) --piece;
  offset -= piece_begins_[piece];
  return shared_[range.owner * piece_begins_.size() + piece];
}

[[gnu::always_inline]] inline uint32_t RaceDetector::source_of(const RaceSite& site,
                                                               uint32_t barrier) {
  const uint32_t clock = is_load(site.kind) ? kAgentPlaces * topology_.agents_per_cta() + barrier
                                            : order_place(site.who);
  return sources_.number_of(site, barrier, clock);
}

RaceDetector::Touch RaceDetector::begin_touch(const RaceSite& site, uint32_t epoch, RaceSpace space,
                                              uint32_t barrier) {
  AgentState& agent = agents_[site.agent];
  return {site,
          space,
          epoch,
          source_of(site, barrier),
          writes(site.kind),
          is_atomic(site.kind),
          is_async(site.kind),
          &agent,
          agent.known.view()};
}

[[gnu::always_inline]] inline void RaceDetector::touch_area(Touch& touch, const RaceRange& range,
                                                            ShadowArea& shadow, uint64_t offset) {
  if (touches_barriers(range) && !touch.atomic) settle_barrier_uses(range.owner);
  touch.range = &range;
  ShadowPlace place;
  uint64_t mask = 0;
  if (range.rows == 1 && shadow.in_one_granule(offset, range.row_bytes, place, mask))
    return touch_one(touch, place, mask);
  shadow.for_each(offset, range.row_bytes, range.rows, range.pitch,
                  [&](const ShadowPlace& at, uint64_t units) { touch_one(touch, at, units); });
}

void RaceDetector::touch_range(Touch& touch, const RaceRange& range) {
  uint64_t offset = 0;
  ShadowArea& shadow = area(range, offset);
  touch_area(touch, range, shadow, offset);
}

void RaceDetector::touch(const RaceSite& site, uint32_t epoch, const RaceRange& range,
                         uint32_t barrier) {
  uint64_t offset = 0;
  ShadowArea& shadow = area(range, offset);
  shadow.prefetch(offset);
  Touch one = begin_touch(site, epoch, range.space, barrier);
  touch_area(one, range, shadow, offset);
}

void RaceDetector::prefetch(const RaceRange& range) {
  uint64_t offset = 0;
  area(range, offset).prefetch(offset);
}

void RaceDetector::plain_store(const RaceSite& site, const RaceRange& range) {
  chain_ended_ = false;
  touch(site, agents_[site.agent].epoch, range);
  if (chain_ended_) end_chain(site, range);
}

RaceDetector::WarpAccesses::WarpAccesses(RaceDetector& detector, uint32_t agent, AccessKind kind,
                                         Step step, RaceSpace space)
    : detector_(detector),
      touch_(detector.begin_touch({agent, kind, warp_of(0), step}, detector.agents_[agent].epoch,
                                  space, 0)) {
  sources_[0] = touch_.source;
}

void RaceDetector::WarpAccesses::touch(uint32_t warp, const RaceRange& range) {
  touch_.site.who = warp_of(warp);
  if (sources_[warp] == 0) sources_[warp] = detector_.source_of(touch_.site, 0);
  touch_.source = sources_[warp];
  detector_.chain_ended_ = false;
  detector_.touch_range(touch_, range);
  if (touch_.write && detector_.chain_ended_) detector_.end_chain(touch_.site, range);
}

/// A read of bytes that its source has read before. No write has come between, or it would have
/// replaced that read, and what was ordered before it still is: `known` says so. True if the
/// earlier record could be renewed and nothing is left to do.
[[gnu::always_inline]] inline bool RaceDetector::read_again(const Touch& touch, Granule& granule,
                                                            uint64_t mask, bool& known) const {
  for (Record& record : granule) {
    if (!SourceTable::same_agent(record.source, touch.source) || (record.mask & mask) != mask)
      continue;
    if (record.source == touch.source) {
      known = true;
      if (record.mask != mask && record.epoch != touch.epoch) return false;
      record.epoch = touch.epoch;
      return true;
    }
    // Of loads alone there are sources that differ in their place in the clocks and nothing else.
    const SourceTable::Place& place = sources_.place_of(record.source);
    known |= place.load != 0 && place.kind == touch.site.kind && place.step == touch.site.step;
  }
  return false;
}

/// Reports the two unless they are ordered. Of `first` the mask has the units in common.
void RaceDetector::check_order(const Touch& touch, const Record& first, uint64_t granule) {
  const Relation relation = relation_of(first.epoch, first.source, touch.site, touch.space);
  if (relation == Relation::Ordered) return;
  RaceRange overlap = *touch.range;
  uint64_t in_area = 0;
  const ShadowArea& shadow = area(overlap, in_area);
  const auto unit = static_cast<uint32_t>(std::countr_zero(first.mask));
  overlap.offset += shadow.byte_of(granule, unit) - in_area;
  found(relation, first, touch.site, overlap);
}

void RaceDetector::check_unit_writes(const Touch& touch, const UnitWrite* writes, uint64_t number,
                                     uint64_t mask) {
  UnitWrite checked;
  for (uint64_t left = mask; left != 0; left &= left - 1) {
    const UnitWrite write = writes[std::countr_zero(left)];
    if (write == checked) continue;
    checked = write;
    if (write.source != 0 && !plainly_ordered(touch, write.epoch, write.source)) [[unlikely]]
      check_order(touch, {left & -left, write.epoch, write.source}, number);
  }
}

/// The same for a bulk copy's read of global memory, which comes column by column.
void RaceDetector::check_columns(const Touch& touch, const UnitWrite* writes, uint64_t number,
                                 uint64_t mask) {
  std::vector<UnitWrite>& ordered = touch.agent->ordered;
  if (ordered.empty()) ordered.resize(kOrderedRegions * kMaxUnits);
  UnitWrite* const before = &ordered[touch.range->region % kOrderedRegions * kMaxUnits];
  for (uint64_t left = mask; left != 0; left &= left - 1) {
    const int unit = std::countr_zero(left);
    const UnitWrite write = writes[unit];
    if (write == before[unit] || write.source == 0) continue;
    if (plainly_ordered(touch, write.epoch, write.source))
      before[unit] = write;
    else
      check_order(touch, {left & -left, write.epoch, write.source}, number);
  }
}

/// Whether two atomic accesses are of different CTAs and one's scope does not include the other.
bool RaceDetector::atomics_conflict(const Touch& touch, uint32_t source) const {
  const SourceAgent& first = sources_.source_agent(source);
  const SourceAgent& second = sources_.source_agent(touch.source);
  if (first.clock.row == second.clock.row) return false;
  const Scope narrower = std::min(sources_.place_of(source).scope, touch.site.scope);
  return narrower != Scope::Sys && (narrower != Scope::Gpu || first.rank != second.rank);
}

/// Checks a read against a granule's records, of which it replaces its own source's; `known`: it
/// needs no check. The record that it may join, if any.
Record* RaceDetector::read_over(const Touch& touch, Granule& granule, uint64_t number,
                                uint64_t mask, bool known) {
  Record* same = nullptr;
  Record* end = granule.end();
  for (Record* record = granule.begin(); record != end;) {
    const uint64_t common = record->mask & mask;
    const bool goes_on = record->source == touch.source && record->epoch == touch.epoch;
    if (common != 0) {
      const AccessKind kind = sources_.place_of(record->source).kind;
      if (writes(kind) && !known &&
          (!touch.atomic || !is_atomic(kind) || atomics_conflict(touch, record->source)) &&
          !plainly_ordered(touch, record->epoch, record->source)) [[unlikely]]
        check_order(touch, {common, record->epoch, record->source}, number);
      // Loads on different mbarriers stand beside each other.
      if (SourceTable::same_agent(record->source, touch.source) &&
          sources_.alike(record->source, touch.source)) {
        record->mask &= ~mask;
        if (record->mask == 0) {
          granule.remove(record);
          --end;
          continue;
        }
      }
    }
    if (goes_on) same = record;
    ++record;
  }
  return same;
}

/// The same of a write, which replaces all that it covers, but for an add other atomic accesses.
Record* RaceDetector::write_over(const Touch& touch, Granule& granule, uint64_t number,
                                 uint64_t mask) {
  Record* same = nullptr;
  Record* end = granule.end();
  for (Record* record = granule.begin(); record != end;) {
    const uint64_t common = record->mask & mask;
    const bool goes_on = record->source == touch.source && record->epoch == touch.epoch;
    if (common != 0) {
      const AccessKind kind = sources_.place_of(record->source).kind;
      const bool both_atomic = touch.atomic && is_atomic(kind);
      if ((!both_atomic || atomics_conflict(touch, record->source)) &&
          !plainly_ordered(touch, record->epoch, record->source)) [[unlikely]]
        check_order(touch, {common, record->epoch, record->source}, number);
      // Whoever is ordered behind the new access is ordered behind what it replaces.
      chain_ended_ |= !both_atomic && kind == AccessKind::AtomicAdd;
      if (!both_atomic || (SourceTable::same_agent(record->source, touch.source) &&
                           sources_.alike(record->source, touch.source))) {
        record->mask &= ~mask;
        if (record->mask == 0) {
          granule.remove(record);
          --end;
          continue;
        }
      }
    }
    if (goes_on) same = record;
    ++record;
  }
  return same;
}

void RaceDetector::touch_one(const Touch& touch, const ShadowPlace& place, uint64_t mask) {
  Granule& granule = *place.granule;
  UnitWrite* const writes = place.writes;
  Record* same = nullptr;
  if (touch.write) {
    if (writes != nullptr) check_unit_writes(touch, writes, place.number, mask);
    same = write_over(touch, granule, place.number, mask);
    if (writes != nullptr) {
      const UnitWrite last = touch.atomic ? UnitWrite{} : UnitWrite{touch.epoch, touch.source};
      for (uint64_t left = mask; left != 0; left &= left - 1) writes[std::countr_zero(left)] = last;
      if (!touch.atomic) return;
    }
  } else {
    bool known = false;
    if (read_again(touch, granule, mask, known)) return;
    if (writes != nullptr && !known) {
      if (touch.async)
        check_columns(touch, writes, place.number, mask);
      else
        check_unit_writes(touch, writes, place.number, mask);
    }
    same = read_over(touch, granule, place.number, mask, known);
  }
  if (same != nullptr)
    same->mask |= mask;
  else
    granule.add({mask, touch.epoch, touch.source}, pool_);
}

void RaceDetector::use_barrier(const RaceSite& site, uint32_t number) {
  const uint32_t cta = topology_.cta_of(site.agent);
  BarrierUse& use = barrier_use(site.agent, site.kind == AccessKind::AtomicRead, number);
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
  const uint32_t first = cta * topology_.agents_per_cta();
  for (uint32_t number = 0; number < topology_.mbarriers; ++number) {
    barrier(cta, number).loaders = 0;
    for (uint32_t agent = first; agent < first + topology_.agents_per_cta(); ++agent) {
      for (const bool waits : {false, true}) {
        BarrierUse& use = barrier_use(agent, waits, number);
        if (use.who == Who{}) continue;
        const AccessKind kind = waits ? AccessKind::AtomicRead : AccessKind::AtomicAdd;
        touch({agent, kind, use.who, use.step, Scope::Cta}, use.epoch,
              mbarrier_bytes(agent, number));
        use = {};
      }
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
  shadow.for_each(offset, bytes.row_bytes, 1, 0, [&](const ShadowPlace& place, uint64_t mask) {
    for (const Record& record : *place.granule) {
      if ((record.mask & mask) == 0 || sources_.place_of(record.source).kind != AccessKind::Write)
        continue;
      const Relation relation = relation_of(record.epoch, record.source, site, RaceSpace::Shared);
      ordered = ordered && relation == Relation::Ordered;
      if (relation != Relation::Ordered) return found(relation, record, site, bytes);
    }
  });
  if (ordered) loaders |= bit;
}

}  // namespace moetwin
