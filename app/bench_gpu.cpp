// bench gpu: the fused layer on one card, one rank, cold: before each of 30 launches its inputs are
// staged from the host and 256 MiB written so that the L2 cache holds none of them; event, launch,
// event; the median. Bits are compared with the naive path before anything is timed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "app/backends.h"
#include "app/bench.h"
#include "app/progress.h"
#include "common/check.h"

#ifdef MOETWIN_HAVE_CUDA
#include "cuda/gpu_session.h"
#include "model/compare.h"
#include "model/kernel_choice.h"
#include "model/naive.h"
#endif

namespace moetwin {

#ifdef MOETWIN_HAVE_CUDA
namespace {

constexpr uint32_t kRepeats = 30;
/// Before each size: its time does not depend on how warm the one before has left the card.
constexpr std::chrono::seconds kRest{1};
constexpr std::array<uint32_t, 7> kTokens = {1, 8, 32, 128, 512, 2048, 8192};
constexpr std::array<double, 2> kMasked = {0, 0.5};

/// Rates that the floor is made of: FLOP/s of dense E4M3 (datasheet) and bytes/s of memory.
constexpr double kPeakFlops = 1979e12;
constexpr double kPeakBytes = 4.3e12;

struct Layer {
  const char* name;
  uint32_t topk;
  uint32_t hidden;
};
constexpr std::array<Layer, 2> kLayers = {{{"flash", 6, 4096}, {"v3", 8, 7168}}};
constexpr uint32_t kExperts = 32;
constexpr uint32_t kIntermediate = 2048;
constexpr float kClamp = 10;

Case layer_case(const Layer& layer, uint32_t tokens, double masked, uint32_t sms) {
  Case c;
  c.shape = {1, kExperts, layer.topk, layer.hidden, kIntermediate, tokens};
  c.tokens = {tokens};
  c.clamp = kClamp;
  c.routing.masked = masked;
  c.kernel = choose_kernel(c.shape, sms);
  set_launches(c, 1);
  return c;
}

/// What the layer must do at least: 2 FLOPs for each of the 3 H I weights of a routed row; the hit
/// experts' weights and scales, x in and y out once.
struct Work {
  double flops = 0;
  double bytes = 0;
  double floor_us() const { return 1e6 * std::max(flops / kPeakFlops, bytes / kPeakBytes); }
};

Work work_of(const Problem& problem) {
  const Shape& s = problem.shape;
  std::vector<bool> hit(s.experts, false);
  uint64_t rows = 0;
  for (const int32_t expert : problem.ranks[0].topk_idx) {
    if (expert == kMaskedExpert) continue;
    hit[static_cast<uint32_t>(expert)] = true;
    ++rows;
  }
  const double weights = 3.0 * s.hidden * s.intermediate;
  const double experts = static_cast<double>(std::count(hit.begin(), hit.end(), true));
  const double scales = weights / (128.0 * 128.0) * 4;
  const double token = s.hidden * 3.0 + s.hidden_blocks() * 4.0;
  return {2.0 * static_cast<double>(rows) * weights,
          experts * (weights + scales) + problem.ranks[0].num_tokens * token};
}

void check_bits(GpuSession& session, const Layer& layer, WeightCache& cache) {
  for (const uint32_t tokens : {1u, 40u}) {
    const Case c = layer_case(layer, tokens, 0.1, session.device().sms);
    const Problem problem = make_problem(c, 0, cache);
    const LayerResult expected = run_naive(problem);
    const GpuLaunch launch = session.launch(problem, c.kernel);
    if (!launch.finished || !launch.findings.empty() ||
        !compare_results(launch.result, expected).equal())
      throw std::runtime_error(
          fmt::format("bench gpu: {} with {} tokens differs from the naive path; nothing was timed",
                      layer.name, tokens));
  }
}

nlohmann::ordered_json measure(GpuSession& session, const Layer& layer, uint32_t tokens,
                               double masked, WeightCache& cache, std::string& text) {
  const Case c = layer_case(layer, tokens, masked, session.device().sms);
  const Problem problem = make_problem(c, 0, cache);
  std::this_thread::sleep_for(kRest);
  std::vector<double> us = session.time(problem, c.kernel, kRepeats);
  std::sort(us.begin(), us.end());
  const double middle = (us[kRepeats / 2 - 1] + us[kRepeats / 2]) / 2;
  const Work work = work_of(problem);
  const double ratio = middle / work.floor_us();
  const double tflops = work.flops / middle * 1e-6;
  text += fmt::format("{:5} {:5} {:>8} {:9.1f} {:9.1f} {:6.2f} {:8.1f}   {} x {}, {} stages\n",
                      layer.name, tokens, masked == 0 ? "uniform" : "half", middle, work.floor_us(),
                      ratio, tflops, c.kernel.block_m, c.kernel.block_n, c.kernel.stages);
  return {{"layer", layer.name},
          {"tokens", tokens},
          {"masked", masked},
          {"microseconds", middle},
          {"least", us.front()},
          {"most", us.back()},
          {"floor", work.floor_us()},
          {"ratio", ratio},
          {"tflops", tflops},
          {"block_m", c.kernel.block_m},
          {"block_n", c.kernel.block_n},
          {"stages", c.kernel.stages}};
}

}  // namespace

BenchReport bench_gpu() {
  try {
    GpuSession session;
    BenchReport report;
    std::string rows;
    nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
    Progress progress("bench gpu", kLayers.size() * kTokens.size() * kMasked.size());
    for (const Layer& layer : kLayers) {
      WeightCache cache;
      check_bits(session, layer, cache);
      for (const double masked : kMasked)
        for (const uint32_t tokens : kTokens) {
          sizes.push_back(measure(session, layer, tokens, masked, cache, rows));
          progress.advance();
        }
    }
    const double copy = session.copy_bandwidth();
    report.json = {{"card", session.device().name},
                   {"driver", session.device().driver},
                   {"copy_bytes_a_second", copy},
                   {"sizes", std::move(sizes)}};
    report.text = fmt::format(
        "gpu, {}, driver {}: one rank, cold, median of {}, microseconds; bits checked\n"
        "copy bandwidth {:.2f} TB/s\n"
        "layer tokens  routing  measured     floor  ratio   TFLOPS   tile\n{}",
        session.device().name, session.device().driver, kRepeats, copy * 1e-12, rows);
    return report;
  } catch (const NoCudaDevice& error) {
    throw NoDeviceError(error.what());
  }
}
#else
BenchReport bench_gpu() {
  throw NoDeviceError("no CUDA device: this moetwin was built without CUDA");
}
#endif

}  // namespace moetwin
