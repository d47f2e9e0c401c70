#include "cuda/card_trace.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

namespace moetwin {
namespace {

/// A word that lies in no rank's buffer keeps its address, which no word_id() of a rank equals.
uint64_t word_of(uint64_t address, const KernelArgs& args, const std::vector<uint64_t>& bases) {
  for (uint32_t rank = 0; rank < bases.size(); ++rank) {
    if (address < bases[rank] || address - bases[rank] >= args.layout.total) continue;
    const uint64_t offset = address - bases[rank];
    for (uint32_t region = 0; region < kNumRegions; ++region) {
      const uint64_t first = args.layout.offsets[region];
      if (offset >= first && offset - first < args.layout.bytes[region])
        return word_id(rank, region, offset - first);
    }
  }
  return word_id(kMaxRanks, 0, address & 0xFFFFFFFFFFFF);
}

}  // namespace

void merge_logs(const KernelArgs& args, const std::vector<uint64_t>& bases,
                const std::vector<std::vector<TraceEvent>>& logs, CardTrace& trace) {
  using Head = std::tuple<uint64_t, bool, size_t, size_t>;  // time, ends a wait, log, place in it
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  const auto push = [&](size_t log, size_t place, uint64_t not_before) {
    if (place == logs[log].size()) return;
    const TraceEvent& e = logs[log][place];
    heads.emplace(std::max(e.time, not_before), e.kind == TraceKind::End, log, place);
  };
  uint64_t start = UINT64_MAX;
  for (size_t log = 0; log < logs.size(); ++log) {
    push(log, 0, 0);
    if (!logs[log].empty()) start = std::min(start, logs[log].front().time);
  }
  const auto launch = static_cast<uint32_t>(trace.launches.size());
  trace.launches.push_back(args);
  if (heads.empty()) return;
  for (uint32_t rank = 0; rank < args.shape.ranks; ++rank)
    trace.events.push_back({start, 0, launch, static_cast<uint16_t>(rank), 0, 0, TraceKind::Launch,
                            Step::None, TraceObject::Nothing});
  while (!heads.empty()) {
    const auto [time, ends, log, place] = heads.top();
    heads.pop();
    TraceEvent e = logs[log][place];
    e.time = time;
    if (e.what == TraceObject::Word) e.object = word_of(e.object, args, bases);
    trace.events.push_back(e);
    push(log, place + 1, time);
  }
}

}  // namespace moetwin
