#include "cuda/hang_report.h"

#include <fmt/format.h>

#include <string>

#include "model/wait_report.h"

namespace moetwin {
namespace {

std::string word_name(uint64_t address, const KernelArgs& args,
                      const std::vector<uint64_t>& bases) {
  for (uint32_t rank = 0; rank < bases.size(); ++rank) {
    if (address < bases[rank] || address - bases[rank] >= args.layout.total) continue;
    const uint64_t offset = address - bases[rank];
    for (uint32_t i = 0; i < kNumRegions; ++i) {
      const Region region = static_cast<Region>(i);
      const uint64_t first = args.layout.offset(region);
      if (offset < first || offset - first >= args.layout.size(region)) continue;
      const RegionInfo info = region_info(region);
      return fmt::format("{}[{}] of rank {}", info.name, (offset - first) / info.element_bytes,
                         rank);
    }
  }
  return fmt::format("address {:#x}", address);
}

WaitsFor waits_for(WaitKind kind) {
  switch (kind) {
    case WaitKind::MbarrierPhase:
      return WaitsFor::MbarrierPhase;
    case WaitKind::NamedBarrier:
      return WaitsFor::NamedBarrier;
    case WaitKind::Word:
      return WaitsFor::Word;
    default:
      return WaitsFor::TableBound;
  }
}

/// Agents of the record's CTA that wait at the same barrier: they have arrived before.
AgentMask waiting_with(const std::vector<WaitRecord>& records, size_t agent) {
  const WaitRecord& r = records[agent];
  const size_t first = agent - agent % kAgentsPerCta;
  AgentMask mask = 0;
  for (uint32_t place = 0; place < kAgentsPerCta; ++place) {
    const WaitRecord& other = records[first + place];
    if (other.filled != 0 && other.kind == r.kind && other.object == r.object)
      mask |= AgentMask{1} << place;
  }
  return mask;
}

}  // namespace

std::vector<Finding> explain_records(const KernelArgs& args, const std::vector<WaitRecord>& records,
                                     const std::vector<uint64_t>& bases, double limit_seconds,
                                     const std::vector<std::string>& absent) {
  std::vector<WaitingAgent> agents(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const WaitRecord& r = records[i];
    WaitingAgent& a = agents[i];
    const size_t rank = i / kAgentsPerCta / args.plan.sms;
    if (rank < absent.size() && !absent[rank].empty()) {
      a.state = AgentState::Absent;
      a.remark = absent[rank];
    }
    if (r.filled == 0) continue;
    a.state = AgentState::Waits;
    a.step = r.step;
    a.waits_for = waits_for(r.kind);
    a.object = r.object;
    a.awaited = {r.condition, r.wanted};
    a.got = r.got;
    a.likely = r.first != 0;
    if (r.kind == WaitKind::Word)
      a.place = word_name(r.address, args, bases);
    else if (r.kind == WaitKind::NamedBarrier)
      a.arrived = waiting_with(records, i);
    if (r.first != 0 && r.kind != WaitKind::TableBound)
      a.remark = fmt::format(" (given up after {} s)", limit_seconds);
  }
  return explain_waits(args.plan, args.shape.ranks, agents);
}

}  // namespace moetwin
