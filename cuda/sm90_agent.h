// An agent of the real machine without what it does to memory: who it is, its lanes, the barriers
// of its CTA, the wait that ends, and the log of its events. sm90_machine.h builds on it. Device
// code.
#pragma once

#include "cuda/bounded_wait.h"
#include "cuda/event_log.h"
#include "cuda/kernel_table.h"
#include "cuda/machine_words.h"

namespace moetwin {

template <Role kRole, Variant kVariant>
class Sm90Agent {
 public:
  static constexpr bool kIsMath = kRole == Role::Math;
  static constexpr bool kTraced = kVariant == Variant::Traced;
  static constexpr uint32_t kLanes = kIsMath ? kWarpgroupThreads : kWarpLanes;

  /// write_place() has told where the CTA is.
  __device__ __forceinline__ Sm90Agent(const KernelParams& params, uint32_t agent)
      : params_(params), agent_(agent) {
    if constexpr (!kIsMath) {
      rank_ = place_word(params.args.plan, 0);
      sm_ = place_word(params.args.plan, 1);
      base_ = params.ranks[rank_].base;
    }
  }

  // Math, whose registers are short, reads them from shared memory every time.
  __device__ __forceinline__ uint32_t rank() const {
    if constexpr (kIsMath) return place_word(params_.args.plan, 0);
    return rank_;
  }
  __device__ __forceinline__ uint32_t sm() const {
    if constexpr (kIsMath) return place_word(params_.args.plan, 1);
    return sm_;
  }
  __device__ __forceinline__ uint32_t agent() const { return agent_; }
  __device__ __forceinline__ uint32_t num_tokens() const {
    return params_.ranks[rank()].num_tokens;
  }
  // Barriers.

  /// A named barrier is an mbarrier with one arrival a warp. bar.sync cannot be left once entered:
  /// a warp that another one never joins would hang past every limit. A try_wait can. The arrival
  /// releases for the whole warp (__syncwarp orders its lanes before it), each lane's wait
  /// acquires.
  __device__ __forceinline__ void barrier_sync(NamedBarrier barrier, uint32_t threads, Step step) {
    const uint32_t place = static_cast<uint32_t>(barrier);
    barrier_arrive(barrier, threads, step);
    const uint32_t parity = ~named_phases_ >> place & 1;
    wait_for_phase(named_barrier(place), parity, step, WaitKind::NamedBarrier, place);
  }

  __device__ __forceinline__ void barrier_arrive(NamedBarrier barrier, uint32_t /*threads*/,
                                                 Step step) {
    const uint32_t place = static_cast<uint32_t>(barrier);
    trace_elected(TraceKind::Arrive, step, TraceObject::NamedBarrier, place);
    __syncwarp();
    if (warp_lane() == 0) ptx::mbarrier_arrive(named_barrier(place));
    named_phases_ ^= 1u << place;
  }

  __device__ __forceinline__ void mbarrier_init(Mbarrier bar, uint32_t arrivals, Step) {
    if (elected()) ptx::mbarrier_init(pointer(bar), arrivals);
  }
  __device__ __forceinline__ void mbarrier_arrive(Mbarrier bar, Step step) {
    __syncwarp();
    if (skips(step)) return;
    trace_elected(TraceKind::Arrive, step, TraceObject::Mbarrier, bar.index);
    if (warp_lane() == 0) ptx::mbarrier_arrive(pointer(bar));
  }
  __device__ __forceinline__ void mbarrier_expect(Mbarrier bar, uint32_t bytes, Step step) {
    trace_elected(TraceKind::Arrive, step, TraceObject::Mbarrier, bar.index);
    if (elected()) ptx::mbarrier_arrive_expect(pointer(bar), bytes);
  }
  __device__ __forceinline__ void mbarrier_wait(Mbarrier bar, uint32_t parity, Step step) {
    wait_for_phase(pointer(bar), parity, step, WaitKind::MbarrierPhase, bar.index);
  }

 protected:
  /// Whether this step's arrivals are left out on purpose.
  __device__ __forceinline__ bool skips(Step step) const {
    if constexpr (kVariant == Variant::Planted) return step == params_.skipped_arrive;
    return false;
  }
  /// Of the rank's symmetric buffer.
  __device__ __forceinline__ uint64_t base() const {
    if constexpr (kIsMath) return params_.ranks[rank()].base;
    return base_;
  }
  __device__ __forceinline__ uint32_t lane() const { return threadIdx.x % kLanes; }
  __device__ __forceinline__ uint32_t warp_lane() const { return threadIdx.x % kWarpLanes; }
  __device__ __forceinline__ bool elected() const { return lane() == 0; }

  __device__ __forceinline__ uint64_t* pointer(Mbarrier bar) const {
    return ptx::shared_pointer(Shared<uint64_t>{params_.args.plan.shared.mbarriers} + bar.index);
  }
  __device__ __forceinline__ uint64_t* named_barrier(uint32_t place) const {
    return ptx::shared_pointer(Shared<uint64_t>{params_.args.plan.shared.machine} + place);
  }

  __device__ __forceinline__ void wait_for_phase(uint64_t* bar, uint32_t parity, Step step,
                                                 WaitKind kind, uint32_t object) {
    const TraceObject what =
        kind == WaitKind::NamedBarrier ? TraceObject::NamedBarrier : TraceObject::Mbarrier;
    trace_elected(TraceKind::Begin, step, what, object);
    if (!__all_sync(ptx::kAllLanes, ptx::mbarrier_try_wait(bar, parity))) {
      const PhaseWait wait{step, kind, object, parity};
      if constexpr (kIsMath)
        wait_for_phase_in_turns(params_, bar, wait);
      else
        call_wait_for_phase(params_, bar, wait);
    }
    trace_elected(TraceKind::End, step, what, object);
  }

  /// Events of the whole agent, converged.
  __device__ __forceinline__ void trace_elected(TraceKind kind, Step step,
                                                TraceObject what = TraceObject::Nothing,
                                                uint64_t object = 0, uint32_t value = 0) {
    if constexpr (kTraced) {
      if (elected()) trace(kind, step, what, object, value);
      __syncwarp();
    }
  }
  /// Release adds are arrivals, made by any lanes of the agent's first warp.
  template <class T>
  __device__ __forceinline__ void trace_add(Global<T> word, T value, Order order, Step step) {
    if constexpr (kTraced)
      if (order == Order::Release && lane() < kWarpLanes)
        trace(TraceKind::Arrive, step, TraceObject::Word, word.address,
              static_cast<uint32_t>(value));
  }
  __device__ __forceinline__ void trace(TraceKind kind, Step step,
                                        TraceObject what = TraceObject::Nothing,
                                        uint64_t object = 0, uint32_t value = 0) {
    if constexpr (kTraced)
      log_.add(params_.trace,
               {0, object, value, static_cast<uint16_t>(rank()), static_cast<uint16_t>(sm()),
                static_cast<uint8_t>(agent_place(kRole, agent_)), kind, step, what});
  }

  const KernelParams& params_;
  uint32_t agent_;

 private:
  EventLog log_;
  uint32_t rank_ = 0;
  uint32_t sm_ = 0;
  uint64_t base_ = 0;
  uint32_t named_phases_ = 0;  ///< bit b: how often this thread passed named barrier b, odd or even
};

}  // namespace moetwin
