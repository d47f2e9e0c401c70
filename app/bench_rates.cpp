// Rates by Google Benchmark, whose own table is left out.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "app/bench.h"

namespace moetwin {
namespace {

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

}  // namespace

double measure_rate(const std::function<void()>& work, double operations, double seconds) {
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

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace moetwin
