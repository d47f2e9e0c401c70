#include "cuda/gpu_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "common/check.h"
#include "cuda/card_weights.h"
#include "cuda/cuda_error.h"
#include "cuda/device_buffer.h"
#include "cuda/hang_report.h"
#include "cuda/kernel.h"
#include "cuda/tensor_maps.h"
#include "cuda/workspace.h"
#include "model/collect.h"

namespace moetwin {
namespace {

constexpr uint64_t kFlushBytes = uint64_t{256} << 20;

/// Whether a debugger is attached or a tool has been injected into the CUDA driver.
bool is_slowed_down() {
  for (const char* variable :
       {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION_PORT_BASE", "COMPUTE_SANITIZER_VERSION"})
    if (std::getenv(variable) != nullptr) return true;
  std::ifstream status("/proc/self/status");
  constexpr std::string_view kKey = "TracerPid:";
  for (std::string line; std::getline(status, line);)
    if (line.compare(0, kKey.size(), kKey) == 0) return std::stoi(line.substr(kKey.size())) != 0;
  return false;
}

double wait_limit_seconds(const GpuOptions& options) {
  if (options.wait_limit_seconds != 0) return options.wait_limit_seconds;
  return kDefaultWaitLimitSeconds * (is_slowed_down() ? kSlowedWaitLimitFactor : 1);
}

class Stream {
 public:
  Stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { check_cuda(cudaStreamSynchronize(stream_), "running the kernel"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(const Stream& stream) {
    check_cuda(cudaEventRecord(event_, stream.get()), "recording an event");
  }
  double milliseconds_since(const Event& earlier) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "reading an event");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Chooses the card before anything is made on it.
DeviceInfo take_device(uint32_t device) {
  DeviceInfo info = device_info(device);
  check_cuda(cudaSetDevice(static_cast<int>(device)), "taking the card");
  return info;
}

}  // namespace

class GpuSession::Impl {
 public:
  explicit Impl(const GpuOptions& options)
      : options_(options), device_(take_device(options.device)) {
    check_cuda(prepare_kernels(), "preparing the kernel");
    limit_seconds_ = wait_limit_seconds(options);
    num_records_ = uint64_t{device_.sms} * kAgentsPerCta;
    if (!report_.reserve(kRecordsOffset + num_records_ * sizeof(WaitRecord)))
      throw CudaError("CUDA, the report buffer: out of memory");
    clear_report();
  }

  const DeviceInfo& device() const { return device_; }

  KernelPlan plan(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring,
                  bool taps) const {
    if (std::find(std::begin(kBuiltBlockM), std::end(kBuiltBlockM), kernel.block_m) ==
        std::end(kBuiltBlockM))
      throw InputError(
          fmt::format("kernel.block_m: {} is not built; 64 and 128 are", kernel.block_m));
    const PlanResult planned = make_plan(shape, kernel, unsafe_ring, taps);
    if (planned.error)
      throw InputError(fmt::format("{}: {} is not {}", planned.error.field, planned.error.value,
                                   planned.error.limit));
    if (shape.ranks > kMaxVirtualRanks)
      throw InputError(fmt::format("shape.ranks: {} is above {}, the most virtual ranks of a card",
                                   shape.ranks, kMaxVirtualRanks));
    int ctas_per_sm = 0;
    check_cuda(kernel_ctas_per_sm(planned.plan, &ctas_per_sm), "asking for the occupancy");
    const uint64_t wanted = uint64_t{shape.ranks} * planned.plan.sms;
    const uint64_t resident = std::min<uint64_t>(ctas_per_sm, 1) * device_.sms;
    if (wanted > resident)
      throw InputError(
          fmt::format("kernel.sms_per_rank: {} on {} ranks need {} SMs at once, the card has {}",
                      planned.plan.sms, shape.ranks, wanted, resident));
    return planned.plan;
  }

  GpuLaunch launch(const Problem& problem, const KernelOptions& kernel,
                   const GpuLaunchOptions& options) {
    stage(problem, plan(problem.shape, kernel, options.unsafe_ring, options.taps), options.poison);
    before_.record(stream_);
    check_cuda(launch_kernel(params_, stream_.get()), "starting the kernel");
    after_.record(stream_);
    stream_.wait();
    GpuLaunch out;
    out.milliseconds = after_.milliseconds_since(before_);
    if (was_given_up()) {
      out.findings = take_report();
      return out;
    }
    const RegionReader read = workspace_.reader();
    std::vector<uint32_t> tokens;
    for (const RankInput& rank : problem.ranks) tokens.push_back(rank.num_tokens);
    CollectedLayer collected = collect_result(problem.shape, params_.args.plan, tokens, read);
    out.finished = true;
    out.result = std::move(collected.result);
    out.findings = std::move(collected.findings);
    for (Finding& finding : check_zero_words(problem.shape, params_.args.plan, read))
      out.findings.push_back(std::move(finding));
    if (!out.findings.empty()) workspace_.discard();
    return out;
  }

  std::vector<double> time(const Problem& problem, const KernelOptions& kernel, uint32_t repeats) {
    stage(problem, plan(problem.shape, kernel, false, false), 0);
    if (!flush_.reserve(kFlushBytes)) throw CudaError("CUDA, the flush buffer: out of memory");
    std::vector<double> microseconds;
    for (uint32_t i = 0; i < repeats; ++i) {
      check_cuda(cudaMemsetAsync(flush_.data(), static_cast<int>(i), kFlushBytes, stream_.get()),
                 "flushing the L2 cache");
      before_.record(stream_);
      check_cuda(launch_kernel(params_, stream_.get()), "starting the kernel");
      after_.record(stream_);
      stream_.wait();
      if (was_given_up()) {
        const std::vector<Finding> findings = take_report();
        throw CudaError("the kernel was given up: " +
                        (findings.empty() ? std::string("no report") : findings.front().text));
      }
      microseconds.push_back(1e3 * after_.milliseconds_since(before_));
    }
    return microseconds;
  }

 private:
  /// The abort flag has the first 128 bytes of the report buffer to itself.
  static constexpr uint64_t kRecordsOffset = 128;

  /// Everything a launch needs, on the card and in params_.
  void stage(const Problem& problem, const KernelPlan& plan, uint8_t poison) {
    const Shape& shape = problem.shape;
    workspace_.prepare(shape, plan, poison, stream_.get());
    workspace_.upload(problem, stream_.get());
    weights_.prepare(problem, stream_.get());
    params_ = KernelParams{};
    params_.args = {shape, plan, workspace_.layout(), problem.clamp};
    params_.limits = {static_cast<uint64_t>(limit_seconds_ * 1e9), report_.address(),
                      report_.address() + kRecordsOffset};
    params_.skipped_arrive = options_.skipped_arrive;
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      const RankWeights weights = weights_.of(rank);
      params_.ranks[rank] = {workspace_.base(rank), weights.w1_scales, weights.w2_scales,
                             problem.ranks[rank].num_tokens};
      make_tensor_maps(params_.args, workspace_.base(rank), weights, params_.maps[rank]);
    }
  }

  void clear_report() {
    check_cuda(cudaMemsetAsync(report_.data(), 0, report_.bytes(), stream_.get()),
               "clearing the report");
    stream_.wait();
  }

  bool was_given_up() const {
    uint32_t flag = 0;
    check_cuda(cudaMemcpy(&flag, report_.data(), sizeof(flag), cudaMemcpyDeviceToHost),
               "reading the abort flag");
    return flag != 0;
  }

  /// The findings of a given-up launch; report and workspace are clean for the next one.
  std::vector<Finding> take_report() {
    const KernelArgs& args = params_.args;
    std::vector<WaitRecord> records(uint64_t{args.shape.ranks} * args.plan.sms * kAgentsPerCta);
    check_cuda(cudaMemcpy(records.data(), report_.data() + kRecordsOffset,
                          records.size() * sizeof(WaitRecord), cudaMemcpyDeviceToHost),
               "reading the report");
    std::vector<uint64_t> bases;
    for (uint32_t rank = 0; rank < args.shape.ranks; ++rank) bases.push_back(workspace_.base(rank));
    workspace_.discard();
    clear_report();
    return explain_records(args, records, bases, limit_seconds_);
  }

  GpuOptions options_;
  DeviceInfo device_;
  double limit_seconds_ = 0;
  Stream stream_;
  Event before_;
  Event after_;
  uint64_t num_records_ = 0;
  DeviceBuffer report_;
  DeviceBuffer flush_;
  Workspace workspace_;
  CardWeights weights_;
  KernelParams params_{};
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

RunResult GpuSession::run(const Case& c, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  for (const LaunchSpec& launch : c.launches) check(launch.shape, c.kernel, options.unsafe_ring);
  RunResult run;
  WeightCache cache;
  for (size_t i = 0; i < c.launches.size(); ++i) {
    GpuLaunch launched =
        launch(make_problem(c, i, cache), c.kernel, {options.unsafe_ring, true, c.world.poison});
    for (Finding& finding : launched.findings) run.findings.push_back(std::move(finding));
    if (!launched.finished) {
      run.launches.clear();
      break;
    }
    run.launches.push_back(std::move(launched.result));
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace moetwin
