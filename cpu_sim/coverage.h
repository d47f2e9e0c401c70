// What a run exercised, as an observer: which arrival ended which wait, how full the rings were on
// laps of either parity, and one number for the run's behaviour, which two runs share exactly when
// every object saw its conflicting operations in the same order.
#pragma once

#include <bitset>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/kernel_plan.h"
#include "common/symmetric_layout.h"
#include "cpu_sim/probes.h"

namespace moetwin {

/// A ring's state when a block was filled or freed.
struct RingState {
  uint32_t occupied = 0;  ///< slots whose rows are complete and not all read
  uint32_t parity = 0;    ///< of the lap of the block
  friend constexpr auto operator<=>(const RingState&, const RingState&) = default;
};

/// What one or many runs exercised.
struct Coverage {
  std::bitset<kNumSteps * kNumSteps> pairs;  ///< [arrive step][wait step]
  std::set<RingState> ring_states;
  uint32_t laps = 0;  ///< most often that a ring slot was filled

  bool pair(Step arrive, Step wait) const {
    return pairs[static_cast<uint32_t>(arrive) * kNumSteps + static_cast<uint32_t>(wait)];
  }
  void merge(const Coverage& other);
};

class CoverageObserver : public SyncObserver {
 public:
  CoverageObserver(const KernelPlan& plan, uint32_t ranks);

  void on_sync(const Observation& event) override;

  const Coverage& coverage() const { return coverage_; }
  /// Of the run so far.
  uint64_t behaviour() const;

 private:
  /// What an object has seen: operations of one kind that commute are summed until another kind
  /// comes.
  struct History {
    uint64_t chain = 0;
    uint64_t pending = 0;
    SyncOp kind = SyncOp::Read;
    uint64_t phase = 0;
    Step last_arrival = Step::None;
  };

  void remember(History& history, const Observation& event);
  void ring_word(const Observation& event);

  struct Ring {
    std::vector<uint32_t> filled;  ///< [slot] blocks
    std::vector<uint32_t> freed;
    uint32_t occupied = 0;
  };

  KernelPlan plan_;
  Coverage coverage_;
  std::vector<Ring> rings_;  ///< [rank]
  std::unordered_map<uint64_t, History> objects_;
};

}  // namespace moetwin
