#include "cuda/group_findings.h"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/hang_report.h"

namespace moetwin {
namespace {

/// An address of some rank's buffer as rank 0 sees it, told by a rank that sees the buffers at
/// `from`.
uint64_t translated(uint64_t address, const std::vector<uint64_t>& from,
                    const std::vector<uint64_t>& to, uint64_t bytes) {
  for (size_t rank = 0; rank < from.size() && rank < to.size(); ++rank)
    if (address >= from[rank] && address - from[rank] < bytes)
      return address - from[rank] + to[rank];
  return address;
}

}  // namespace

std::vector<Finding> group_findings(const KernelArgs& args, const std::vector<uint64_t>& bases,
                                    const std::vector<RecordsAnswer>& records,
                                    const std::vector<std::string>& absent, double limit_seconds) {
  const uint64_t per_rank = uint64_t{args.plan.sms} * kAgentsPerCta;
  std::vector<WaitRecord> all(args.shape.ranks * per_rank);
  for (uint32_t rank = 0; rank < records.size(); ++rank) {
    const RecordsAnswer& own = records[rank];
    const uint64_t count = std::min<uint64_t>(per_rank, own.records.size());
    for (uint64_t i = 0; i < count; ++i) {
      WaitRecord& record = all[rank * per_rank + i];
      record = own.records[i];
      if (record.kind == WaitKind::Word)
        record.address = translated(record.address, own.bases, bases, args.layout.total);
    }
  }
  std::vector<Finding> findings = explain_records(args, all, bases, limit_seconds, absent);
  for (uint32_t rank = 0; rank < absent.size(); ++rank) {
    if (absent[rank].empty()) continue;
    findings.push_back({FindingClass::Residency, Step::None, rank, 0, "host",
                        fmt::format("rank {} is not there: {}", rank, absent[rank]), ""});
  }
  if (findings.empty())
    findings.push_back({FindingClass::Deadlock, Step::None, 0, 0, "host",
                        "the launch was given up, and no agent left a record", ""});
  return findings;
}

std::vector<Finding> late_starts(const std::vector<StartAnswer>& starts) {
  std::vector<Finding> notes;
  const auto first = std::min_element(
      starts.begin(), starts.end(),
      [](const StartAnswer& a, const StartAnswer& b) { return a.started < b.started; });
  for (uint32_t rank = 0; rank < starts.size(); ++rank) {
    const double late = 1e-9 * static_cast<double>(starts[rank].started - first->started);
    if (late < kLateSeconds) continue;
    notes.push_back({FindingClass::Slow, Step::RankWait, rank, 0, "host",
                     fmt::format("rank {} started its launch {:.2f} s after rank {}; the others "
                                 "waited for it at the rank barrier",
                                 rank, late, first - starts.begin()),
                     ""});
  }
  return notes;
}

}  // namespace moetwin
