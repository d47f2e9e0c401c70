// An agent's event log in the card's memory, as the traced kernel writes it. The agent's first warp
// logs: its first lane wherever that is active; lanes that log together share the log in lane
// order. A word is logged by its address, which the host turns into a word_id(). Device code only.
#pragma once

#include "common/trace_event.h"
#include "cuda/kernel_params.h"
#include "cuda/ptx.h"

namespace moetwin {

class EventLog {
 public:
  /// Adds `event`, its time taken now. Events past the log's capacity are counted, not kept.
  __device__ __forceinline__ void add(const TraceLogs& logs, TraceEvent event) {
    const uint32_t lane = threadIdx.x % kWarpLanes;
    const uint32_t active = __activemask();
    if ((active & 1) == 0) return;
    const uint32_t first = __shfl_sync(active, logged_, 0);
    const uint32_t at = first + __popc(active & ((1u << lane) - 1));
    logged_ = first + __popc(active);
    const uint64_t agent = uint64_t{blockIdx.x} * kAgentsPerCta + event.place;
    event.time = ptx::nanoseconds();
    if (at < logs.capacity)
      *ptx::global_pointer(Global<TraceEvent>{logs.events} + (agent * logs.capacity + at)) = event;
    if (lane == 0) *ptx::global_pointer(Global<uint32_t>{logs.counts} + agent) = logged_;
  }

 private:
  uint32_t logged_ = 0;
};

}  // namespace moetwin
