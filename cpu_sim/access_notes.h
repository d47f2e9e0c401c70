// What the race checker is told of one agent's plain and atomic accesses in one launch: which
// bytes, by which of its threads, and when. Barriers, fences and copies tell it themselves.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "common/machine.h"
#include "common/symmetric_layout.h"
#include "cpu_sim/race_detector.h"

namespace moetwin {

class Simulation;
struct Agent;

/// The lane of an access that all of an agent's threads make.
constexpr uint32_t kAllLanes = UINT32_MAX;

/// Accesses that leave their region are left out: they are reported where they are made.
class AccessNotes {
 public:
  AccessNotes(Simulation& sim, const Agent& agent);

  void read(const RaceRange& range, uint32_t lane, Step step);
  void write(const RaceRange& range, uint32_t lane, Step step);
  void add(const RaceRange& range, Order order, Scope scope, uint32_t lane, Step step);
  /// Consecutive pieces of `range`, touched by the agent's warps in turn.
  void in_turn(const RaceRange& range, SkippedPayload payload, Step step);
  /// Staged rows of `bytes`, from `staged` of shared memory on, copied to `places`, `offset` bytes
  /// on: sixteen rows by each warp.
  void copied_rows(std::span<const uint64_t> places, uint32_t offset, uint32_t staged,
                   uint32_t bytes, Step step);
  /// Tells of the reads that were put off. Before whatever synchronises.
  void tell() {
    for (PutOffRead& read : put_off_reads_)
      if (read.range.row_bytes != 0) tell(read);
  }

 private:
  /// A read by one lane that the checker has not been told of yet, because the next lanes may read
  /// on from there.
  struct PutOffRead {
    RaceRange range;  ///< no bytes: none
    Who who;
    Step step = Step::None;
  };
  Who who(uint32_t lane) const;
  RaceSite site(AccessKind kind, uint32_t lane, Step step) const {
    return {id_, kind, who(lane), step};
  }
  bool lies_inside(const RaceRange& range) const {
    const uint64_t end = range.offset + range.row_bytes;
    if (range.space == RaceSpace::Shared) return end <= shared_bytes_;
    return range.owner < ranks_ && range.region < kNumRegions && end <= region_bytes_[range.region];
  }
  void put_off(const RaceRange& range, Who who, Step step);
  void tell(PutOffRead& read);

  const Simulation& sim_;
  const Agent& agent_;
  RaceDetector* const checker_;
  const uint32_t id_;
  const uint32_t shared_bytes_;
  const size_t ranks_;
  const uint64_t* const region_bytes_;
  std::array<PutOffRead, 2> put_off_reads_;  ///< by RaceSpace
};

}  // namespace moetwin
