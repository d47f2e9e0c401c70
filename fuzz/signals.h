// What a run exercised, as a set of small numbers that a campaign can collect: which arrival ended
// which wait, how often each step ran (by powers of two), how full the rings were, how many laps
// they made. Cheap enough for every case. docs/fuzzing.md says what each kind steers.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/step.h"
#include "common/symmetric_layout.h"
#include "cpu_sim/probes.h"

namespace moetwin {

constexpr uint32_t kStepCounts = 16;  ///< powers of two of a step's executions
constexpr uint32_t kRingFills = 64;   ///< ring slots in use, the last number stands for more

constexpr uint32_t kPairSignals = kNumSteps * kNumSteps;
constexpr uint32_t kCountSignals = kNumSteps * kStepCounts;
constexpr uint32_t kRingSignals = 2 * kRingFills;
constexpr uint32_t kLapSignals = 16;
constexpr uint32_t kNumSignals = kPairSignals + kCountSignals + kRingSignals + kLapSignals;

/// Pairs [arrival step][wait step], then step counts, ring fills of even and odd laps, laps.
using Signals = std::bitset<kNumSignals>;

/// Pairs of arrival and wait among them.
uint32_t count_pairs(const Signals& signals);

/// As hexadecimal digits without a prefix, and back; throws InputError for another text.
std::string signals_to_hex(const Signals& signals);
Signals signals_from_hex(std::string_view text);

class SignalObserver : public SyncObserver {
 public:
  /// Ready for a run; the memory of the run before is used again.
  void begin(uint32_t x_full_a_block, uint32_t linear1_slices, uint32_t ranks,
             uint32_t ring_blocks);

  void on_sync(const Observation& event) override;

  /// Of the run so far.
  Signals signals() const;

 private:
  struct Place {
    uint64_t object = 0;
    uint32_t run = 0;  ///< that wrote it; others count as empty
    Step last_arrival = Step::None;
  };

  Step& arrival_at(uint64_t object);
  void grow();
  void ring_word(const Observation& event);

  Signals seen_;
  uint32_t counts_[kNumSteps] = {};
  std::vector<Place> places_;  ///< open addressing, a power of two
  uint32_t run_ = 0;
  uint32_t used_ = 0;
  uint32_t x_full_a_block_ = 1;
  uint32_t linear1_slices_ = 1;
  uint32_t ring_blocks_ = 0;
  std::vector<uint32_t> blocks_;    ///< [rank][filled, freed][slot]
  std::vector<uint32_t> occupied_;  ///< [rank]
};

}  // namespace moetwin
