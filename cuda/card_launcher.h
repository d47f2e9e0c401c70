// One card and what every launch on it needs: the order stage, start, wait, read back, with the
// report buffer, the weights and the wait limit behind it. Which ranks the card runs and where
// their buffers lie is told by the caller: gpu_session.h (all ranks on one card) and rank_member.h
// (one rank a card). Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "common/kernel_options.h"
#include "cuda/card_weights.h"
#include "cuda/cuda_error.h"
#include "cuda/device_buffer.h"
#include "cuda/device_info.h"
#include "cuda/gpu_options.h"
#include "cuda/kernel_params.h"
#include "cuda/workspace.h"
#include "model/problem.h"

namespace moetwin {

class CardStream {
 public:
  CardStream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
  }
  ~CardStream() { cudaStreamDestroy(stream_); }
  CardStream(const CardStream&) = delete;
  CardStream& operator=(const CardStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { check_cuda(cudaStreamSynchronize(stream_), "running the kernel"); }

 private:
  cudaStream_t stream_ = nullptr;
};

class CardEvent {
 public:
  CardEvent() { check_cuda(cudaEventCreate(&event_), "an event"); }
  ~CardEvent() { cudaEventDestroy(event_); }
  CardEvent(const CardEvent&) = delete;
  CardEvent& operator=(const CardEvent&) = delete;
  cudaEvent_t get() const { return event_; }
  void record(const CardStream& stream) {
    check_cuda(cudaEventRecord(event_, stream.get()), "recording an event");
  }
  double milliseconds_since(const CardEvent& earlier) const {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "reading an event");
    return milliseconds;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Where a card's agents tell each other that one has given up. Addresses of u32 words.
struct AbortFlags {
  uint64_t own = 0;           ///< 0: the launcher's own
  std::vector<uint64_t> all;  ///< of all cards
};

/// Real tokens of each rank.
std::vector<uint32_t> token_counts(const Problem& problem);

class CardLauncher {
 public:
  /// Takes the card. Throws NoCudaDevice.
  explicit CardLauncher(const GpuOptions& options);

  const DeviceInfo& device() const { return device_; }
  const CardStream& stream() const { return stream_; }
  double limit_seconds() const { return limit_seconds_; }
  /// Where several processes take turns on the card, a wait lasts that much longer.
  void multiply_limit(double factor) { limit_seconds_ *= factor; }

  /// The plan of a launch of which this card runs `ranks_here` ranks. Throws InputError.
  KernelPlan plan(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring, bool taps,
                  uint32_t ranks_here) const;

  /// Everything a launch needs, on the card. Throws InputError and CudaError.
  void stage(const Problem& problem, const KernelPlan& plan, const RankBuffers& buffers,
             const AbortFlags& flags, uint8_t poison);

  /// The traced kernel runs in place of the shipped one until the next stage().
  void trace_into(const TraceLogs& logs) { params_.trace = logs; }

  /// Starts what was staged, with an event before and after it.
  void start();
  /// Waits until it has ended, but not much longer than its waits may last: throws CudaError then.
  /// Returns the milliseconds between the two events.
  double wait();

  /// Overwrites the L2 cache with other data, in the stream.
  void flush_cache(uint32_t value);

  bool was_given_up() const;
  /// The records of a given-up launch, [local ranks * sms][kAgentsPerCta].
  std::vector<WaitRecord> records() const;
  /// Report and abort flag are clean, and the next stage() finds the workspace new.
  void discard();

  const KernelArgs& args() const { return params_.args; }
  const KernelParams& params() const { return params_; }
  const Workspace& workspace() const { return workspace_; }
  /// What the last launch left breaks a rule: the next one starts on a clean workspace.
  void discard_workspace() { workspace_.discard(); }

 private:
  uint64_t flag() const { return flags_.own != 0 ? flags_.own : report_.address(); }

  GpuOptions options_;
  DeviceInfo device_;
  double limit_seconds_ = 0;
  CardStream stream_;
  CardEvent before_;
  CardEvent after_;
  DeviceBuffer report_;
  DeviceBuffer maps_;  ///< RankMaps of the local ranks
  DeviceBuffer flush_;
  Workspace workspace_;
  CardWeights weights_;
  AbortFlags flags_;
  KernelParams params_{};
};

}  // namespace moetwin
