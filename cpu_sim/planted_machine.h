// The simulated machine with a planted fault that changes values rather than synchronising calls:
// what is loaded, where a record lies, what a rule of the layer computes. Role programs run on it
// only under such a mutant, so the ordinary machine knows nothing of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "cpu_sim/planted_rules.h"
#include "cpu_sim/sim_machine.h"

namespace moetwin {

class PlantedMachine : public SimMachine {
 public:
  PlantedMachine(Simulation& sim, Agent& agent);

  PlantedRules rules() const { return PlantedRules(fault_, &factor_); }

  template <class T>
  T load(Global<T> from, Step step = Step::None) {
    if constexpr (std::is_same_v<T, TokenSrcMetadata>) from.address = metadata_place(from.address);
    const T value = SimMachine::load(from, step);
    if constexpr (std::is_same_v<T, int32_t>) return expert_id(from, value, step);
    return value;
  }
  template <class T>
  T load(Shared<T> from, Step step = Step::None) {
    T value = SimMachine::load(from, step);
    if constexpr (std::is_same_v<T, PoolTableEntry>) cut_pool_table(value, step);
    if constexpr (std::is_same_v<T, TaskEntry>)
      if (mutated(MutantKind::Rows, step)) value.rows += mutant_delta();
    return value;
  }
  /// A tile's records lie one behind the other, in a ring, too.
  template <class T>
  CopiedRows<T> load_copied_rows(Global<T> first, uint32_t valid, Step step) {
    return SimMachine::load_copied_rows(Global<T>{metadata_place(first.address)}, valid, step);
  }
  template <class T>
  void store(Global<T> to, T value, Step step) {
    if constexpr (std::is_same_v<T, TokenSrcMetadata>) to.address = metadata_place(to.address);
    SimMachine::store(to, value, step);
  }
  template <class T>
  void store(Shared<T> to, T value, Step step) {
    SimMachine::store(to, value, step);
  }
  void barrier_sync(NamedBarrier barrier, uint32_t threads, Step step);
  void mbarrier_wait(Mbarrier bar, uint32_t parity, Step step);
  template <class T>
  void bulk_load(Shared<T> to, Global<T> from, uint32_t bytes, Mbarrier bar, Step step) {
    SimMachine::bulk_load(to, {row_to_load(from.address, step)}, bytes, bar, step);
  }

  template <class F>
  void for_rows(const Accumulator& total, Shared<uint8_t> staging, F&& f) {
    if (fault_ != LayerFault::AmaxOverTile || !math())
      return SimMachine::for_rows(total, staging, f);
    float amax = 0;
    for (const bool gathering : {true, false})
      SimMachine::for_rows(total, staging, [&](const RowView& row) {
        f(RowOfTile{row, &amax, gathering});
      });
  }

 private:
  /// A row that answers with the amax of all rows seen so far.
  struct RowOfTile : RowView {
    float* amax;
    bool gathering;
    RowOfTile(const RowView& row, float* tile_amax, bool gathers)
        : RowView(row), amax(tile_amax), gathering(gathers) {}
    float max(float value) const {
      if (gathering) *amax = std::max(*amax, value);
      return *amax;
    }
  };

  uint32_t mutant_delta() const;
  int32_t expert_id(Global<int32_t> from, int32_t value, Step step);
  void cut_pool_table(PoolTableEntry& entry, Step step);
  /// Where a record lies: where the role says, but for MutantKind::RingRow.
  uint64_t metadata_place(uint64_t address) const;
  uint64_t row_to_load(uint64_t address, Step step);
  void clear_early(Region region);

  const LayerFault fault_;
  std::deque<float> factors_;  ///< of the combine's loads under way
  float factor_ = 1.0f;        ///< of the row being added
};

static_assert(Machine<PlantedMachine>);

/// Whether a mutant needs this machine.
constexpr bool changes_values(MutantKind kind) { return kind >= MutantKind::Unmask; }

}  // namespace moetwin
