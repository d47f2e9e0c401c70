#include "cpu_sim/coverage.h"

#include "cpu_sim/schedule.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

bool is_wait(SyncOp op) {
  return op == SyncOp::WaitAtLeast || op == SyncOp::WaitFlip || op == SyncOp::WaitEqual ||
         op == SyncOp::WaitPhase || op == SyncOp::WaitRound || op == SyncOp::WaitCopies;
}

uint64_t fold(uint64_t chain, uint64_t value) { return mix_bits(chain * 31 + mix_bits(value + 1)); }

}  // namespace

void Coverage::merge(const Coverage& other) {
  pairs |= other.pairs;
  ring_states.insert(other.ring_states.begin(), other.ring_states.end());
  laps = std::max(laps, other.laps);
}

CoverageObserver::CoverageObserver(const KernelPlan& plan, uint32_t ranks)
    : plan_(plan), rings_(ranks) {
  for (Ring& ring : rings_) {
    ring.filled.assign(plan.ring_blocks, 0);
    ring.freed.assign(plan.ring_blocks, 0);
  }
}

void CoverageObserver::on_sync(const Observation& event) {
  History& history = objects_[event.object];
  if (is_wait(event.op)) {
    if (history.last_arrival != Step::None)
      coverage_.pairs.set(static_cast<uint32_t>(history.last_arrival) * kNumSteps +
                          static_cast<uint32_t>(event.step));
    return;
  }
  if (event.op == SyncOp::Add || event.op == SyncOp::Fetch || event.op == SyncOp::Land ||
      (event.op == SyncOp::Arrive && event.completes))
    history.last_arrival = event.step;
  if (event.op == SyncOp::Issue || event.op == SyncOp::Land) return;
  remember(history, event);
  if (event.object < kBarrierObjects) ring_word(event);
}

void CoverageObserver::remember(History& history, const Observation& event) {
  const bool commutes =
      event.op == SyncOp::Read || event.op == SyncOp::Add || event.op == SyncOp::Arrive;
  const bool same = commutes && history.kind == event.op &&
                    (event.op != SyncOp::Arrive || history.phase == event.number);
  if (!same) {
    history.chain = fold(history.chain, history.pending);
    history.pending = 0;
  }
  history.kind = event.op;
  history.phase = event.number;
  history.pending +=
      mix_bits(uint64_t{event.agent} << 16 | uint64_t{static_cast<uint8_t>(event.step)} << 8 |
               static_cast<uint8_t>(event.op));
}

void CoverageObserver::ring_word(const Observation& event) {
  const auto region = static_cast<Region>(address_region(event.object));
  const bool fills = region == Region::XFull;
  if (!fills && region != Region::XEmpty) return;
  Ring& ring = rings_[address_rank(event.object)];
  const uint64_t slot = address_offset(event.object) / 4;
  if (slot >= ring.filled.size()) return;
  std::vector<uint32_t>& counts = fills ? ring.filled : ring.freed;
  const auto blocks = static_cast<uint32_t>(
      event.number / (fills ? plan_.x_full_a_block() : plan_.tiles.linear1_slices()));
  if (blocks == counts[slot]) return;
  const bool cleared = blocks < counts[slot];
  counts[slot] = blocks;
  if (cleared) {
    ring.occupied = 0;
    return;
  }
  ring.occupied += fills ? 1u : (ring.occupied > 0 ? ~0u : 0u);
  coverage_.ring_states.insert({ring.occupied, (blocks - 1) % 2});
  coverage_.laps = std::max(coverage_.laps, blocks);
}

uint64_t CoverageObserver::behaviour() const {
  uint64_t all = 0;
  for (const auto& entry : objects_)
    all += mix_bits(entry.first ^ fold(entry.second.chain, entry.second.pending));
  return all;
}

}  // namespace moetwin
