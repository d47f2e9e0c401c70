// One measurement through Google Benchmark: how many operations a second of processor time a
// function does. Part of two programs, moetwin and its yardstick.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace moetwin {

/// Keeps the last rate instead of printing a table.
class RateReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) rate_ = run.counters.at("rate").value;
  }
  double rate() const { return rate_; }

 private:
  double rate_ = 0;
};

/// Runs `work`, which does `operations` each time, for about `seconds`. Operations a second.
inline double measure_rate(const std::function<void()>& work, double operations, double seconds) {
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark("work", [&](benchmark::State& state) {
    for (auto _ : state) work();
    state.counters["rate"] = benchmark::Counter(
        operations * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  })->MinTime(seconds);
  RateReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  return reporter.rate();
}

}  // namespace moetwin
