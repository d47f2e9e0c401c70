// A card held for many launches: workspace, weights and report buffer are allocated once and kept,
// so that thousands of small cases cost little more than their launches. It owns the order of one
// launch: refuse, prepare, upload, start, read back. A plain header: no CUDA in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/kernel_options.h"
#include "cuda/card_trace.h"
#include "cuda/device_info.h"
#include "cuda/gpu_options.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

/// What one launch gave.
struct GpuLaunch {
  bool finished = false;  ///< false: given up, there is no result
  LayerResult result;
  std::vector<Finding> findings;
  double milliseconds = 0;  ///< of the kernel, between two events
};

class GpuSession {
 public:
  /// Throws NoCudaDevice.
  explicit GpuSession(const GpuOptions& options = {});
  ~GpuSession();
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  const DeviceInfo& device() const;

  /// Throws InputError, one line, for what make_plan() refuses, more than 16 ranks, a launch whose
  /// CTAs could not all be resident, or too little memory.
  void check(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring = false) const;

  /// Runs one launch and reads every stage back. Throws as check(), and CudaError where the card
  /// fails. After a launch that was given up the next one starts on a cleared workspace.
  GpuLaunch launch(const Problem& problem, const KernelOptions& kernel,
                   const GpuLaunchOptions& options = {});

  /// Runs every launch of a case; the first that is given up ends the run.
  RunResult run(const Case& c, const RunOptions& options);

  /// Microseconds of `repeats` launches of one problem without taps, inputs staged beforehand, the
  /// L2 cache flushed before each. Throws CudaError if one is given up.
  std::vector<double> time(const Problem& problem, const KernelOptions& kernel, uint32_t repeats);

  /// Bytes a second, read and written counted, of the fastest of a few copies of 1 GiB on the card.
  double copy_bandwidth();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetwin
