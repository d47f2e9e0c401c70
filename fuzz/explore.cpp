#include "fuzz/explore.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <exception>

#include "common/check.h"
#include "fuzz/exhaustive.h"
#include "fuzz/plants.h"

namespace moetwin {
namespace {

/// What one run leaves to the whole.
struct Explored {
  std::vector<Finding> findings;
  Coverage coverage;
  uint64_t behaviour = 0;
  uint64_t events = 0;
  std::string schedule;
};

/// "math 0" and "math 1" are one role to a reader of findings.
std::string role_of(const Finding& finding) {
  return finding.role.substr(0, finding.role.find(' '));
}

class Collector {
 public:
  Collector(const Case& c, const ExploreOptions& options) : case_(c), options_(options) {
    const LaunchSpec& largest = *std::max_element(
        c.launches.begin(), c.launches.end(),
        [&](const LaunchSpec& x, const LaunchSpec& y) { return blocks(x) < blocks(y); });
    const PlanResult planned =
        make_plan(largest.shape, c.kernel, options.run.unsafe_ring, options.run.math);
    if (planned.error)
      throw InputError(fmt::format("{}: {} is not {}", planned.error.field, planned.error.value,
                                   planned.error.limit));
    plan_ = planned.plan;
  }

  /// Runs `schedules` side by side and takes the results in their order.
  void run_all(const std::vector<std::string>& schedules) {
    std::vector<Explored> explored(schedules.size());
    std::exception_ptr failure;
#pragma omp parallel for num_threads(static_cast <int>(options_.jobs)) schedule(dynamic, 1)
    for (size_t i = 0; i < schedules.size(); ++i) {
      try {
        explored[i] = run_one(schedules[i]);
      } catch (...) {
#pragma omp critical(moetwin_explore_failure)
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    for (Explored& one : explored) take(one);
  }

  void run_exhaustively() {
    if (case_.launches.size() != 1)
      throw InputError("launches: " + std::to_string(case_.launches.size()) +
                       " is not 1, which the exhaustive policy needs");
    ExhaustiveOptions exhaustive;
    exhaustive.run = options_.run;
    exhaustive.run.threads = 1;
    exhaustive.mutant = options_.mutant;
    exhaustive.preemptions = options_.preemptions;
    exhaustive.schedules = options_.schedules;
    const ExhaustiveResult all = explore_exhaustively(
        case_, exhaustive, [&](const RunResult& result, const CoverageObserver& observer) {
          Explored one{result.findings, observer.coverage(), observer.behaviour(),
                       result.counts.events, result.schedule_string};
          take(one);
          if (options_.progress) options_.progress();
          return true;
        });
    result_.schedules = all.schedules;
    result_.redundant = all.redundant;
    result_.cut = all.cut;
    result_.exhausted = all.exhausted;
    result_.choices = all.choices;
  }

  ExploreResult& result() { return result_; }

 private:
  uint64_t blocks(const LaunchSpec& launch) const {
    return smallest_safe_ring(launch.shape, {case_.kernel.block_m, case_.kernel.block_n},
                              case_.kernel.sms_per_rank);
  }

  Explored run_one(const std::string& schedule) const {
    RunOptions run = options_.run;
    run.threads = 1;
    run.schedule = schedule;
    run.record = false;
    run.full_k_loop = true;
    CoverageObserver observer(plan_, case_.shape.ranks);
    const RunResult ran = simulate_case(case_, run, {&observer, nullptr}, options_.mutant);
    if (options_.progress) options_.progress();
    return {ran.findings, observer.coverage(), observer.behaviour(), ran.counts.events, schedule};
  }

  void take(const Explored& one) {
    result_.behaviours.insert(one.behaviour);
    result_.coverage.merge(one.coverage);
    result_.events += one.events;
    for (const Finding& finding : one.findings) {
      const auto known = std::find_if(
          result_.findings.begin(), result_.findings.end(), [&](const ExploredFinding& f) {
            return f.finding.kind == finding.kind && f.finding.step == finding.step &&
                   role_of(f.finding) == role_of(finding);
          });
      if (known == result_.findings.end())
        result_.findings.push_back({finding, one.schedule, 1});
      else
        ++known->times;
    }
  }

  const Case& case_;
  const ExploreOptions& options_;
  KernelPlan plan_{};
  ExploreResult result_;
};

}  // namespace

std::vector<std::string> slow_sweep(const Case& c) {
  std::vector<std::string> schedules{"fifo"};
  for (uint32_t rank = 0; rank < c.shape.ranks; ++rank)
    for (uint32_t role = 0; role < kNumRoles; ++role)
      schedules.push_back(fmt::format("slow:{}@{}", role_name(static_cast<Role>(role)), rank));
  return schedules;
}

ExploreResult explore(const Case& c, const ExploreOptions& options) {
  Collector collector(c, options);
  const std::vector<std::string> sweep = slow_sweep(c);
  collector.run_all(sweep);
  collector.result().swept = sweep.size();
  if (options.policy == ExplorePolicy::Exhaustive) {
    collector.run_exhaustively();
  } else if (options.policy != ExplorePolicy::Slow) {
    std::vector<std::string> schedules;
    for (uint64_t i = 0; i < options.schedules; ++i)
      schedules.push_back(options.policy == ExplorePolicy::Random
                              ? fmt::format("random:{}", options.seed + i)
                              : fmt::format("pct:{}:{}", options.seed + i, kExplorePctDepth));
    collector.run_all(schedules);
    collector.result().schedules = schedules.size();
  }
  return std::move(collector.result());
}

}  // namespace moetwin
