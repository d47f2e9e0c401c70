#include "cuda/trace_buffer.h"

#include <algorithm>
#include <string>

#include "common/check.h"
#include "cuda/cuda_error.h"

namespace moetwin {
namespace {

uint64_t num_agents(const KernelArgs& args) {
  return uint64_t{args.shape.ranks} * args.plan.sms * kAgentsPerCta;
}

}  // namespace

TraceLogs TraceBuffer::prepare(const KernelArgs& args, uint32_t capacity, cudaStream_t stream) {
  capacity_ = capacity;
  const uint64_t agents = num_agents(args);
  const uint64_t bytes = agents * capacity * sizeof(TraceEvent);
  if (!events_.reserve(bytes) || !counts_.reserve(agents * sizeof(uint32_t)))
    throw InputError("--trace: the logs of " + std::to_string(agents) + " agents need " +
                     std::to_string(bytes >> 20) + " MiB on the card, which has not got them");
  check_cuda(cudaMemsetAsync(counts_.data(), 0, agents * sizeof(uint32_t), stream),
             "clearing the event logs");
  return {events_.address(), counts_.address(), capacity};
}

void TraceBuffer::collect(const KernelArgs& args, const std::vector<uint64_t>& bases,
                          CardTrace& trace) const {
  std::vector<uint32_t> counts(num_agents(args));
  check_cuda(cudaMemcpy(counts.data(), counts_.data(), counts.size() * sizeof(uint32_t),
                        cudaMemcpyDeviceToHost),
             "reading the event logs");
  std::vector<std::vector<TraceEvent>> logs(counts.size());
  for (size_t agent = 0; agent < counts.size(); ++agent) {
    logs[agent].resize(std::min(counts[agent], capacity_));
    trace.lost += counts[agent] - logs[agent].size();
    if (logs[agent].empty()) continue;
    check_cuda(
        cudaMemcpy(logs[agent].data(), events_.data() + agent * capacity_ * sizeof(TraceEvent),
                   logs[agent].size() * sizeof(TraceEvent), cudaMemcpyDeviceToHost),
        "reading the event logs");
  }
  merge_logs(args, bases, logs, trace);
}

}  // namespace moetwin
