// bench control, cases and scaling: what the simulator costs beyond tile arithmetic, and how that
// grows.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "app/bench.h"
#include "app/progress.h"
#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "fuzz/generator.h"
#include "model/case.h"
#include "model/counter_random.h"
#include "model/naive.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

constexpr uint32_t kRounds = 7;

double wall_seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of this program: what other programs do to the clock is left out.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A case of small tiles, so that rows and ranks decide: 4 experts a rank, top-4.
Case protocol_case(uint32_t ranks, uint32_t tokens, uint32_t sms) {
  return parse_case(
      fmt::format(R"({{"shape":{{"ranks":{},"experts":{},"topk":4,"hidden":512,"intermediate":256,
          "max_tokens_per_rank":{}}},"kernel":{{"sms_per_rank":{}}}}})",
                  ranks, 4 * ranks, tokens, sms),
      "");
}

RunResult run_protocol(const Case& c, bool full_k_loop = false) {
  RunOptions options;
  options.threads = 1;
  options.math = false;
  options.full_k_loop = full_k_loop;
  RunResult result = simulate(c, options);
  MOETWIN_CHECK(!result.failed());
  return result;
}

double event_rate(const Case& c, bool full_k_loop) {
  double events = static_cast<double>(run_protocol(c, full_k_loop).counts.events);
  return measure_rate([&] { run_protocol(c, full_k_loop); }, events, 0.5);
}

// Scaling.

struct GrowthPoint {
  uint64_t n = 0;
  uint64_t rows = 0;
  double seconds = 0;
  uint64_t events = 0;
};

/// Time of `n` over n log n, so that a constant means growth like it.
double unit_cost(const GrowthPoint& p) {
  const auto n = static_cast<double>(p.n);
  return p.seconds / (n * std::log2(n));
}

/// Whether the last point costs no more than n log n from the first on.
bool within_n_log_n(const std::vector<GrowthPoint>& points) {
  return unit_cost(points.back()) <= unit_cost(points.front());
}

nlohmann::ordered_json growth_json(const char* what, const std::vector<GrowthPoint>& points) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const GrowthPoint& p : points)
    list.push_back({{what, p.n}, {"rows", p.rows}, {"seconds", p.seconds}, {"events", p.events}});
  return {{"points", list}, {"within_n_log_n", within_n_log_n(points)}};
}

std::string growth_text(const char* what, const std::vector<GrowthPoint>& points) {
  std::string text = fmt::format("{:>10} {:>10} {:>10} {:>12} {:>14}\n", what, "rows", "seconds",
                                 "events", "ns / n log2 n");
  for (const GrowthPoint& p : points)
    text += fmt::format("{:>10} {:>10} {:>10.3f} {:>12} {:>14.2f}\n", p.n, p.rows, p.seconds,
                        p.events, unit_cost(p) * 1e9);
  return text + fmt::format("no worse than n log n: {}\n", within_n_log_n(points) ? "yes" : "no");
}

GrowthPoint measure_growth(uint64_t n, const Case& c) {
  GrowthPoint point;
  point.n = n;
  const double start = processor_seconds();
  const RunResult result = run_protocol(c);
  point.seconds = processor_seconds() - start;
  point.rows = result.counts.rows_pulled;
  point.events = result.counts.events;
  return point;
}

/// Rates of 64 tiles on a number of threads, alternating; the median of the ratios to one thread.
struct ThreadRates {
  double one = 0;  ///< FLOP/s
  double two = 0;
  double ratio = 0;
};

ThreadRates measure_threads() {
  constexpr uint32_t kTiles = 64;
  constexpr uint32_t kRows = 64;
  constexpr uint32_t kColumns = 128;
  constexpr uint32_t kSteps = 32;
  constexpr uint32_t kPitch = kSteps * kTensorCoreK;
  constexpr double kFlops = 2.0 * kTiles * kRows * kColumns * kPitch;
  const Key key(1, Stream::Activations);
  std::vector<uint8_t> codes(size_t{kRows + kColumns} * kPitch);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<uint8_t>(0x20 + key.draw(i) % 0x50);
  const PackedTile tile(codes.data(), kPitch, kRows, &codes[size_t{kRows} * kPitch], kPitch,
                        kColumns, kSteps);
  std::vector<float> acc(size_t{kTiles} * kRows * kColumns);
  const auto seconds = [&](int threads) {
    return wall_seconds([&] {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
      for (uint32_t i = 0; i < kTiles; ++i) tile.multiply(&acc[size_t{i} * kRows * kColumns]);
      benchmark::ClobberMemory();
    });
  };
  std::vector<double> one;
  std::vector<double> two;
  std::vector<double> ratios;
  seconds(2);
  for (uint32_t round = 0; round < kRounds; ++round) {
    one.push_back(seconds(1));
    two.push_back(seconds(2));
    ratios.push_back(one.back() / two.back());
  }
  return {kFlops / median(one), kFlops / median(two), median(ratios)};
}

}  // namespace

BenchReport bench_control() {
  const Case c = protocol_case(8, 1024, 32);
  const double whole = event_rate(c, false);
  const double stepped = event_rate(c, true);
  BenchReport report;
  report.json = {{"events_per_second", whole}, {"stepped_events_per_second", stepped}};
  report.text = fmt::format(
      "control, one core, 8 ranks x 32 SMs, 32,768 rows, no tile arithmetic\n"
      "k loop as one step   {:8.2f} million events a second\n"
      "k loop stepped       {:8.2f} million events a second\n",
      whole * 1e-6, stepped * 1e-6);
  return report;
}

BenchReport bench_cases() {
  constexpr uint64_t kSeed = 1;
  constexpr uint64_t kCases = 40;
  std::vector<Case> cases;
  for (uint64_t i = 0; i < kCases; ++i) cases.push_back(random_case(kSeed, i));
  RunOptions options;
  options.threads = 1;
  const double simulated = measure_rate(
      [&] {
        for (const Case& c : cases) benchmark::DoNotOptimize(simulate(c, options).launches.size());
      },
      kCases, 0.5);
  const double naive = measure_rate(
      [&] {
        for (const Case& c : cases) {
          WeightCache cache;
          for (size_t i = 0; i < c.launches.size(); ++i)
            benchmark::DoNotOptimize(run_naive(make_problem(c, i, cache), {1}).y.data());
        }
      },
      kCases, 0.5);
  BenchReport report;
  report.json = {{"simulated_cases_per_second", simulated}, {"naive_cases_per_second", naive}};
  report.text = fmt::format(
      "cases, one core, {} generated cases over and over\n"
      "simulator   {:8.1f} cases a second\n"
      "naive       {:8.1f} cases a second\n",
      kCases, simulated, naive);
  return report;
}

BenchReport bench_scaling() {
  constexpr std::array<uint32_t, 6> kTokens = {32, 128, 1024, 8192, 32768, 65536};
  constexpr std::array<uint32_t, 6> kRanks = {2, 4, 8, 18, 36, 72};
  constexpr uint32_t kRowRanks = 8;
  constexpr uint32_t kTokensOfRank = 1024;
  const ThreadRates threads = measure_threads();
  Progress progress("bench scaling", kTokens.size() + kRanks.size());
  std::vector<GrowthPoint> rows;
  for (const uint32_t tokens : kTokens) {
    rows.push_back(measure_growth(uint64_t{kRowRanks} * tokens * 4, protocol_case(8, tokens, 16)));
    progress.advance();
  }
  std::vector<GrowthPoint> ranks;
  for (const uint32_t count : kRanks) {
    ranks.push_back(measure_growth(count, protocol_case(count, kTokensOfRank, 16)));
    progress.advance();
  }
  BenchReport report;
  report.json = {{"threads",
                  {{"one_gflops", threads.one * 1e-9},
                   {"two_gflops", threads.two * 1e-9},
                   {"ratio", threads.ratio}}},
                 {"rows", growth_json("n", rows)},
                 {"ranks", growth_json("n", ranks)}};
  report.text = fmt::format(
      "scaling, tile kernel: {:.2f} GFLOP/s on one thread, {:.2f} on two, ratio {:.2f} (medians of "
      "{})\n\nprotocol without tile arithmetic, {} ranks x 16 SMs\n{}\n"
      "protocol without tile arithmetic, {} tokens a rank, top-4, 16 SMs a rank\n{}",
      threads.one * 1e-9, threads.two * 1e-9, threads.ratio, kRounds, kRowRanks,
      growth_text("rows", rows), kTokensOfRank, growth_text("ranks", ranks));
  return report;
}

}  // namespace moetwin
