// bench: rates of the hot kernels, as ratios measured in one run.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "app/arguments.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/verbs.h"
#include "app/yardstick/eigen_gemm.h"
#include "common/check.h"
#include "model/counter_random.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "tensor_core   the E4M3 tile kernel beside Eigen's float GEMM and the plain scalar step: one\n"
    "              core, alternating, best of seven\n\n"
    "Examples:\n"
    "  moetwin bench\n"
    "  moetwin bench tensor_core --json\n";

constexpr uint32_t kRounds = 7;
constexpr double kSeconds = 0.1;

struct Options {
  std::string name = "tensor_core";
  bool json = false;
};

/// Codes of one tile of the kernel: BLOCK_M rows, 128 weight rows, one block of K.
struct TileOperands {
  static constexpr uint32_t kRows = 64;
  static constexpr uint32_t kColumns = 128;
  static constexpr uint32_t kSteps = 4;
  static constexpr uint32_t kPitch = kSteps * kTensorCoreK;
  static constexpr double kFlops = 2.0 * kRows * kColumns * kPitch;

  std::vector<uint8_t> a = codes(kRows);
  std::vector<uint8_t> b = codes(kColumns);
  std::vector<float> acc = std::vector<float>(kRows * kColumns);

  static std::vector<uint8_t> codes(uint32_t rows) {
    const Key key = Key(1, Stream::Activations).with(rows);
    std::vector<uint8_t> codes(rows * kPitch);
    for (size_t i = 0; i < codes.size(); ++i) {
      // Both signs, exponents in the middle of the range: what quantised tensors look like.
      const uint64_t random = key.draw(i);
      codes[i] = static_cast<uint8_t>((random & 0x80) | (0x20 + (random >> 8) % 0x50));
    }
    return codes;
  }
};

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

/// Operations a second of processor time of `work`, which does `operations` each time.
double measure_rate(const std::function<void()>& work, double operations) {
  benchmark::ClearRegisteredBenchmarks();
  benchmark::RegisterBenchmark("work", [&](benchmark::State& state) {
    for (auto _ : state) work();
    state.counters["rate"] = benchmark::Counter(
        operations * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  })->MinTime(kSeconds);
  RateReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::ClearRegisteredBenchmarks();
  return reporter.rate();
}

double tile_rate(TileOperands& tile) {
  return measure_rate(
      [&] {
        tile_steps(tile.a.data(), tile.kPitch, tile.kRows, tile.b.data(), tile.kPitch,
                   tile.kColumns, tile.kSteps, tile.acc.data());
        benchmark::DoNotOptimize(tile.acc.data());
        benchmark::ClobberMemory();
      },
      TileOperands::kFlops);
}

double scalar_rate(TileOperands& tile) {
  constexpr uint32_t kFewColumns = 4;
  return measure_rate(
      [&] {
        for (uint32_t row = 0; row < tile.kRows; ++row)
          for (uint32_t column = 0; column < kFewColumns; ++column) {
            float c = 0;
            for (uint32_t step = 0; step < tile.kSteps; ++step)
              c = tensor_core_step(&tile.a[row * tile.kPitch + step * kTensorCoreK],
                                   &tile.b[column * tile.kPitch + step * kTensorCoreK], c);
            tile.acc[row * tile.kColumns + column] = c;
          }
        benchmark::DoNotOptimize(tile.acc.data());
        benchmark::ClobberMemory();
      },
      TileOperands::kFlops / TileOperands::kColumns * kFewColumns);
}

/// The program beside this one, if it is there.
std::string yardstick_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const auto path = self.parent_path() / "moetwin_yardstick";
  return access(path.c_str(), X_OK) == 0 ? path.string() : std::string();
}

struct EigenRate {
  double gflops = 0;
  std::string simd;
};

EigenRate measure_own_eigen(EigenGemm& gemm) {
  const double rate = measure_rate(
      [&] {
        benchmark::DoNotOptimize(gemm.multiply());
        benchmark::ClobberMemory();
      },
      EigenGemm::kFlops);
  return {rate * 1e-9, EigenGemm::simd()};
}

/// Runs the yardstick once; nothing where it cannot run on this processor.
std::optional<EigenRate> run_yardstick(const std::string& path) {
  FILE* pipe = popen(shell_quote(path).c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  char line[256] = {};
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  if (pclose(pipe) != 0 || !read) return std::nullopt;
  char* end = nullptr;
  EigenRate rate;
  rate.gflops = std::strtod(line, &end);
  if (end == line || !(rate.gflops > 0)) return std::nullopt;
  rate.simd = std::string(end + (*end == ' ' ? 1 : 0));
  rate.simd.erase(rate.simd.find_last_not_of("\r\n") + 1);
  return rate;
}

struct TensorCoreRates {
  double tile = 0;  ///< FLOP/s, as all rates here
  double scalar = 0;
  EigenRate eigen;
  bool own_program = false;  ///< Eigen was measured by the yardstick
};

TensorCoreRates measure_tensor_core() {
  TileOperands tile;
  EigenGemm gemm;
  TensorCoreRates best;
  const std::string yardstick = yardstick_path();
  best.own_program = !yardstick.empty() && run_yardstick(yardstick).has_value();
  Progress progress("bench tensor_core", kRounds);
  for (uint32_t round = 0; round < kRounds; ++round) {
    best.tile = std::max(best.tile, tile_rate(tile));
    const std::optional<EigenRate> eigen =
        best.own_program ? run_yardstick(yardstick) : measure_own_eigen(gemm);
    if (eigen && eigen->gflops > best.eigen.gflops) best.eigen = *eigen;
    best.scalar = std::max(best.scalar, scalar_rate(tile));
    progress.advance();
  }
  MOETWIN_CHECK(best.tile > 0 && best.scalar > 0 && best.eigen.gflops > 0);
  return best;
}

void bench_tensor_core(bool json) {
  const TensorCoreRates r = measure_tensor_core();
  const double tile = r.tile * 1e-9;
  const double to_eigen = tile / r.eigen.gflops;
  const double to_scalar = r.tile / r.scalar;
  if (json) {
    const nlohmann::ordered_json out = {{"ratio_to_eigen_float_gemm", to_eigen},
                                        {"ratio_to_scalar", to_scalar},
                                        {"eigen_simd", r.eigen.simd},
                                        {"eigen_gflops", r.eigen.gflops},
                                        {"tile_gflops", tile}};
    std::fputs((out.dump() + "\n").c_str(), stdout);
    return;
  }
  const char* yardstick =
      r.own_program ? "the yardstick beside moetwin, built for this processor"
                    : "in this program, portable: there is no moetwin_yardstick beside it "
                      "that runs here";
  const std::string text = fmt::format(
      "tensor_core, one core, best of {} alternating rounds\n"
      "tile kernel       {:8.2f} GFLOP/s   E4M3, bit-exact, 64 x 128 x 128\n"
      "Eigen float GEMM  {:8.2f} GFLOP/s   512 x 512 x 512, {}\n"
      "                                     ({})\n"
      "scalar step       {:8.2f} GFLOP/s\n"
      "tile kernel runs at {:.3f} of Eigen's float GEMM and {:.1f} times the scalar step\n",
      kRounds, tile, r.eigen.gflops, r.eigen.simd, yardstick, r.scalar * 1e-9, to_eigen, to_scalar);
  std::fputs(text.c_str(), stdout);
}

int bench(const Options& o) {
  if (o.name != "tensor_core")
    throw InputError(fmt::format("NAME: '{}' is not one of tensor_core", o.name));
  bench_tensor_core(o.json);
  return kExitFine;
}

}  // namespace

VerbAction add_bench(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.optional_argument("NAME", o->name, "what to measure: tensor_core (all)");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return bench(*o); };
}

}  // namespace moetwin
