#include "cpu_sim/access_notes.h"

#include <algorithm>

#include "cpu_sim/simulation.h"

namespace moetwin {

AccessNotes::AccessNotes(Simulation& sim, const Agent& agent)
    : sim_(sim),
      agent_(agent),
      checker_(sim.checker()),
      id_(sim.id_of(agent)),
      shared_bytes_(sim.plan().shared.total),
      ranks_(sim.ranks().size()),
      region_bytes_(sim.plan_layout().bytes) {}

Who AccessNotes::who(uint32_t lane) const {
  if (lane == kAllLanes) return all_warps(agent_.warps);
  return lane == 0 ? kFirstLane : warp_of(lane / kWarpLanes);
}

void AccessNotes::put_off(const RaceRange& range, Who who, Step step) {
  PutOffRead& read = put_off_reads_[static_cast<size_t>(range.space)];
  RaceRange& before = read.range;
  if (before.owner == range.owner && before.region == range.region &&
      before.offset + before.row_bytes == range.offset && before.row_bytes != 0 &&
      read.step == step && read.who == who) {
    before.row_bytes += range.row_bytes;
    return;
  }
  if (before.row_bytes != 0) tell(read);
  checker_->prefetch(range);
  read = {range, who, step};
}

void AccessNotes::tell(PutOffRead& read) {
  checker_->access({id_, AccessKind::Read, read.who, read.step}, read.range);
  read.range.row_bytes = 0;
}

void AccessNotes::read(const RaceRange& range, uint32_t lane, Step step) {
  if (!lies_inside(range)) return;  // nor do weights, which never change
  if (lane != kAllLanes) return put_off(range, who(lane), step);
  checker_->access(site(AccessKind::Read, lane, step), range);
}

void AccessNotes::write(const RaceRange& range, uint32_t lane, Step step) {
  if (lies_inside(range)) checker_->plain_store(site(AccessKind::Write, lane, step), range);
}

void AccessNotes::add(const RaceRange& range, Order order, Scope scope, uint32_t lane, Step step) {
  tell();
  if (lies_inside(range)) checker_->atomic_add(id_, who(lane), order, scope, step, range);
}

void AccessNotes::in_turn(const RaceRange& range, SkippedPayload payload, Step step) {
  if (range.space == RaceSpace::Global && range.region >= kNumRegions) return;  // weights
  tell();
  RaceDetector::WarpAccesses accesses(
      *checker_, id_, payload.writes ? AccessKind::Write : AccessKind::Read, step, range.space);
  RaceRange piece = range;
  const uint64_t bytes_a_warp = agent_.warps == 1 ? payload.bytes : payload.bytes_a_warp;
  for (uint64_t at = 0, i = 0; at < payload.bytes; at += bytes_a_warp, ++i) {
    piece.offset = range.offset + at;
    piece.row_bytes = std::min<uint64_t>(bytes_a_warp, payload.bytes - at);
    if (lies_inside(piece)) accesses.touch(static_cast<uint32_t>(i % agent_.warps), piece);
  }
}

void AccessNotes::copied_rows(std::span<const uint64_t> places, uint32_t offset, uint32_t staged,
                              uint32_t bytes, Step step) {
  using Accesses = RaceDetector::WarpAccesses;
  tell();
  Accesses writes(*checker_, id_, AccessKind::Write, step, RaceSpace::Global);
  Accesses reads(*checker_, id_, AccessKind::Read, step, RaceSpace::Shared);
  for (const uint64_t address : places) {
    const RaceRange place = sim_.race_range(address + offset, bytes);
    if (lies_inside(place)) checker_->prefetch(place);
  }
  for (size_t row = 0; row < places.size(); row += kRowsPerWarp) {
    const auto warp = static_cast<uint32_t>(row / kRowsPerWarp);
    const size_t end = std::min(places.size(), row + kRowsPerWarp);
    for (size_t i = row; i < end; ++i) {
      const RaceRange place = sim_.race_range(places[i] + offset, bytes);
      if (lies_inside(place)) writes.touch(warp, place);
    }
    const RaceRange source = sim_.race_range(agent_, staged + static_cast<uint32_t>(row) * bytes,
                                             (end - row) * uint64_t{bytes});
    if (lies_inside(source)) reads.touch(warp, source);
  }
}

}  // namespace moetwin
