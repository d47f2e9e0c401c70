// moetwin_multi_gpu_check: many cases on several cards in one set of processes, every stage
// compared with the simulator; late and dead ranks; times. It starts itself once a rank, or takes
// the ranks that torchrun or mpirun start.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "cuda/gpu_group.h"
#include "fuzz/generator.h"
#include "model/case.h"
#include "model/collect.h"
#include "model/compare.h"
#include "model/routing.h"

namespace moetwin {
namespace {

struct Options {
  uint32_t gpus = 2;
  std::vector<uint32_t> cards;
  bool without_nccl = false;
  uint64_t cases = 0;
  uint64_t seed = 1;
  uint32_t rotate = 0;
  bool late = false;
  bool dead = false;
  std::vector<std::string> times;
  uint32_t block_m = 128;
  uint32_t sms = 132;
  uint32_t repeats = 30;
  double limit_seconds = 0;
  std::string out = ".";
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

GpuGroupOptions group_options(const Options& options) {
  GpuGroupOptions group = group_of(options.gpus);
  group.cards = options.cards;
  group.without_nccl = options.without_nccl;
  group.gpu.wait_limit_seconds = options.limit_seconds;
  if (const auto place = rank_place_from_environment()) {
    group.place = *place;
    group.start_processes = false;
  }
  return group;
}

/// The generated cases that have as many ranks as there are processes, with what each should give.
struct Expected {
  std::string name;
  Case c;
  RunResult result;
};

class Cases {
 public:
  Cases(const Options& options, uint32_t ranks) : options_(options), ranks_(ranks) {}

  /// The next `count` of them, run on the simulator on all cores.
  std::vector<Expected> next(uint64_t count) {
    std::vector<Expected> out;
    for (; out.size() < count; ++index_) {
      Case c = random_case(options_.seed, index_);
      if (c.shape.ranks == ranks_)
        out.push_back({fmt::format("case {}:{}", options_.seed, index_), std::move(c), {}});
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < out.size(); ++i) {
      RunOptions run;
      run.threads = 1;
      out[i].result = simulate(out[i].c, run);
    }
    return out;
  }

 private:
  const Options& options_;
  uint32_t ranks_;
  uint64_t index_ = 0;
};

void print_findings(const std::string& name, const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    fmt::print("{}: {} at {}, rank {}: {}\n", name, finding_class_name(finding.kind),
               step_name(finding.step), finding.rank, finding.text);
}

/// Whether a launch gave the simulator's bits at every stage and no finding but notes.
bool is_right(const std::string& name, const GpuLaunch& launch, const LayerResult& expected,
              uint64_t& values) {
  bool right = launch.finished;
  for (const Finding& finding : launch.findings) right &= finding.kind == FindingClass::Slow;
  if (!right) print_findings(name, launch.findings);
  if (!launch.finished) return false;
  const Comparison comparison = compare_results(launch.result, expected);
  for (const Stage stage : kStages) {
    values += comparison.stage(stage).values;
    right &= comparison.stage(stage).compared();
  }
  if (comparison.equal()) return right;
  fmt::print("{}: {}\n", name, describe(comparison, "gpu", "sim"));
  return false;
}

uint64_t run_cases(GpuGroup& group, const Options& options) {
  constexpr uint64_t kBatch = 256;
  constexpr uint64_t kMostFailures = 5;
  const auto start = std::chrono::steady_clock::now();
  Cases cases(options, options.gpus);
  uint64_t done = 0, launches = 0, rows = 0, values = 0, wrong = 0;
  double on_cards = 0;
  while (done < options.cases && wrong < kMostFailures) {
    for (const Expected& e : cases.next(std::min(kBatch, options.cases - done))) {
      bool right = !e.result.failed();
      const auto begin = std::chrono::steady_clock::now();
      for (size_t i = 0; right && i < e.result.launches.size(); ++i, ++launches) {
        right = is_right(fmt::format("{} launch {}", e.name, i),
                         group.launch(e.c, i, {false, true, e.c.world.poison}),
                         e.result.launches[i], values);
        rows += e.result.launches[i].rows.size();
      }
      on_cards += seconds_since(begin);
      ++done;
      if (right) continue;
      ++wrong;
      save_case(e.c, fmt::format("{}/failed_{}.json", options.out, wrong));
    }
  }
  fmt::print(
      "{} cases on {} ranks, {} launches, {} routed rows, {} values compared, {} cases differ, "
      "{:.1f} s, of them {:.1f} s on the cards\n",
      done, options.gpus, launches, rows, values, wrong, seconds_since(start), on_cards);
  std::fflush(stdout);
  return wrong;
}

uint64_t run_rotation(GpuGroup& group, const Options& options) {
  constexpr uint64_t kTurns = 12;
  const std::vector<Expected> turns = Cases(options, options.gpus).next(kTurns);
  uint64_t wrong = 0, values = 0;
  for (uint32_t i = 0; i < options.rotate; ++i) {
    const Expected& turn = turns[i % turns.size()];
    wrong += !is_right(fmt::format("rotation, launch {}", i), group.launch(turn.c, 0),
                       turn.result.launches[0], values);
  }
  fmt::print("rotation: {} launches of {} cases, {} differ from the simulator\n", options.rotate,
             turns.size(), wrong);
  std::fflush(stdout);
  return wrong;
}

Case small_case(uint32_t ranks) {
  Case c;
  c.shape = {ranks, 4 * ranks, 2, 256, 128, 40};
  c.tokens.assign(ranks, 40);
  set_launches(c, 1);
  return c;
}

/// One rank starts half a second late, well within the limit.
uint64_t run_late(const Options& options) {
  GpuGroup group(group_options(options));
  Case c = small_case(options.gpus);
  const LayerResult expected = simulate(c, {}).launches[0];
  c.world.late_rank = options.gpus - 1;
  c.world.late_steps = 500'000;
  uint64_t values = 0;
  const GpuLaunch launch = group.launch(c, 0);
  bool right = is_right("late rank", launch, expected, values);
  bool noted = false;
  for (const Finding& finding : launch.findings)
    noted |= finding.kind == FindingClass::Slow && finding.rank == *c.world.late_rank;
  print_findings("late rank", launch.findings);
  fmt::print("late rank: {}, {}\n", right ? "right" : "WRONG", noted ? "noted" : "NOT NOTED");
  std::fflush(stdout);
  return !(right && noted);
}

/// One rank's process ends before its launch; a whole set of processes works afterwards.
uint64_t run_dead(const Options& options) {
  const Case c = small_case(options.gpus);
  const uint32_t dead = options.gpus - 1;
  bool named = false;
  {
    GpuGroupOptions broken = group_options(options);
    broken.gpu.wait_limit_seconds = 1;
    broken.leaving_rank = dead;
    GpuGroup group(broken);
    const auto start = std::chrono::steady_clock::now();
    const GpuLaunch launch = group.launch(c, 0);
    fmt::print("dead rank: {} in {:.2f} s\n", launch.finished ? "FINISHED" : "given up",
               seconds_since(start));
    print_findings("dead rank", launch.findings);
    const std::string name = fmt::format("rank {} is not there", dead);
    for (const Finding& finding : launch.findings)
      named |= finding.step == Step::RankWait && finding.text.find(name) != std::string::npos;
  }
  GpuGroup group(group_options(options));
  uint64_t values = 0;
  const bool right =
      is_right("after the dead rank", group.launch(c, 0), simulate(c, {}).launches[0], values);
  fmt::print("dead rank: {}; afterwards: {}\n", named ? "named" : "NOT NAMED",
             right ? "right" : "WRONG");
  std::fflush(stdout);
  return !(named && right);
}

/// flash:TOKENS or v3:TOKENS, 32 experts and so many tokens a rank.
Case sized_case(const std::string& text, const Options& options, uint32_t ranks) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  if ((name != "flash" && name != "v3") || colon == std::string::npos)
    throw InputError("size '" + text + "' is not flash:TOKENS or v3:TOKENS");
  const uint32_t tokens = static_cast<uint32_t>(std::stoul(text.substr(colon + 1)));
  Case c;
  c.shape = name == "flash" ? Shape{ranks, 32 * ranks, 6, 4096, 2048, tokens}
                            : Shape{ranks, 32 * ranks, 8, 7168, 2048, tokens};
  c.tokens.assign(ranks, tokens);
  c.clamp = 10;
  c.kernel.block_m = options.block_m;
  c.kernel.sms_per_rank = options.sms;
  c.kernel.stages = options.block_m == 64 ? 7 : 5;
  set_launches(c, 1);
  return c;
}

/// Bytes that cross between ranks in one launch.
uint64_t crossing_bytes(const Case& c) {
  const LaunchSpec& spec = c.launches[0];
  std::vector<RankInput> inputs;
  make_routing(spec.routing, spec.shape, spec.tokens, inputs);
  std::vector<RoutedRow> rows;
  for (uint32_t rank = 0; rank < inputs.size(); ++rank)
    for (const int32_t expert : inputs[rank].topk_idx)
      if (expert != kMaskedExpert) rows.push_back({rank, 0, 0, static_cast<uint32_t>(expert), 0});
  const KernelPlan plan = make_plan(spec.shape, c.kernel, false, false).plan;
  const Traffic traffic = kernel_traffic(spec.shape, plan, rows);
  return traffic.index_bytes + traffic.dispatch_bytes + traffic.combine_bytes;
}

struct Times {
  double median, least, most;
};

Times summary(std::vector<double> us) {
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us.front(), us.back()};
}

/// All sizes on all ranks, then on one rank of one card.
void run_times(GpuGroup& group, const Options& options) {
  for (const std::string& size : options.times) {
    const Case c = sized_case(size, options, options.gpus);
    const Times t = summary(group.time(c, options.repeats));
    const uint64_t bytes = crossing_bytes(c);
    fmt::print(
        "{} a rank, {} ranks: median {:.1f} us, least {:.1f}, most {:.1f}; {} bytes between ranks, "
        "{:.1f} GB/s a card and direction\n",
        size, options.gpus, t.median, t.least, t.most, bytes,
        1e-3 * static_cast<double>(bytes) / options.gpus / t.median);
    std::fflush(stdout);
  }
}

void run_single_times(const Options& options) {
  GpuSession session(GpuOptions{options.cards.empty() ? 0 : options.cards[0], 0, Step::None});
  WeightCache cache;
  for (const std::string& size : options.times) {
    const Case c = sized_case(size, options, 1);
    const Times t = summary(session.time(make_problem(c, 0, cache), c.kernel, options.repeats));
    fmt::print("{} on one rank: median {:.1f} us, least {:.1f}, most {:.1f}\n", size, t.median,
               t.least, t.most);
    std::fflush(stdout);
  }
}

int run(Options options) {
  const auto place = rank_place_from_environment();
  if (place) options.gpus = place->ranks;
  if (place && place->rank != 0) {
    GpuOptions gpu;
    gpu.wait_limit_seconds = options.limit_seconds;
    // A planted dead rank has a limit of its own, as rank 0 has.
    if (options.dead) gpu.wait_limit_seconds = 1;
    const RankReport report = serve_rank(*place, gpu);
    for (const std::string& line : report.lines)
      fmt::print(stderr, "report on rank {}: {}\n", place->rank, line);
    return report.failed ? 1 : 0;
  }
  uint64_t wrong = 0;
  if (options.cases != 0 || options.rotate != 0 || !options.times.empty()) {
    GpuGroup group(group_options(options));
    fmt::print("{} ranks on {}, driver {}; {} host threads\n", options.gpus, group.device().name,
               group.device().driver, omp_get_max_threads());
    if (options.cases != 0) wrong += run_cases(group, options);
    if (options.rotate != 0) wrong += run_rotation(group, options);
    run_times(group, options);
    for (const std::string& note : group.notes()) fmt::print("note: {}\n", note);
  }
  if (!options.times.empty()) run_single_times(options);
  if (options.late) wrong += run_late(options);
  if (options.dead) wrong += run_dead(options);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace moetwin

int main(int argc, char** argv) {
  moetwin::Options options;
  CLI::App app("Compares the kernel on several cards with the simulator, stage by stage.");
  app.add_option("--gpus", options.gpus, "ranks, one process each");
  app.add_option("--cards", options.cards, "the card of each rank (its number)")->delimiter(',');
  app.add_flag("--without-nccl", options.without_nccl, "share memory through driver handles");
  app.add_option("--cases", options.cases, "generated cases to run");
  app.add_option("--seed", options.seed, "their stream");
  app.add_option("--rotate", options.rotate, "launches in a row on one workspace");
  app.add_flag("--late", options.late, "plant a rank that starts late");
  app.add_flag("--dead", options.dead, "plant a rank that ends before its launch");
  app.add_option("--time", options.times, "layers to time: flash:T or v3:T, T tokens a rank");
  app.add_option("--repeats", options.repeats, "launches to time");
  app.add_option("--block-m", options.block_m, "of timed layers");
  app.add_option("--sms", options.sms, "of timed layers");
  app.add_option("--limit", options.limit_seconds, "longest wait in the kernel, in seconds");
  app.add_option("--out", options.out, "where cases that differ are saved");
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
