#include "model/wait_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace moetwin {
namespace {

constexpr size_t kMaxFindings = 6;
constexpr size_t kMaxNamed = 4;

/// One waiting agent with what keeps it.
struct Told {
  size_t agent = 0;
  std::string wanted;           ///< what is awaited, wanted and got
  std::string provided_by;      ///< the step that should have ended the wait
  std::vector<size_t> missing;  ///< who has not provided it
  bool not_resident = false;
  bool dead_end = false;  ///< somebody missing can never come
  bool partial = false;   ///< some came, others did not
};

class Explainer {
 public:
  Explainer(const KernelPlan& plan, uint32_t ranks, const std::vector<WaitingAgent>& agents)
      : plan_(plan), ranks_(ranks), agents_(agents) {
    for (const WaitingAgent& agent : agents)
      launches_differ_ |=
          agent.launch && agents.front().launch && *agent.launch != *agents.front().launch;
  }

  std::vector<Finding> explain() const {
    std::vector<Told> all;
    for (size_t i = 0; i < agents_.size(); ++i)
      if (agents_[i].state == AgentState::Waits) all.push_back(tell(i));
    std::stable_sort(all.begin(), all.end(),
                     [&](const Told& a, const Told& b) { return importance(a) < importance(b); });
    std::vector<Finding> findings;
    std::vector<size_t> more;
    for (const Told& told : all) {
      const auto same = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) {
        return f.step == agents_[told.agent].step && f.rank == rank_of(told.agent);
      });
      if (same != findings.end()) {
        ++more[static_cast<size_t>(same - findings.begin())];
      } else if (findings.size() < kMaxFindings) {
        findings.push_back(finding(told));
        more.push_back(0);
      }
    }
    for (size_t i = 0; i < findings.size(); ++i)
      if (more[i] != 0)
        findings[i].text +=
            fmt::format(". {} more agents of rank {} wait at this step", more[i], findings[i].rank);
    return findings;
  }

 private:
  uint32_t rank_of(size_t agent) const {
    return static_cast<uint32_t>(agent / kAgentsPerCta / plan_.sms);
  }
  uint32_t sm_of(size_t agent) const {
    return static_cast<uint32_t>(agent / kAgentsPerCta % plan_.sms);
  }
  static uint32_t place_of(size_t agent) { return static_cast<uint32_t>(agent % kAgentsPerCta); }
  std::string name(size_t agent) const {
    const AgentOfCta in_cta = agent_at(place_of(agent));
    const std::string name = agent_name(rank_of(agent), sm_of(agent), in_cta.role, in_cta.number);
    const std::optional<uint32_t> launch = agents_[agent].launch;
    return launches_differ_ && launch ? fmt::format("{} (launch {})", name, *launch) : name;
  }

  int importance(const Told& told) const {
    if (agents_[told.agent].waits_for == WaitsFor::TableBound) return 0;
    if (told.not_resident) return 1;
    if (told.dead_end) return 2;
    return told.partial || agents_[told.agent].likely ? 3 : 4;
  }

  Finding finding(const Told& told) const {
    const WaitingAgent& a = agents_[told.agent];
    std::string text = fmt::format("{} {}: {}", name(told.agent), step_words(a.step), told.wanted);
    std::string other;
    for (size_t i = 0; i < told.missing.size() && i < kMaxNamed; ++i)
      other += fmt::format("{}{}", i == 0 ? "" : "; ", state_of(told.missing[i]));
    if (told.missing.size() > kMaxNamed)
      other += fmt::format("; and {} more", told.missing.size() - kMaxNamed);
    if (!other.empty()) text += fmt::format(". {}: {}", told.provided_by, other);
    const AgentOfCta in_cta = agent_at(place_of(told.agent));
    return {a.waits_for == WaitsFor::TableBound ? FindingClass::Overflow
            : told.not_resident                 ? FindingClass::Residency
                                                : FindingClass::Deadlock,
            a.step,
            rank_of(told.agent),
            sm_of(told.agent),
            fmt::format("{} {}", role_name(in_cta.role), in_cta.number),
            text + a.remark,
            std::move(other)};
  }

  std::string state_of(size_t agent) const {
    switch (agents_[agent].state) {
      case AgentState::Absent:
        return fmt::format("rank {} is not there: {}", rank_of(agent), agents_[agent].remark);
      case AgentState::NeverRan:
        return fmt::format("{} never ran (SM {} is not resident)", name(agent), sm_of(agent));
      case AgentState::Left:
        return name(agent) + " has left the kernel";
      case AgentState::NextLaunch:
        return name(agent) + " waits for the next launch";
      case AgentState::CouldRun:
        return name(agent) + " could run";
      default:
        return fmt::format("{} {}", name(agent), step_words(agents_[agent].step));
    }
  }

  Told tell(size_t agent) const {
    const WaitingAgent& a = agents_[agent];
    Told told;
    told.agent = agent;
    const std::string progress =
        a.progress.empty() ? std::string(" is not complete") : ": " + a.progress;
    switch (a.waits_for) {
      case WaitsFor::MbarrierPhase:
        told.wanted = fmt::format("{}, phase of parity {}{}", mbarrier_name(plan_, a.object),
                                  a.awaited.value, progress);
        add_missing(agent, mbarrier_members(plan_, a.object), told);
        break;
      case WaitsFor::NamedBarrier: {
        const auto barrier = static_cast<NamedBarrier>(a.object);
        told.wanted = fmt::format("named barrier {}{}", named_barrier_name(barrier), progress);
        add_missing(agent, named_barrier_members(plan_, barrier), told);
        break;
      }
      case WaitsFor::Word:
        tell_word(agent, told);
        break;
      case WaitsFor::BulkStores:
        told.wanted = "its bulk stores have not been committed or have not landed";
        told.dead_end = true;
        break;
      case WaitsFor::TableBound:
        told.wanted = fmt::format("index {} of {} was refused before the write (expert {})", a.got,
                                  a.awaited.value, a.object);
        break;
    }
    for (const size_t other : told.missing) {
      const AgentState state = agents_[other].state;
      told.not_resident |= state == AgentState::NeverRan;
      told.dead_end |= state == AgentState::Left || state == AgentState::Absent ||
                       state == AgentState::NextLaunch;
    }
    return told;
  }

  void add_missing(size_t agent, AgentMask members, Told& told) const {
    told.provided_by = "Missing";
    const size_t first = agent - place_of(agent);
    for (uint32_t place = 0; place < kAgentsPerCta; ++place)
      if (((members & ~agents_[agent].arrived) >> place & 1) != 0)
        told.missing.push_back(first + place);
  }

  void tell_word(size_t agent, Told& told) const {
    const WaitingAgent& a = agents_[agent];
    const char* condition = a.awaited.kind == Awaited::Kind::AtLeast ? "wanted at least"
                            : a.awaited.kind == Awaited::Kind::Equal ? "wanted"
                                                                     : "wanted the other phase of";
    told.wanted = fmt::format("{}, {} {}, is {}", a.place, condition, a.awaited.value, a.got);
    const WordProvider* provider = word_provider(a.step);
    if (provider == nullptr) return;
    told.provided_by =
        fmt::format("{} {}, and", role_name(provider->role), step_words(provider->provides));
    for (size_t other = 0; other < agents_.size(); ++other)
      if (agent_at(place_of(other)).role == provider->role && exists(other) &&
          can_provide(agent, other))
        told.missing.push_back(other);
    if (a.step == Step::GridWait)
      told.wanted = fmt::format("{} of {} SMs of rank {} arrived", plan_.sms - told.missing.size(),
                                plan_.sms, rank_of(agent));
    if (a.step == Step::RankWait)
      told.wanted += fmt::format(": {} of {} ranks arrived", ranks_ - told.missing.size(), ranks_);
    told.partial = a.step == Step::GridWait || a.step == Step::RankWait || a.got != 0;
  }

  bool exists(size_t agent) const {
    return place_of(agent) < agent_place(Role::Math, plan_.math_warpgroups);
  }

  /// Whether `other` is one whose contribution the wait of `agent` may lack: at the barriers one
  /// that does not wait behind its own arrival, elsewhere one of the same rank.
  bool can_provide(size_t agent, size_t other) const {
    const WaitingAgent& a = agents_[agent];
    const WaitingAgent& b = agents_[other];
    const bool arrived = b.state == AgentState::Waits && b.step == a.step &&
                         b.awaited.value >> 31 == a.awaited.value >> 31;
    if (a.step == Step::RankWait)
      return sm_of(other) == 0 && place_of(other) == 0 && rank_of(other) != rank_of(agent) &&
             !arrived;
    if (rank_of(other) != rank_of(agent)) return false;
    return a.step != Step::GridWait || (place_of(other) == 0 && !arrived);
  }

  const KernelPlan& plan_;
  uint32_t ranks_;
  const std::vector<WaitingAgent>& agents_;
  bool launches_differ_ = false;
};

}  // namespace

std::string mbarrier_name(const KernelPlan& plan, uint32_t bar) {
  if (bar < plan.task_full(0).index)
    return fmt::format("mbarrier {}[{}]", bar % 2 == 0 ? "full" : "empty", bar / 2);
  if (bar < plan.task_empty(0).index)
    return fmt::format("mbarrier task_full[{}]", bar - plan.task_full(0).index);
  if (bar < plan.pull(0).index)
    return fmt::format("mbarrier task_empty[{}]", bar - plan.task_empty(0).index);
  if (bar < plan.combine(0, 0).index)
    return fmt::format("mbarrier pull[{}]", bar - plan.pull(0).index);
  return fmt::format("mbarrier combine[{}]", bar - plan.combine(0, 0).index);
}

std::string agent_name(uint32_t rank, uint32_t sm, Role role, uint32_t number) {
  return fmt::format("rank {} SM {} {} {}", rank, sm, role_name(role), number);
}

std::vector<Finding> explain_waits(const KernelPlan& plan, uint32_t ranks,
                                   const std::vector<WaitingAgent>& agents) {
  return Explainer(plan, ranks, agents).explain();
}

}  // namespace moetwin
