#include "cuda/card_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "common/check.h"
#include "cuda/kernel.h"
#include "cuda/tensor_maps.h"
#include "cuda/variants.h"
#include "model/checked_plan.h"

namespace moetwin {
namespace {

constexpr uint64_t kFlushBytes = uint64_t{256} << 20;

/// The abort flag has the first 128 bytes of the report buffer to itself.
constexpr uint64_t kRecordsOffset = 128;

/// A kernel all of whose waits have ended still computes and copies; this is far more than any
/// layer takes.
constexpr double kComputeSeconds = 60;
/// A wait that is longer than this need not be answered within microseconds.
constexpr auto kSpin = std::chrono::milliseconds(20);
constexpr auto kNap = std::chrono::microseconds(100);

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

/// Chooses the card before anything is made on it.
DeviceInfo take_device(uint32_t device) {
  DeviceInfo info = device_info(device);
  check_cuda(cudaSetDevice(static_cast<int>(device)), "taking the card");
  return info;
}

}  // namespace

std::vector<uint32_t> token_counts(const Problem& problem) {
  std::vector<uint32_t> tokens;
  for (const RankInput& rank : problem.ranks) tokens.push_back(rank.num_tokens);
  return tokens;
}

CardLauncher::CardLauncher(const GpuOptions& options)
    : options_(options),
      device_(take_device(options.device)),
      limit_seconds_(wait_limit_seconds(options)) {
  check_cuda(prepare_kernels(), "preparing the kernel");
  if (!maps_.reserve(kMaxKernelRanks * sizeof(RankMaps)))
    throw CudaError("CUDA, the tensor maps: out of memory");
  const uint64_t records = uint64_t{device_.sms} * kAgentsPerCta;
  if (!report_.reserve(kRecordsOffset + records * sizeof(WaitRecord)))
    throw CudaError("CUDA, the report buffer: out of memory");
  discard();
}

KernelPlan CardLauncher::plan(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring,
                              bool taps, uint32_t ranks_here) const {
  check_built(kernel);
  const KernelPlan planned = checked_plan(shape, kernel, unsafe_ring, taps);
  if (shape.ranks > kMaxKernelRanks)
    throw InputError(fmt::format("shape.ranks: {} is above {}, the most ranks of a launch",
                                 shape.ranks, kMaxKernelRanks));
  int ctas_per_sm = 0;
  check_cuda(kernel_ctas_per_sm(planned, &ctas_per_sm), "asking for the occupancy");
  const uint64_t wanted = uint64_t{ranks_here} * planned.sms;
  const uint64_t resident = std::min<uint64_t>(ctas_per_sm, 1) * device_.sms;
  if (wanted > resident)
    throw InputError(
        fmt::format("kernel.sms_per_rank: {} on {} ranks need {} SMs at once, the card has {}",
                    planned.sms, ranks_here, wanted, resident));
  return planned;
}

void CardLauncher::stage(const Problem& problem, const KernelPlan& plan, const RankBuffers& buffers,
                         const AbortFlags& flags, uint8_t poison) {
  const LocalRanks local = buffers.local;
  flags_ = flags;
  workspace_.prepare(problem.shape, plan, buffers, poison, stream_.get());
  workspace_.upload(problem, stream_.get());
  weights_.prepare(problem, local, stream_.get());
  params_ = KernelParams{};
  params_.args = {problem.shape, plan, workspace_.layout(), problem.clamp};
  params_.limits.nanoseconds = static_cast<uint64_t>(limit_seconds_ * 1e9);
  params_.limits.abort_flag = flag();
  params_.limits.records = report_.address() + kRecordsOffset;
  const std::vector<uint64_t> all = flags.all.empty() ? std::vector{flag()} : flags.all;
  params_.limits.num_cards = static_cast<uint32_t>(all.size());
  std::copy(all.begin(), all.end(), params_.limits.all_flags);
  params_.skipped_arrive = options_.skipped_arrive;
  params_.local = local;
  std::vector<RankMaps> maps;
  for (uint32_t rank = 0; rank < problem.shape.ranks; ++rank) {
    RankParams& r = params_.ranks[rank];
    r.base = workspace_.base(rank);
    if (rank - local.first >= local.count) continue;
    const RankWeights weights = weights_.of(rank);
    r = {r.base, weights.w1_scales, weights.w2_scales, problem.ranks[rank].num_tokens};
    maps.push_back(make_tensor_maps(params_.args, r.base, weights));
  }
  params_.maps = maps_.address();
  check_cuda(cudaMemcpyAsync(maps_.data(), maps.data(), maps.size() * sizeof(RankMaps),
                             cudaMemcpyHostToDevice, stream_.get()),
             "copying the tensor maps");
}

void CardLauncher::start() {
  before_.record(stream_);
  check_cuda(launch_kernel(params_, stream_.get()), "starting the kernel");
  after_.record(stream_);
}

double CardLauncher::wait() {
  const auto start = std::chrono::steady_clock::now();
  const auto longest = std::chrono::duration<double>(limit_seconds_ + kComputeSeconds);
  for (;;) {
    const cudaError_t status = cudaEventQuery(after_.get());
    if (status == cudaSuccess) return after_.milliseconds_since(before_);
    if (status != cudaErrorNotReady) check_cuda(status, "running the kernel");
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > longest)
      throw CudaError(fmt::format("CUDA, running the kernel: it has not ended {} s past its limit",
                                  kComputeSeconds));
    if (waited > kSpin) std::this_thread::sleep_for(kNap);
  }
}

void CardLauncher::flush_cache(uint32_t value) {
  if (!flush_.reserve(kFlushBytes)) throw CudaError("CUDA, the flush buffer: out of memory");
  check_cuda(cudaMemsetAsync(flush_.data(), static_cast<int>(value), kFlushBytes, stream_.get()),
             "flushing the L2 cache");
}

bool CardLauncher::was_given_up() const {
  uint32_t flag_value = 0;
  check_cuda(cudaMemcpy(&flag_value, reinterpret_cast<const void*>(flag()), sizeof(flag_value),
                        cudaMemcpyDefault),
             "reading the abort flag");
  return flag_value != 0;
}

std::vector<WaitRecord> CardLauncher::records() const {
  std::vector<WaitRecord> records(uint64_t{params_.local.count} * params_.args.plan.sms *
                                  kAgentsPerCta);
  check_cuda(cudaMemcpy(records.data(), report_.data() + kRecordsOffset,
                        records.size() * sizeof(WaitRecord), cudaMemcpyDeviceToHost),
             "reading the report");
  return records;
}

void CardLauncher::discard() {
  workspace_.discard();
  check_cuda(cudaMemsetAsync(report_.data(), 0, report_.bytes(), stream_.get()),
             "clearing the report");
  check_cuda(cudaMemsetAsync(reinterpret_cast<void*>(flag()), 0, sizeof(uint32_t), stream_.get()),
             "clearing the abort flag");
  stream_.wait();
}

}  // namespace moetwin
