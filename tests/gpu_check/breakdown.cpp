#include "tests/gpu_check/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>
#include <vector>

#include "cuda/card_trace.h"
#include "model/problem.h"

namespace moetwin {
namespace {

const char* kind_name(TraceKind kind) {
  constexpr const char* kNames[] = {"begin", "end", "arrive", "copy", "token", "launch"};
  return kNames[static_cast<uint32_t>(kind)];
}

struct Line {
  std::vector<double> times;                               ///< µs
  std::map<std::pair<uint32_t, uint32_t>, double> waited;  ///< by SM and agent, µs
};

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

void print_breakdown(GpuSession& session, const std::string& text, const FullSizeOptions& options) {
  const Case c = full_size_case(text, options);
  WeightCache cache;
  const Problem problem = make_problem(c, 0, cache);
  CardTrace trace;
  GpuLaunchOptions launch;
  launch.trace = &trace;
  launch.cold = true;
  launch.taps = false;
  session.launch(problem, c.kernel, launch);
  trace = {};
  const GpuLaunch launched = session.launch(problem, c.kernel, launch);
  using Key = std::tuple<Role, Step, TraceKind>;
  std::map<Key, Line> lines;
  std::map<std::pair<uint32_t, uint32_t>, double> begun;
  uint64_t first = UINT64_MAX;
  for (const TraceEvent& e : trace.events)
    if (e.kind != TraceKind::Launch) first = std::min(first, e.time);
  for (const TraceEvent& e : trace.events) {
    if (e.kind == TraceKind::Launch) continue;
    const double at = 1e-3 * static_cast<double>(e.time - first);
    const std::pair<uint32_t, uint32_t> agent{e.sm, e.place};
    Line& line = lines[{agent_at(e.place).role, e.step, e.kind}];
    line.times.push_back(at);
    if (e.kind == TraceKind::Begin) begun[agent] = at;
    if (e.kind == TraceKind::End) line.waited[agent] += at - begun[agent];
  }
  fmt::print("{} {} x {}, {} stages: {:.1f} us traced, {} events lost\n", text, c.kernel.block_m,
             c.kernel.block_n, c.kernel.stages, 1e3 * launched.milliseconds, trace.lost);
  std::vector<std::pair<double, Key>> order;
  for (const auto& [key, line] : lines)
    order.emplace_back(*std::min_element(line.times.begin(), line.times.end()), key);
  std::sort(order.begin(), order.end());
  for (const auto& [at, key] : order) {
    const Line& line = lines[key];
    std::vector<double> waits;
    for (const auto& [agent, sum] : line.waited) waits.push_back(sum);
    fmt::print("  {:8} {:24} {:6} {:8} first {:8.2f} median {:8.2f} last {:8.2f} waited {:8.2f}\n",
               role_name(std::get<0>(key)), step_name(std::get<1>(key)),
               kind_name(std::get<2>(key)), line.times.size(), at, middle(line.times),
               *std::max_element(line.times.begin(), line.times.end()), middle(waits));
  }
  std::fflush(stdout);
}

}  // namespace moetwin
