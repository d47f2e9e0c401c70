// The agent that runs a role program on the simulated machine: who it is, its lanes, which are a
// loop, and the mutants that change its calls. Memory is sim_memory.h, barriers, copies and the
// tensor core are sim_machine.h.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <utility>

#include "cpu_sim/access_notes.h"
#include "cpu_sim/simulation.h"

namespace moetwin {

class SimAgent {
 public:
  template <class T>
  using Lanes = std::array<T, kWarpgroupThreads>;

  /// For one launch.
  SimAgent(Simulation& sim, Agent& agent)
      : sim_(sim),
        agent_(agent),
        cta_(sim.cta(agent)),
        checker_(sim.checker()),
        notes_(sim, agent) {}

  // Who.
  uint32_t rank() const { return agent_.rank; }
  uint32_t sm() const { return agent_.sm; }
  uint32_t agent() const { return agent_.number; }
  uint32_t num_tokens() const { return sim_.rank(agent_.rank).num_tokens; }
  bool math() const { return sim_.math(); }

  // Lanes.
  template <class F>
  void lanes(F&& f) {
    sim_.visible(agent_);
    const uint32_t count = agent_.warps * kWarpLanes;
    if (!sim_.scheduler().shuffles_lanes()) {
      for (lane_ = 0; lane_ < count; ++lane_) f(lane_);
    } else {
      // An odd step visits every lane of a power of two once.
      const uint64_t random = sim_.scheduler().random(sim_.id_of(agent_));
      const uint32_t step = static_cast<uint32_t>(random >> 32) | 1;
      for (uint32_t i = 0; i < count; ++i) {
        lane_ = (static_cast<uint32_t>(random) + i * step) % count;
        f(lane_);
      }
    }
    end_of_lanes();
  }

  template <class F>
  auto elect(F&& f) {
    sim_.visible(agent_);
    lane_ = 0;
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      end_of_lanes();
    } else {
      const auto value = f();
      end_of_lanes();
      return value;
    }
  }

  uint32_t lanes_sum(const Lanes<uint32_t>& v) const {
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) sum += v[lane];
    return sum;
  }
  uint32_t lanes_min(const Lanes<uint32_t>& v) const {
    return *std::min_element(v.begin(), v.begin() + kWarpLanes);
  }
  Lanes<uint32_t> lanes_scan(const Lanes<uint32_t>& v) const {
    Lanes<uint32_t> through{};
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) through[lane] = sum += v[lane];
    return through;
  }
  template <class F>
  uint32_t ballot(F&& f) {
    uint32_t mask = 0;
    for (lane_ = 0; lane_ < kWarpLanes; ++lane_) mask |= uint32_t{f(lane_)} << lane_;
    lane_ = kAllLanes;
    if (checker_) notes_.tell();
    return mask;
  }

  void token_done(Step step) {
    ++sim_.counts().rows_combined;
    trace(TraceKind::TokenDone, step);
  }

 protected:
  Role role() const { return agent_.role; }
  bool mutated(MutantKind kind, Step step) {
    const Mutant& mutant = sim_.mutant();
    return mutant.kind == kind && mutant.step == step && mutated_visit();
  }
  bool dropped(Step step) { return mutated(MutantKind::Drop, step); }
  int64_t delta(MutantKind kind, Step step) {
    return mutated(kind, step) ? sim_.mutant().delta : 0;
  }

  /// Applies a mutant of order or scope to a call at `step`.
  void weaken(Order& order, Scope& scope, Step step) {
    if (mutated(MutantKind::Order, step)) order = Order::Relaxed;
    if (mutated(MutantKind::Scope, step)) scope = narrower(scope);
  }
  /// Whether a mutant moves this call behind its next neighbour; `call` then makes it there.
  template <class F>
  bool postponed(Step step, F call) {
    if (in_postponed_ || !mutated(MutantKind::Swap, step)) return false;
    postponed_ = std::move(call);
    neighbours_left_ = std::max<int64_t>(1, sim_.mutant().delta);
    return true;
  }
  /// A synchronising call has been made: a postponed one may be due.
  void synchronised() {
    if (postponed_ && !in_postponed_ && --neighbours_left_ == 0) make_postponed_call();
  }
  void make_postponed_call();
  void trace(TraceKind kind, Step step, TraceObject what = TraceObject::Nothing,
             uint64_t object = 0, uint32_t value = 0) {
    if (sim_.traced()) [[unlikely]]
      sim_.log(agent_, kind, step, what, object, value);
  }
  void cost(uint64_t nanoseconds) { agent_.time += nanoseconds; }
  /// The lanes of each warp are together again.
  void end_of_lanes() {
    lane_ = kAllLanes;
    if (checker_) {
      notes_.tell();
      checker_->warps_together(sim_.id_of(agent_));
    }
    if (std::exchange(synchronised_, false)) synchronised();
  }

  Simulation& sim_;
  Agent& agent_;
  Cta& cta_;
  RaceDetector* const checker_;  ///< null: nothing is checked
  AccessNotes notes_;            ///< only where checked
  uint32_t lane_ = kAllLanes;
  bool synchronised_ = false;  ///< a lane has released or acquired

 private:
  bool mutated_visit();

  std::function<void()> postponed_;
  int64_t neighbours_left_ = 0;
  bool in_postponed_ = false;
};

}  // namespace moetwin
