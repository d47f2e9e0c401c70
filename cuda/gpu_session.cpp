#include "cuda/gpu_session.h"

#include <chrono>
#include <string>

#include "cuda/card_launcher.h"
#include "cuda/card_memory.h"
#include "cuda/device_buffer.h"
#include "cuda/hang_report.h"
#include "cuda/trace_buffer.h"
#include "model/collect.h"
#include "model/trace.h"

namespace moetwin {

class GpuSession::Impl {
 public:
  explicit Impl(const GpuOptions& options) : card_(options) {}

  const DeviceInfo& device() const { return card_.device(); }

  KernelPlan plan(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring,
                  bool taps) const {
    return card_.plan(shape, kernel, unsafe_ring, taps, shape.ranks);
  }

  GpuLaunch launch(const Problem& problem, const KernelOptions& kernel,
                   const GpuLaunchOptions& options) {
    stage(problem, plan(problem.shape, kernel, options.unsafe_ring, options.taps), options.poison);
    if (options.trace != nullptr)
      card_.trace_into(trace_.prepare(card_.args(), options.trace_events, card_.stream().get()));
    if (options.cold) card_.flush_cache(options.poison);
    card_.start();
    GpuLaunch out;
    out.milliseconds = card_.wait();
    if (options.trace != nullptr)
      trace_.collect(card_.args(), card_.workspace().bases(), *options.trace);
    if (card_.was_given_up()) {
      out.findings = take_report();
      return out;
    }
    const RegionReader read = card_.workspace().reader();
    const KernelPlan& plan = card_.args().plan;
    CollectedLayer collected = collect_result(problem.shape, plan, token_counts(problem), read);
    out.finished = true;
    out.result = std::move(collected.result);
    out.findings = std::move(collected.findings);
    for (Finding& finding : check_zero_words(problem.shape, plan, read))
      out.findings.push_back(std::move(finding));
    if (!out.findings.empty()) card_.discard_workspace();
    return out;
  }

  std::vector<double> time(const Problem& problem, const KernelOptions& kernel, uint32_t repeats) {
    const KernelPlan planned = plan(problem.shape, kernel, false, false);
    std::vector<double> microseconds;
    for (uint32_t i = 0; i < repeats; ++i) {
      stage(problem, planned, 0);
      card_.flush_cache(i);
      card_.start();
      const double milliseconds = card_.wait();
      if (card_.was_given_up()) {
        const std::vector<Finding> findings = take_report();
        throw CudaError("the kernel was given up: " +
                        (findings.empty() ? std::string("no report") : findings.front().text));
      }
      microseconds.push_back(1e3 * milliseconds);
    }
    return microseconds;
  }

  double copy_bandwidth() {
    constexpr uint64_t kBytes = uint64_t{1} << 30;
    constexpr uint32_t kCopies = 8;
    DeviceBuffer from;
    DeviceBuffer to;
    if (!from.reserve(kBytes) || !to.reserve(kBytes))
      throw CudaError("CUDA, the copy buffers: out of memory");
    CardEvent before;
    CardEvent after;
    double least = 0;
    for (uint32_t i = 0; i < kCopies; ++i) {
      before.record(card_.stream());
      check_cuda(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice,
                                 card_.stream().get()),
                 "copying");
      after.record(card_.stream());
      card_.stream().wait();
      const double milliseconds = after.milliseconds_since(before);
      if (i == 0 || milliseconds < least) least = milliseconds;
    }
    return 2e3 * kBytes / least;
  }

 private:
  void stage(const Problem& problem, const KernelPlan& plan, uint8_t poison) {
    const RankBuffers buffers = memory_.reserve(problem.shape, make_layout(problem.shape, plan));
    card_.stage(problem, plan, buffers, {}, poison);
  }

  /// The findings of a given-up launch; report and workspace are clean for the next one.
  std::vector<Finding> take_report() {
    const KernelArgs args = card_.args();
    const std::vector<WaitRecord> records = card_.records();
    const std::vector<uint64_t> bases = card_.workspace().bases();
    card_.discard();
    return explain_records(args, records, bases, card_.limit_seconds());
  }

  CardLauncher card_;
  CardMemory memory_;
  TraceBuffer trace_;
};

GpuSession::GpuSession(const GpuOptions& options) : impl_(std::make_unique<Impl>(options)) {}
GpuSession::~GpuSession() = default;

const DeviceInfo& GpuSession::device() const { return impl_->device(); }

void GpuSession::check(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring) const {
  impl_->plan(shape, kernel, unsafe_ring, true);
}

GpuLaunch GpuSession::launch(const Problem& problem, const KernelOptions& kernel,
                             const GpuLaunchOptions& options) {
  return impl_->launch(problem, kernel, options);
}

std::vector<double> GpuSession::time(const Problem& problem, const KernelOptions& kernel,
                                     uint32_t repeats) {
  return impl_->time(problem, kernel, repeats);
}

double GpuSession::copy_bandwidth() { return impl_->copy_bandwidth(); }

RunResult GpuSession::run(const Case& c, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (const LaunchSpec& launch : c.launches) check(launch.shape, c.kernel, options.unsafe_ring);
  RunResult run;
  WeightCache cache(options.weights);
  CardTrace trace;
  GpuLaunchOptions launch_options{options.unsafe_ring, true, c.world.poison};
  if (!options.trace_path.empty()) launch_options.trace = &trace;
  for (size_t i = 0; i < c.launches.size(); ++i) {
    GpuLaunch launched = launch(make_problem(c, i, cache), c.kernel, launch_options);
    for (Finding& finding : launched.findings) run.findings.push_back(std::move(finding));
    if (!launched.finished) {
      run.launches.clear();
      break;
    }
    run.launches.push_back(std::move(launched.result));
  }
  if (!options.trace_path.empty()) {
    write_trace(options.trace_path, trace.launches, trace.events);
    run.lost_trace_events = trace.lost;
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace moetwin
