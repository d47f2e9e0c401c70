#include "cuda/hang_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace moetwin {
namespace {

constexpr size_t kMaxNamed = 4;
constexpr uint32_t kLoadAPlace = agent_place(Role::LoadA, 0);
constexpr uint32_t kLoadBPlace = agent_place(Role::LoadB, 0);

/// Agents of a CTA by agent_place(), one bit each.
using AgentMask = uint32_t;
constexpr AgentMask kDispatchAgents = (1u << kDispatchWarps) - 1;
constexpr AgentMask kLoadAgents = 1u << kLoadAPlace | 1u << kLoadBPlace;

AgentMask math_agents(const KernelPlan& plan) {
  return ((1u << plan.math_warpgroups) - 1) << agent_place(Role::Math, 0);
}

/// Who ends a wait on a word.
struct WordProvider {
  Step wait;
  Role role;
  Step provides;
};
constexpr WordProvider kWordProviders[] = {
    {Step::GridWait, Role::Dispatch, Step::GridArrive},
    {Step::RankWait, Role::Dispatch, Step::RankSignal},
    {Step::PullWaitsForRingSlot, Role::Math, Step::MathReleaseBlock},
    {Step::LoadAWaitsForRows, Role::Dispatch, Step::PullPublishRow},
    {Step::LoadAWaitsForLinear1, Role::Math, Step::Linear1Publish},
    {Step::Linear1WaitsForRingSlot, Role::Math, Step::MathReleaseBlock},
};

struct AgentName {
  uint32_t rank;
  uint32_t sm;
  uint32_t place;
};

/// One record in words.
struct Told {
  const WaitRecord* record;
  std::string wanted;
  std::string provided_by;
  std::vector<AgentName> missing;
  bool dead_end = false;  ///< somebody missing has left the kernel
};

class Explainer {
 public:
  Explainer(const KernelArgs& args, const std::vector<WaitRecord>& records,
            const std::vector<uint64_t>& bases, double limit_seconds,
            const std::vector<std::string>& absent)
      : args_(args),
        records_(records),
        bases_(bases),
        limit_seconds_(limit_seconds),
        absent_(absent) {}

  std::vector<Finding> explain() {
    std::vector<Told> all;
    for (const WaitRecord& record : records_)
      if (record.filled != 0) all.push_back(tell(record));
    std::stable_sort(all.begin(), all.end(),
                     [](const Told& a, const Told& b) { return importance(a) < importance(b); });
    std::vector<Finding> findings;
    std::vector<size_t> more;
    for (const Told& told : all) {
      const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) {
        return f.step == told.record->step && f.rank == told.record->rank;
      });
      if (same == findings.end()) {
        findings.push_back(finding(told));
        more.push_back(0);
      } else {
        ++more[static_cast<size_t>(same - findings.begin())];
      }
    }
    for (size_t i = 0; i < findings.size(); ++i)
      if (more[i] != 0)
        findings[i].text +=
            fmt::format(". {} more agents of rank {} wait at this step", more[i], findings[i].rank);
    return findings;
  }

 private:
  static int importance(const Told& told) {
    if (told.record->kind == WaitKind::TableBound) return 0;
    if (told.dead_end) return 1;
    return told.record->first != 0 ? 2 : 3;
  }

  const KernelPlan& plan() const { return args_.plan; }

  std::string name(const AgentName& agent) const {
    const char* role = agent.place < kDispatchWarps ? role_name(Role::Dispatch)
                       : agent.place == kLoadAPlace ? role_name(Role::LoadA)
                       : agent.place == kLoadBPlace ? role_name(Role::LoadB)
                                                    : role_name(Role::Math);
    const uint32_t number = agent.place < kDispatchWarps ? agent.place
                            : agent.place <= kLoadBPlace ? 0
                                                         : agent.place - agent_place(Role::Math, 0);
    return fmt::format("rank {} SM {} {} {}", agent.rank, agent.sm, role, number);
  }

  const WaitRecord& record_of(const AgentName& agent) const {
    return records_[(agent.rank * plan().sms + agent.sm) * kAgentsPerCta + agent.place];
  }

  Finding finding(const Told& told) const {
    const WaitRecord& r = *told.record;
    const AgentName self{r.rank, r.sm, agent_place(r.role, r.agent)};
    std::string text = fmt::format("{} {}: {}", name(self), step_words(r.step), told.wanted);
    std::string other;
    for (size_t i = 0; i < told.missing.size() && i < kMaxNamed; ++i)
      other += fmt::format("{}{}", i == 0 ? "" : "; ", state_of(told.missing[i]));
    if (told.missing.size() > kMaxNamed)
      other += fmt::format("; and {} more", told.missing.size() - kMaxNamed);
    if (!other.empty()) text += fmt::format(". {}: {}", told.provided_by, other);
    if (r.first != 0 && r.kind != WaitKind::TableBound)
      text += fmt::format(" (given up after {} s)", limit_seconds_);
    return {r.kind == WaitKind::TableBound ? FindingClass::Overflow : FindingClass::Deadlock,
            r.step,
            r.rank,
            r.sm,
            fmt::format("{} {}", role_name(r.role), r.agent),
            std::move(text),
            std::move(other)};
  }

  std::string state_of(const AgentName& agent) const {
    const WaitRecord& r = record_of(agent);
    if (agent.rank < absent_.size() && !absent_[agent.rank].empty())
      return fmt::format("rank {} is not there: {}", agent.rank, absent_[agent.rank]);
    if (r.filled == 0) return fmt::format("{} has left the kernel", name(agent));
    return fmt::format("{} {}", name(agent), step_words(r.step));
  }

  Told tell(const WaitRecord& r) const {
    Told told;
    told.record = &r;
    switch (r.kind) {
      case WaitKind::MbarrierPhase:
        told.wanted = fmt::format("{}, phase of parity {}, is not complete",
                                  mbarrier_name(r.object), r.wanted);
        told.provided_by = "Arrivals come from";
        add_members(r, mbarrier_members(r.object), told);
        break;
      case WaitKind::NamedBarrier:
        told.wanted = fmt::format("named barrier {} is not complete",
                                  named_barrier_name(static_cast<NamedBarrier>(r.object)));
        told.provided_by = "Not there";
        add_members(r, named_members(static_cast<NamedBarrier>(r.object)), told);
        break;
      case WaitKind::Word:
        tell_word(r, told);
        break;
      case WaitKind::TableBound:
        told.wanted = fmt::format("index {} of {} was refused before the write (expert {})", r.got,
                                  r.wanted, r.object);
        break;
    }
    for (const AgentName& agent : told.missing) told.dead_end |= record_of(agent).filled == 0;
    return told;
  }

  void add_members(const WaitRecord& r, AgentMask members, Told& told) const {
    for (uint32_t place = 0; place < kAgentsPerCta; ++place) {
      const AgentName agent{r.rank, r.sm, place};
      const WaitRecord& other = record_of(agent);
      const bool waits_too = other.filled != 0 && other.kind == r.kind && other.object == r.object;
      if ((members >> place & 1) != 0 && !waits_too) told.missing.push_back(agent);
    }
  }

  void tell_word(const WaitRecord& r, Told& told) const {
    const char* condition = r.condition == Awaited::Kind::AtLeast ? "wanted at least"
                            : r.condition == Awaited::Kind::Equal ? "wanted"
                                                                  : "wanted the other phase of";
    told.wanted =
        fmt::format("{}, {} {}, is {}", place_name(r.address), condition, r.wanted, r.got);
    const auto provider = std::find_if(std::begin(kWordProviders), std::end(kWordProviders),
                                       [&](const WordProvider& p) { return p.wait == r.step; });
    if (provider == std::end(kWordProviders)) return;
    told.provided_by =
        fmt::format("{} {}, and", role_name(provider->role), step_words(provider->provides));
    const AgentMask members =
        provider->role == Role::Dispatch ? kDispatchAgents : math_agents(plan());
    for (uint32_t rank = 0; rank < args_.shape.ranks; ++rank)
      for (uint32_t sm = 0; sm < plan().sms; ++sm)
        for (uint32_t place = 0; place < kAgentsPerCta; ++place) {
          const AgentName agent{rank, sm, place};
          if ((members >> place & 1) == 0 || !can_provide(r, agent)) continue;
          told.missing.push_back(agent);
        }
  }

  /// Whether this agent is one whose contribution `r` may lack: at the barriers one that does not
  /// wait there itself, elsewhere one of the same rank.
  bool can_provide(const WaitRecord& r, const AgentName& agent) const {
    const WaitRecord& other = record_of(agent);
    const bool waits_too = other.filled != 0 && other.step == r.step;
    if (r.step == Step::RankWait) return agent.sm == 0 && agent.place == 0 && !waits_too;
    if (r.step == Step::GridWait) return agent.rank == r.rank && agent.place == 0 && !waits_too;
    return agent.rank == r.rank;
  }

  std::string place_name(uint64_t address) const {
    for (uint32_t rank = 0; rank < bases_.size(); ++rank) {
      if (address < bases_[rank] || address - bases_[rank] >= args_.layout.total) continue;
      const uint64_t offset = address - bases_[rank];
      for (uint32_t i = 0; i < kNumRegions; ++i) {
        const Region region = static_cast<Region>(i);
        const uint64_t first = args_.layout.offset(region);
        if (offset < first || offset - first >= args_.layout.size(region)) continue;
        const RegionInfo info = region_info(region);
        return fmt::format("{}[{}] of rank {}", info.name, (offset - first) / info.element_bytes,
                           rank);
      }
    }
    return fmt::format("address {:#x}", address);
  }

  std::string mbarrier_name(uint32_t bar) const {
    const KernelPlan& p = plan();
    if (bar < p.empty(0).index) return fmt::format("full[{}]", bar);
    if (bar < p.task_full(0).index) return fmt::format("empty[{}]", bar - p.empty(0).index);
    if (bar < p.task_empty(0).index)
      return fmt::format("task_full[{}]", bar - p.task_full(0).index);
    if (bar < p.pull(0).index) return fmt::format("task_empty[{}]", bar - p.task_empty(0).index);
    if (bar < p.combine(0, 0).index) return fmt::format("pull[{}]", bar - p.pull(0).index);
    return fmt::format("combine[{}]", bar - p.combine(0, 0).index);
  }

  AgentMask mbarrier_members(uint32_t bar) const {
    const KernelPlan& p = plan();
    if (bar < p.empty(0).index) return kLoadAgents;
    if (bar < p.task_full(0).index) return math_agents(p);
    if (bar < p.task_empty(0).index) return 1u << kLoadAPlace;
    if (bar < p.pull(0).index) return 1u << kLoadBPlace | math_agents(p);
    if (bar < p.combine(0, 0).index) return 1u << (bar - p.pull(0).index);
    return 1u << agent_place(Role::Math, (bar - p.combine(0, 0).index) / kCombineStages);
  }

  AgentMask named_members(NamedBarrier barrier) const {
    switch (barrier) {
      case NamedBarrier::Everyone:
        return kDispatchAgents | kLoadAgents | math_agents(plan());
      case NamedBarrier::Dispatch:
        return kDispatchAgents;
      case NamedBarrier::MathDone:
      case NamedBarrier::CombineReady:
        return kDispatchAgents | math_agents(plan());
      case NamedBarrier::MathWarpgroup0:
        return 1u << agent_place(Role::Math, 0);
      default:
        return 1u << agent_place(Role::Math, 1);
    }
  }

  const KernelArgs& args_;
  const std::vector<WaitRecord>& records_;
  const std::vector<uint64_t>& bases_;
  double limit_seconds_;
  const std::vector<std::string>& absent_;
};

}  // namespace

std::vector<Finding> explain_records(const KernelArgs& args, const std::vector<WaitRecord>& records,
                                     const std::vector<uint64_t>& bases, double limit_seconds,
                                     const std::vector<std::string>& absent) {
  return Explainer(args, records, bases, limit_seconds, absent).explain();
}

}  // namespace moetwin
