// bench tensor_core: the E4M3 tile kernel, Eigen's float GEMM and the plain scalar step, in turn.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "app/arguments.h"
#include "app/bench.h"
#include "app/progress.h"
#include "app/yardstick/eigen_gemm.h"
#include "common/check.h"
#include "model/counter_random.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

constexpr uint32_t kRounds = 7;

/// Codes of a square product, as large as Eigen's.
struct TileOperands {
  static constexpr uint32_t kRows = EigenGemm::kSize;
  static constexpr uint32_t kColumns = kRows;
  static constexpr uint32_t kSteps = kRows / kTensorCoreK;
  static constexpr uint32_t kPitch = kSteps * kTensorCoreK;
  static constexpr double kFlops = 2.0 * kRows * kColumns * kPitch;

  std::vector<uint8_t> a = codes(0);
  std::vector<uint8_t> b = codes(1);
  std::vector<float> acc = std::vector<float>(size_t{kRows} * kColumns);

  static std::vector<uint8_t> codes(uint32_t operand) {
    const Key key = Key(1, Stream::Activations).with(operand);
    std::vector<uint8_t> codes(size_t{kRows} * kPitch);
    for (size_t i = 0; i < codes.size(); ++i) {
      // Both signs, exponents in the middle of the range: what quantised tensors look like.
      const uint64_t random = key.draw(i);
      codes[i] = static_cast<uint8_t>((random & 0x80) | (0x20 + (random >> 8) % 0x50));
    }
    return codes;
  }
};

double tile_rate(const PackedTile& packed, TileOperands& tile) {
  return measure_rate(
      [&] {
        packed.multiply(tile.acc.data());
        benchmark::DoNotOptimize(tile.acc.data());
        benchmark::ClobberMemory();
      },
      TileOperands::kFlops);
}

double scalar_rate(TileOperands& tile) {
  constexpr uint32_t kFewRows = 16;
  constexpr uint32_t kFewColumns = 4;
  return measure_rate(
      [&] {
        for (uint32_t row = 0; row < kFewRows; ++row)
          for (uint32_t column = 0; column < kFewColumns; ++column) {
            float c = 0;
            for (uint32_t step = 0; step < tile.kSteps; ++step)
              c = tensor_core_step(&tile.a[size_t{row} * tile.kPitch + step * kTensorCoreK],
                                   &tile.b[size_t{column} * tile.kPitch + step * kTensorCoreK], c);
            tile.acc[row * tile.kColumns + column] = c;
          }
        benchmark::DoNotOptimize(tile.acc.data());
        benchmark::ClobberMemory();
      },
      2.0 * kFewRows * kFewColumns * TileOperands::kPitch);
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
  const PackedTile packed(tile.a.data(), tile.kPitch, tile.kRows, tile.b.data(), tile.kPitch,
                          tile.kColumns, tile.kSteps);
  EigenGemm gemm;
  TensorCoreRates best;
  const std::string yardstick = yardstick_path();
  best.own_program = !yardstick.empty() && run_yardstick(yardstick).has_value();
  Progress progress("bench tensor_core", kRounds);
  for (uint32_t round = 0; round < kRounds; ++round) {
    best.tile = std::max(best.tile, tile_rate(packed, tile));
    const std::optional<EigenRate> eigen =
        best.own_program ? run_yardstick(yardstick) : measure_own_eigen(gemm);
    if (eigen && eigen->gflops > best.eigen.gflops) best.eigen = *eigen;
    best.scalar = std::max(best.scalar, scalar_rate(tile));
    progress.advance();
  }
  MOETWIN_CHECK(best.tile > 0 && best.scalar > 0 && best.eigen.gflops > 0);
  return best;
}

}  // namespace

BenchReport bench_tensor_core() {
  const TensorCoreRates r = measure_tensor_core();
  const double tile = r.tile * 1e-9;
  const double to_eigen = tile / r.eigen.gflops;
  const double to_scalar = r.tile / r.scalar;
  BenchReport report;
  report.json = {{"ratio_to_eigen_float_gemm", to_eigen},
                 {"ratio_to_scalar", to_scalar},
                 {"eigen_simd", r.eigen.simd},
                 {"eigen_gflops", r.eigen.gflops},
                 {"tile_gflops", tile}};
  const char* yardstick =
      r.own_program ? "the yardstick beside moetwin, built for this processor"
                    : "in this program, portable: there is no moetwin_yardstick beside it "
                      "that runs here";
  report.text = fmt::format(
      "tensor_core, one core, n = {}, best of {} alternating rounds\n"
      "tile kernel       {:8.2f} GFLOP/s   E4M3, bit-exact, operands packed\n"
      "Eigen float GEMM  {:8.2f} GFLOP/s   {}\n"
      "                                     ({})\n"
      "scalar step       {:8.2f} GFLOP/s\n"
      "tile kernel runs at {:.3f} of Eigen's float GEMM and {:.1f} times the scalar step\n",
      TileOperands::kRows, kRounds, tile, r.eigen.gflops, r.eigen.simd, yardstick, r.scalar * 1e-9,
      to_eigen, to_scalar);
  return report;
}

}  // namespace moetwin
