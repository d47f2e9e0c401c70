// From blocked agents to sentences: what each waits for, what it got, who could have provided it
// and why that one cannot.
#include "cpu_sim/wait_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "cpu_sim/barrier_members.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

constexpr size_t kMaxDeadlockFindings = 6;
constexpr size_t kMaxNamed = 4;

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

/// One blocked agent with what keeps it.
struct Blocked {
  const Agent* agent;
  std::string wanted;                 ///< what is awaited, wanted and got
  std::string provided_by;            ///< the step that should have ended the wait
  std::vector<const Agent*> missing;  ///< who has not provided it
  bool partial = false;               ///< some came, others did not
  bool not_resident = false;
  bool dead_end = false;  ///< somebody missing can never come
};

class Explainer {
 public:
  explicit Explainer(Simulation& sim) : sim_(sim) {}

  std::vector<Finding> explain() {
    for (const Agent& a : sim_.agents())
      if (is_blocked(a)) blocked_.push_back(describe(a));
    // The likeliest cause first: somebody who can never come, then a barrier that only some
    // reached.
    std::stable_sort(blocked_.begin(), blocked_.end(),
                     [](const Blocked& x, const Blocked& y) { return rank_of(x) < rank_of(y); });
    std::vector<Finding> findings;
    for (const Blocked& b : blocked_) {
      if (findings.size() == kMaxDeadlockFindings) break;
      const bool seen = std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
        return f.step == b.agent->wait.step && f.rank == b.agent->rank;
      });
      if (!seen) findings.push_back(finding(b));
    }
    return findings;
  }

 private:
  static int rank_of(const Blocked& b) {
    if (b.not_resident) return 0;
    if (b.dead_end) return 1;
    return b.partial ? 2 : 3;
  }

  static bool is_blocked(const Agent& a) {
    return !a.finished && a.wait.kind != Wait::Kind::Nothing && a.wait.kind != Wait::Kind::Launch;
  }

  Finding finding(const Blocked& b) {
    std::string text = fmt::format("{} {}: {}", sim_.agent_name(*b.agent),
                                   step_words(b.agent->wait.step), b.wanted);
    std::string other;
    for (size_t i = 0; i < b.missing.size() && i < kMaxNamed; ++i)
      other += fmt::format("{}{}", i == 0 ? "" : "; ", state_of(*b.missing[i]));
    if (b.missing.size() > kMaxNamed)
      other += fmt::format("; and {} more", b.missing.size() - kMaxNamed);
    if (!other.empty()) text += fmt::format(". {}: {}", b.provided_by, other);
    return {b.not_resident ? FindingClass::Residency : FindingClass::Deadlock,
            b.agent->wait.step,
            b.agent->rank,
            b.agent->sm,
            fmt::format("{} {}", role_name(b.agent->role), b.agent->number),
            std::move(text),
            std::move(other)};
  }

  std::string state_of(const Agent& a) {
    const std::string name = sim_.agent_name(a);
    if (!a.started) return fmt::format("{} never ran (SM {} is not resident)", name, a.sm);
    if (a.finished) return fmt::format("{} has left the kernel", name);
    if (a.wait.kind == Wait::Kind::Launch) return fmt::format("{} waits for the next launch", name);
    if (a.wait.kind == Wait::Kind::Nothing) return fmt::format("{} could run", name);
    return fmt::format("{} {}", name, step_words(a.wait.step));
  }

  Blocked describe(const Agent& a) {
    Blocked b;
    b.agent = &a;
    switch (a.wait.kind) {
      case Wait::Kind::Word:
        describe_word(a, b);
        break;
      case Wait::Kind::Mbarrier:
        describe_mbarrier(a, b);
        break;
      case Wait::Kind::NamedBarrier:
        describe_named(a, b);
        break;
      default:
        b.wanted = "its bulk stores have not been committed or have not landed";
        b.dead_end = true;
    }
    for (const Agent* m : b.missing) {
      b.not_resident |= !m->started;
      b.dead_end |= m->finished || m->wait.kind == Wait::Kind::Launch;
    }
    return b;
  }

  void describe_word(const Agent& a, Blocked& b) {
    const uint32_t value = sim_.word_value(a.wait.address);
    const WordProvider* provider =
        std::find_if(std::begin(kWordProviders), std::end(kWordProviders),
                     [&](const WordProvider& p) { return p.wait == a.wait.step; });
    if (provider == std::end(kWordProviders)) return;
    b.provided_by =
        fmt::format("{} {}, and", role_name(provider->role), step_words(provider->provides));
    for (const Agent& other : sim_.agents()) {
      if (other.role != provider->role) continue;
      if (a.wait.step == Step::RankWait) {
        if (other.sm != 0 || other.number != 0) continue;
        if (other.rank == a.rank || arrived_at(other, Step::RankWait, a)) continue;
      } else {
        if (other.rank != a.rank) continue;
        if (a.wait.step == Step::GridWait &&
            (other.number != 0 || arrived_at(other, Step::GridWait, a)))
          continue;
      }
      b.missing.push_back(&other);
    }
    if (a.wait.step == Step::GridWait) {
      const uint32_t sms = sim_.plan().sms;
      b.wanted =
          fmt::format("{} of {} SMs of rank {} arrived", sms - b.missing.size(), sms, a.rank);
      b.partial = true;
    } else if (a.wait.step == Step::RankWait) {
      b.wanted = fmt::format("{}, wanted {}, is {}: {} of {} ranks arrived",
                             sim_.place_name(a.wait.address), a.wait.awaited.value, value,
                             sim_.ranks().size() - b.missing.size(), sim_.ranks().size());
      b.partial = true;
    } else {
      b.wanted = fmt::format("{}, wanted at least {}, is {}", sim_.place_name(a.wait.address),
                             a.wait.awaited.value, value);
      b.partial = value != 0;
    }
  }

  /// Whether `other` waits behind its arrival at the same barrier round as `a`.
  static bool arrived_at(const Agent& other, Step step, const Agent& a) {
    return other.started && !other.finished && other.wait.step == step &&
           other.wait.awaited.value >> 31 == a.wait.awaited.value >> 31;
  }

  void describe_mbarrier(const Agent& a, Blocked& b) {
    const Cta& cta = sim_.ctas()[a.rank * sim_.plan().sms + a.sm];
    const SimMbarrier& bar = cta.mbarriers[a.wait.bar];
    b.wanted = fmt::format("{}, phase of parity {}: {} of {} arrivals, {} bytes to come",
                           sim_.mbarrier_name(a.wait.bar), a.wait.parity, bar.arrivals,
                           bar.expected, bar.bytes);
    if ((bar.phases & 1) == (a.wait.parity & 1) && a.phases_seen[a.wait.bar] != 0 &&
        bar.phases + 1 > a.phases_seen[a.wait.bar])
      b.wanted += "; the phase it waits for is already over";
    b.partial = bar.arrivals != 0 || bar.bytes != 0;
    b.provided_by = "Missing";
    add_missing(a, mbarrier_members(a.wait.bar) & ~bar.arrived, b);
  }

  AgentMask mbarrier_members(uint32_t bar) const {
    const KernelPlan& p = sim_.plan();
    const AgentMask load_a = 1u << kDispatchWarps;
    const AgentMask load_b = load_a << 1;
    const AgentMask math = ((1u << p.math_warpgroups) - 1) << kWarpgroupWarps;
    if (bar < p.empty(0).index) return load_a | load_b;
    if (bar < p.task_full(0).index) return math;
    if (bar < p.task_empty(0).index) return load_a;
    if (bar < p.pull(0).index) return load_b | math;
    if (bar < p.combine(0, 0).index) return 1u << (bar - p.pull(0).index);
    return 1u << (kWarpgroupWarps + (bar - p.combine(0, 0).index) / kCombineStages);
  }

  void describe_named(const Agent& a, Blocked& b) {
    const Cta& cta = sim_.ctas()[a.rank * sim_.plan().sms + a.sm];
    const SimNamedBarrier& bar = cta.named[a.wait.bar];
    b.wanted = fmt::format("named barrier {}: {} of {} threads arrived",
                           named_barrier_name(static_cast<NamedBarrier>(a.wait.bar)),
                           bar.arrived_threads, bar.threads);
    b.partial = true;
    b.provided_by = "Missing";
    add_missing(
        a,
        named_barrier_members(static_cast<NamedBarrier>(a.wait.bar), sim_.plan().math_warpgroups) &
            ~bar.arrived,
        b);
  }

  void add_missing(const Agent& a, AgentMask members, Blocked& b) {
    const uint32_t first = sim_.id_of(a) - a.in_cta;
    for (uint32_t i = 0; members >> i != 0; ++i)
      if ((members >> i & 1) != 0) b.missing.push_back(&sim_.agents()[first + i]);
  }

  Simulation& sim_;
  std::vector<Blocked> blocked_;
};

}  // namespace

std::vector<Finding> explain_deadlock(Simulation& sim) { return Explainer(sim).explain(); }

}  // namespace moetwin
