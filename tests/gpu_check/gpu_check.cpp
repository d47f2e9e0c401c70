// moetwin_gpu_check: many cases on one card in one process, every stage compared with the simulator
// (or the naive path). For the machine that has the card: it needs no file but the cases named to
// it. full_size.h has the layers that are too large for the simulator.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "cuda/gpu_session.h"
#include "fuzz/coverage.h"
#include "fuzz/generator.h"
#include "model/case.h"
#include "model/compare.h"
#include "model/naive.h"
#include "tests/gpu_check/breakdown.h"
#include "tests/gpu_check/full_size.h"

namespace moetwin {
namespace {

struct Options {
  uint64_t cases = 0;
  uint64_t seed = 1;
  uint64_t first = 0;
  std::vector<std::string> files;
  std::string out = ".";
  uint32_t rotate = 0;
  bool hang = false;
  bool coverage = false;
  std::string against = "sim";
  std::vector<std::string> sizes;
  std::vector<std::string> times;
  std::vector<std::string> breakdowns;
  std::vector<std::string> variants{"128:128:5:ring"};
  uint32_t repeats = 30;
  bool wide = false;
  FullSizeOptions full;
  double limit_seconds = 0;
  uint32_t max_failures = 5;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A case with everything its launches need and should give.
struct Prepared {
  std::string name;
  Case c;
  std::string refused;  ///< why this card cannot run it, if it cannot
  std::vector<Problem> problems;
  std::vector<LayerResult> expected;
  std::vector<Finding> unexpected;  ///< of the run that gave `expected`
  Coverage covered;
};

class Checker {
 public:
  Checker(const Options& options, GpuSession& session) : options_(options), session_(session) {}

  /// Fills in problems and results; thread safe.
  void prepare(Prepared& p) {
    try {
      for (const LaunchSpec& launch : p.c.launches) session_.check(launch.shape, p.c.kernel);
      WeightCache cache;
      for (size_t i = 0; i < p.c.launches.size(); ++i) {
        p.problems.push_back(make_problem(p.c, i, cache));
        cover_launch(p.c, i, p.problems.back(), p.covered);
      }
      if (options_.against == "naive") {
        for (const Problem& problem : p.problems) p.expected.push_back(run_naive(problem, {1}));
        return;
      }
      RunOptions run_options;
      run_options.threads = 1;
      RunResult run = simulate(p.c, run_options);
      p.expected = std::move(run.launches);
      p.unexpected = std::move(run.findings);
    } catch (const InputError& error) {
      p.refused = error.what();
    }
  }

  void run(const Prepared& p) {
    if (!p.refused.empty()) {
      ++refused_;
      last_refusal_ = p.refused;
      return;
    }
    ++cases_;
    ++variants_[fmt::format("{} ranks, {}, BLOCK_M {}", p.c.shape.ranks,
                            p.c.kernel.scheduler == SchedulerPolicy::Ring ? "ring" : "wave",
                            p.c.kernel.block_m)];
    for (const auto& [feature, count] : p.covered) covered_[feature] += count;
    for (const Finding& finding : p.unexpected)
      fmt::print("{} {}: {}\n", p.name, options_.against, finding.text);
    bool good = p.unexpected.empty() && p.expected.size() == p.problems.size();
    for (size_t i = 0; good && i < p.problems.size(); ++i) {
      const GpuLaunch launch =
          session_.launch(p.problems[i], p.c.kernel, {false, true, p.c.world.poison});
      ++launches_;
      rows_ += p.expected[i].rows.size();
      for (const Finding& finding : launch.findings)
        fmt::print("{} launch {}: {} at {}: {}\n", p.name, i, finding_class_name(finding.kind),
                   step_name(finding.step), finding.text);
      good = launch.finished && launch.findings.empty();
      if (!launch.finished) break;
      const Comparison comparison = compare_results(launch.result, p.expected[i]);
      for (const StageComparison& stage : comparison.stages) {
        values_ += stage.values;
        good = good && stage.compared();
      }
      if (comparison.equal()) continue;
      good = false;
      fmt::print("{} launch {}: {}\n", p.name, i, describe(comparison, "gpu", options_.against));
    }
    if (good) return;
    ++failures_;
    const std::string path = fmt::format("{}/failed_{}.json", options_.out, failures_);
    save_case(p.c, path);
    fmt::print("{}: differs, saved as {}\n", p.name, path);
    std::fflush(stdout);
  }

  bool enough() const { return failures_ >= options_.max_failures; }
  uint64_t failures() const { return failures_; }

  void summary(double seconds) const {
    fmt::print(
        "against {}: {} cases, {} launches, {} routed rows, {} values compared, {} cases differ, "
        "{} "
        "not for this card{}, {:.1f} s\n",
        options_.against, cases_, launches_, rows_, values_, failures_, refused_,
        last_refusal_.empty() ? "" : " (" + last_refusal_ + ")", seconds);
  }

  /// How many cases each variant had, and what the features came to.
  void coverage() const {
    for (const auto& [variant, count] : variants_) fmt::print("  {}: {} cases\n", variant, count);
    uint64_t missing = 0;
    for (const std::string& feature : wanted_features()) {
      const auto found = covered_.find(feature);
      if (found != covered_.end()) continue;
      ++missing;
      fmt::print("  not covered: {}\n", feature);
    }
    fmt::print("coverage: {} features wanted, {} missing\n", wanted_features().size(), missing);
    for (const auto& [feature, count] : covered_) fmt::print("  {}: {}\n", feature, count);
  }

 private:
  const Options& options_;
  GpuSession& session_;
  uint64_t cases_ = 0, launches_ = 0, rows_ = 0, values_ = 0, failures_ = 0, refused_ = 0;
  std::string last_refusal_;
  std::map<std::string, uint64_t> variants_;
  Coverage covered_;
};

/// Cases first, first + 1, ... prepared on all cores.
std::vector<Prepared> prepare_batch(Checker& checker, const Options& options, uint64_t first,
                                    uint64_t count) {
  std::vector<Prepared> batch(count);
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    Prepared& p = batch[static_cast<size_t>(i)];
    const uint64_t index = first + static_cast<uint64_t>(i);
    p.name = fmt::format("case {}:{}", options.seed, index);
    p.c = random_case(options.seed, index);
    if (options.wide) widen_tiles(p.c);
    checker.prepare(p);
  }
  return batch;
}

/// Runs one batch on the card while the next one is prepared.
void run_batches(Checker& checker, const Options& options) {
  static constexpr uint64_t kBatch = 256;
  const uint64_t end = options.first + options.cases;
  const auto start = [&](uint64_t first) {
    return std::async(std::launch::async, [&checker, &options, first, end] {
      return prepare_batch(checker, options, first, std::min(kBatch, end - std::min(end, first)));
    });
  };
  std::future<std::vector<Prepared>> next = start(options.first);
  for (uint64_t first = options.first; first < end && !checker.enough(); first += kBatch) {
    const std::vector<Prepared> batch = next.get();
    next = start(first + kBatch);
    for (const Prepared& p : batch)
      if (!checker.enough()) checker.run(p);
  }
}

/// Launches the same few cases over and over: y must stay as it was the first time.
uint64_t run_rotation(GpuSession& session, const Options& options) {
  struct Turn {
    Case c;
    Problem problem;
    std::vector<uint16_t> y;
  };
  constexpr size_t kTurns = 12;
  std::vector<Turn> turns;
  WeightCache cache;
  for (uint64_t i = options.first; turns.size() < kTurns; ++i) {
    Turn turn{random_case(options.seed, i), {}, {}};
    try {
      session.check(turn.c.launches[0].shape, turn.c.kernel);
    } catch (const InputError&) {
      continue;
    }
    turn.problem = make_problem(turn.c, 0, cache);
    turns.push_back(std::move(turn));
    // A second routing on the same layout: nothing is cleared between the two.
    Turn again = turns.back();
    again.c.routing.seed += 77;
    set_launches(again.c, 1);
    again.problem = make_problem(again.c, 0, cache);
    turns.push_back(std::move(again));
  }
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < options.rotate; ++i) {
    Turn& turn = turns[i % turns.size()];
    GpuLaunch launch = session.launch(turn.problem, turn.c.kernel);
    for (const Finding& finding : launch.findings)
      fmt::print("rotation, launch {}: {}\n", i, finding.text);
    if (i < turns.size()) turn.y = launch.result.y;
    const bool same = launch.finished && launch.findings.empty() && launch.result.y == turn.y;
    wrong += !same;
  }
  fmt::print(
      "rotation: {} launches of {} cases, {} differ from their first or leave a must-be-zero "
      "word\n",
      options.rotate, turns.size(), wrong);
  return wrong;
}

/// Leaves out arrives of one step after the other: each launch must end in a report, and the card
/// must work on afterwards.
uint64_t run_hangs() {
  uint64_t wrong = 0;
  Case c;
  c.shape = {2, 4, 2, 256, 128, 40};
  c.tokens = {40, 17};
  c.kernel.sms_per_rank = 1;  // so that every step is needed more often than there is room
  c.kernel.stages = 1;
  set_launches(c, 1);
  WeightCache cache;
  const Problem problem = make_problem(c, 0, cache);
  for (const Step step : {Step::MathReleaseStage, Step::TaskPublish, Step::TaskRelease,
                          Step::PullPublishRow, Step::Linear1Publish}) {
    GpuSession broken({0, 1.0, step});
    const auto start = std::chrono::steady_clock::now();
    const GpuLaunch launch = broken.launch(problem, c.kernel);
    fmt::print("arrives of {} left out: {} in {:.2f} s, {} findings\n", step_name(step),
               launch.finished ? "FINISHED" : "given up", seconds_since(start),
               launch.findings.size());
    for (const Finding& finding : launch.findings)
      fmt::print("  {} at {}: {}\n", finding_class_name(finding.kind), step_name(finding.step),
                 finding.text);
    wrong += launch.finished || launch.findings.empty();
    GpuSession whole;
    const GpuLaunch after = whole.launch(problem, c.kernel);
    const bool right = after.finished && after.findings.empty() &&
                       compare_results(after.result, run_naive(problem)).equal();
    fmt::print("  afterwards: {}\n", right ? "right" : "WRONG");
    wrong += !right;
  }
  return wrong;
}

/// BLOCK_M:BLOCK_N:STAGES:SCHEDULER[:SIZE] into the options of full-size layers; SIZE is the ring's
/// blocks or the experts of a wave.
FullSizeOptions with_variant(FullSizeOptions options, const std::string& variant) {
  char scheduler[8] = {};
  uint32_t size = 0;
  if (std::sscanf(variant.c_str(), "%u:%u:%u:%7[a-z]:%u", &options.block_m, &options.block_n,
                  &options.stages, scheduler, &size) < 4)
    throw InputError("variant '" + variant + "' is not BLOCK_M:BLOCK_N:STAGES:SCHEDULER[:SIZE]");
  options.wave = std::string(scheduler) == "wave";
  (options.wave ? options.experts_per_wave : options.ring_blocks) = size;
  return options;
}

void run_times(GpuSession& session, const Options& options) {
  if (options.times.empty()) return;
  fmt::print("copies run at {:.2f} TB/s\n", session.copy_bandwidth() * 1e-12);
  WeightCache cache;
  for (const std::string& text : options.times) {
    const Problem problem = make_problem(full_size_case(text, options.full), 0, cache);
    for (const std::string& variant : options.variants) {
      const Case c = full_size_case(text, with_variant(options.full, variant));
      std::vector<double> us = session.time(problem, c.kernel, options.repeats);
      std::sort(us.begin(), us.end());
      fmt::print("{} {}: median {:.1f} us, least {:.1f}, most {:.1f}\n", text, variant,
                 us[us.size() / 2], us.front(), us.back());
      std::fflush(stdout);
    }
  }
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  GpuSession session({0, options.limit_seconds, Step::None});
  fmt::print("{}, driver {}, {} SMs; {} host threads\n", session.device().name,
             session.device().driver, session.device().sms, omp_get_max_threads());
  Checker checker(options, session);
  for (const std::string& file : options.files) {
    Prepared p;
    p.name = file;
    p.c = load_case(file);
    checker.prepare(p);
    checker.run(p);
  }
  run_batches(checker, options);
  checker.summary(seconds_since(start));
  if (options.coverage) checker.coverage();
  uint64_t wrong = checker.failures();
  wrong += check_full_sizes(session, options.sizes, options.full);
  if (options.rotate != 0) wrong += run_rotation(session, options);
  if (options.hang) wrong += run_hangs();
  run_times(session, options);
  for (const std::string& text : options.breakdowns)
    for (const std::string& variant : options.variants)
      print_breakdown(session, text, with_variant(options.full, variant));
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace moetwin

int main(int argc, char** argv) {
  moetwin::Options options;
  CLI::App app("Compares the kernel on card 0 with the simulator, stage by stage.");
  app.add_option("--against", options.against, "sim or naive")
      ->check(CLI::IsMember({"sim", "naive"}));
  app.add_flag("--coverage", options.coverage, "print what the cases covered");
  app.add_option("--cases", options.cases, "generated cases to run");
  app.add_option("--seed", options.seed, "their stream");
  app.add_option("--first", options.first, "number of the first");
  app.add_option("--out", options.out, "where cases that differ are saved");
  app.add_option("--rotate", options.rotate, "launches in a row on one workspace");
  app.add_flag("--hang", options.hang, "plant missing arrives and look at the report");
  app.add_option("--size", options.sizes, "full-size layers to compare: flash:T or v3:T");
  app.add_option("--time", options.times, "full-size layers to time: flash:T or v3:T");
  app.add_option("--breakdown", options.breakdowns, "full-size layers to trace: flash:T or v3:T");
  app.add_option("--variant", options.variants,
                 "of timed layers: BLOCK_M:BLOCK_N:STAGES:SCHEDULER[:SIZE]");
  app.add_option("--repeats", options.repeats, "launches timed of each");
  app.add_flag("--wide", options.wide, "generated cases with BLOCK_N 256, where hidden allows it");
  app.add_option("--block-m", options.full.block_m, "of full-size layers");
  app.add_option("--block-n", options.full.block_n, "of full-size layers");
  app.add_option("--sms", options.full.sms, "of full-size layers, all ranks together");
  app.add_option("--stages", options.full.stages, "of full-size layers; 0: as many as fit");
  app.add_flag("--wave", options.full.wave, "full-size layers under the wave policy");
  app.add_option("--masked", options.full.masked, "share of masked slots of full-size layers");
  app.add_option("--limit", options.limit_seconds, "longest wait in the kernel, in seconds");
  app.add_option("--max-failures", options.max_failures, "stop after so many");
  app.add_option("files", options.files, "case files to run");
  CLI11_PARSE(app, argc, argv);
  try {
    return moetwin::run(options);
  } catch (const moetwin::NoCudaDevice& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
