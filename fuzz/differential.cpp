#include "fuzz/differential.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <utility>

#include "common/check.h"
#include "common/kernel_plan.h"
#include "cpu_sim/simulate.h"
#include "fuzz/mutants.h"
#include "fuzz/plants.h"
#include "model/compare.h"
#include "model/naive.h"

namespace moetwin {
namespace {

/// What a planted fault changes; nothing where the case has none.
struct PlantedChange {
  Mutant mutant;
  std::function<void(Problem& problem, KernelArgs& args)> alter;
};

PlantedChange planted_change(const std::string& id) {
  if (id.empty()) return {};
  if (const Plant* plant = find_plant(id)) {
    if (plant->alter == nullptr) return {plant->mutant, {}};
    return {plant->mutant, plant->alter};
  }
  for (const GeneratedMutant& mutant : generate_mutants())
    if (mutant.id == id) return {mutant.mutant, {}};
  throw InputError(
      fmt::format("plant: '{}' is no planted fault (moetwin faults --list)", id.substr(0, 60)));
}

/// "math 0" and "math 1" are one role.
std::string role_of(const Finding& finding) {
  return finding.role.substr(0, finding.role.find(' '));
}

Cause cause_of(const Finding& finding) {
  return {finding_class_name(finding.kind), step_name(finding.step), role_of(finding)};
}

class Judge {
 public:
  Judge(const Case& c, const JudgeOptions& options)
      : case_(c), options_(options), planted_(planted_change(c.plant)) {}

  Judged run() {
    if (!options_.math) {
      judge_counts();
      return std::move(judged_);
    }
    const RunResult left = run_side(options_.left);
    if (!complete(left, options_.left.name)) return std::move(judged_);
    const RunResult right = run_side(options_.right);
    if (!complete(right, options_.right.name)) return std::move(judged_);
    compare(left, right);
    const RunResult& simulated = options_.left.simulated() ? left : right;
    const bool any = options_.left.simulated() || options_.right.simulated();
    if (judged_.cause.none() && options_.relation && any) relate(simulated);
    return std::move(judged_);
  }

 private:
  RunOptions run_options() const {
    RunOptions run;
    run.threads = 1;
    run.math = options_.math;
    run.unsafe_ring = options_.unsafe_ring;
    run.weights = options_.weights;
    return run;
  }

  RunResult run_side(const FuzzSide& side) {
    if (side.simulated()) return run_simulator(case_, {});
    if (side.run) return side.run(case_, run_options());
    MOETWIN_CHECK(side.name == "naive");
    RunResult result;
    WeightCache cache(options_.weights);
    for (size_t launch = 0; launch < case_.launches.size(); ++launch)
      result.launches.push_back(run_naive(make_problem(case_, launch, cache), {.threads = 1}));
    return result;
  }

  /// `alter` on top of what the planted fault alters.
  RunResult run_simulator(const Case& c, const std::function<void(Problem&, KernelArgs&)>& alter) {
    static thread_local SignalObserver observer;
    const LaunchSpec& first = c.launches.front();
    const PlanResult planned = make_plan(first.shape, c.kernel, options_.unsafe_ring);
    observer.begin(planned.plan.x_full_a_block(), planned.plan.tiles.linear1_slices(),
                   c.shape.ranks, planned.plan.ring_blocks);
    Probes probes;
    probes.observer = &observer;
    probes.max_events = kMaxFuzzEvents;
    probes.pool = options_.pool;
    if (planted_.alter || alter)
      probes.alter = [&](Problem& problem, KernelArgs& args) {
        if (alter) alter(problem, args);
        if (planted_.alter) planted_.alter(problem, args);
      };
    RunOptions run = run_options();
    run.check = options_.check;
    run.record = options_.record;
    // Recorded choices are those of a run that steps through every k loop.
    run.full_k_loop = options_.record || c.schedule.compare(0, 7, "replay:") == 0;
    const RunResult result = simulate(c, run, planted_.mutant, probes);
    judged_.signals |= observer.signals();
    if (options_.record) judged_.schedule_string = result.schedule_string;
    return result;
  }

  /// Whether a side came to its end without a finding; else that is the verdict.
  bool complete(const RunResult& result, const std::string& side) {
    for (const Finding& finding : result.findings) {
      if (finding.kind == FindingClass::Slow) continue;
      if (judged_.cause.none()) {
        judged_.cause = cause_of(finding);
        judged_.finding = finding;
      } else {
        judged_.later.push_back(finding);
      }
    }
    if (!judged_.cause.none()) return false;
    if (result.launches.size() == case_.launches.size() || !options_.math) return true;
    differ("no result", side,
           fmt::format("{} gave {} of {} launches", side, result.launches.size(),
                       case_.launches.size()));
    return false;
  }

  void differ(const std::string& site, const std::string& role, std::string text) {
    judged_.cause = {finding_class_name(FindingClass::Mismatch), site, role};
    judged_.finding.kind = FindingClass::Mismatch;
    judged_.finding.text = std::move(text);
  }

  void compare(const RunResult& left, const RunResult& right) {
    for (size_t launch = 0; launch < case_.launches.size(); ++launch) {
      judged_.rows += left.launches[launch].rows.size();
      if (!judged_.cause.none()) continue;
      const std::optional<Difference> first =
          first_difference(left.launches[launch], right.launches[launch]);
      if (first)
        differ(stage_name(first->stage), "",
               fmt::format("launch {}: {}", launch,
                           describe(*first, options_.left.name, options_.right.name)));
    }
  }

  void relate(const RunResult& original) {
    const std::optional<RelatedCase> related =
        related_case(*options_.relation, case_, options_.relation_seed);
    if (!related) return;
    const RunResult changed = run_simulator(related->c, related->alter);
    judged_.related = true;
    const std::string relation = relation_name(*options_.relation);
    if (changed.failed() || changed.launches.size() != related->c.launches.size()) {
      differ(relation, "relation",
             fmt::format("where {} changes: {}", relation,
                         changed.findings.empty() ? "no result" : changed.findings.front().text));
      return;
    }
    const std::string broken = broken_relation(*related, original.launches, changed.launches);
    if (!broken.empty()) differ(relation, "relation", broken);
  }

  /// Without arithmetic there is no y: what was pulled and combined is held against the routing.
  void judge_counts() {
    uint64_t tokens = 0;
    for (size_t launch = 0; launch < case_.launches.size(); ++launch)
      for (const RankInput& input : make_routed_problem(case_, launch).ranks) {
        tokens += input.num_tokens;
        judged_.rows += static_cast<uint64_t>(
            std::count_if(input.topk_idx.begin(), input.topk_idx.end(),
                          [](int32_t expert) { return expert != kMaskedExpert; }));
      }
    const RunResult result = run_simulator(case_, {});
    if (!complete(result, "sim")) return;
    if (result.counts.rows_pulled != judged_.rows)
      differ("rows_pulled", "",
             fmt::format("{} rows were pulled, {} are routed", result.counts.rows_pulled,
                         judged_.rows));
    else if (result.counts.rows_combined != tokens)
      differ("rows_combined", "",
             fmt::format("{} tokens were combined, there are {}", result.counts.rows_combined,
                         tokens));
  }

  const Case& case_;
  const JudgeOptions& options_;
  PlantedChange planted_;
  Judged judged_;
};

Judged failed_run(const char* kind, const std::exception& error) {
  Judged judged;
  judged.cause = {kind, "", ""};
  judged.finding.kind = FindingClass::Mismatch;
  judged.finding.text = error.what();
  return judged;
}

}  // namespace

std::string cause_text(const Cause& cause) {
  return cause.kind + (cause.site.empty() ? "" : " at " + cause.site) +
         (cause.role.empty() ? "" : ", " + cause.role);
}

bool names_step(const std::string& text, const std::string& step) {
  const std::string name = " at " + step;
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (end == text.size() || std::isalnum(static_cast<unsigned char>(text[end])) == 0) return true;
  }
  return false;
}

bool keep_verdict(const Judged& wanted, Judged& judged) {
  const auto is_wanted = [&](const Cause& cause, const Finding& finding) {
    if (cause.kind != wanted.cause.kind) return false;
    return cause.site == wanted.cause.site || (names_step(wanted.finding.other, cause.site) &&
                                               names_step(finding.other, wanted.cause.site));
  };
  if (is_wanted(judged.cause, judged.finding)) return true;
  for (const Finding& finding : judged.later) {
    if (!is_wanted(cause_of(finding), finding)) continue;
    judged.cause = cause_of(finding);
    judged.finding = finding;
    return true;
  }
  return false;
}

Judged judge_case(const Case& c, const JudgeOptions& options) {
  try {
    return Judge(c, options).run();
  } catch (const InputError& error) {
    return failed_run("refused", error);
  } catch (const InternalError& error) {
    return failed_run("internal", error);
  }
}

}  // namespace moetwin
