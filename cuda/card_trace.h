// What the traced kernel's launches logged, on the host. Plain host code.
#pragma once

#include <cstdint>
#include <vector>

#include "common/machine.h"
#include "common/trace_event.h"

namespace moetwin {

/// Room in an agent's log: 12 MiB a CTA.
constexpr uint32_t kTraceEventsPerAgent = 65536;

struct CardTrace {
  std::vector<KernelArgs> launches;
  std::vector<TraceEvent> events;  ///< of all launches, in the order of their times
  uint64_t lost = 0;               ///< events that found their agent's log full
};

/// Puts the logs of one launch's agents, each in its own order, into one order by time: at one
/// moment, what others may wait for comes before the end of a wait. `logs` are
/// [ranks * sms][kAgentsPerCta]. Words, logged by address, become word_id()s; `bases` are the
/// addresses of the ranks' buffers.
void merge_logs(const KernelArgs& args, const std::vector<uint64_t>& bases,
                const std::vector<std::vector<TraceEvent>>& logs, CardTrace& trace);

}  // namespace moetwin
