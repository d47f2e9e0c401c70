// Several cards of one host, one rank and one process a card, held for many launches. Rank 0 leads:
// it starts the other processes or waits for those that torchrun or mpirun started, tells each what
// to do, and gathers a result that looks like one card's. A plain header: no CUDA in it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kernel_options.h"
#include "cuda/device_info.h"
#include "cuda/gpu_options.h"
#include "cuda/gpu_session.h"
#include "cuda/rank_protocol.h"
#include "cuda/ranks/rank_place.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

/// Where two ranks have the same card, their kernels take turns: waits may last so much longer.
constexpr double kSharedCardLimitFactor = 10;
constexpr double kDefaultRendezvousSeconds = 60;

struct GpuGroupOptions {
  GpuOptions gpu;  ///< its device is the card of rank 0 where processes are started
  /// Start this program again for every other rank, with the arguments it was started with and the
  /// environment of a rank; it must come to serve_rank(). Otherwise the ranks come by themselves.
  bool start_processes = true;
  RankPlace place;  ///< of rank 0
  std::vector<uint32_t>
      cards;  ///< [ranks] the card of each rank that is started; empty: its number
  double rendezvous_seconds = kDefaultRendezvousSeconds;
  bool without_nccl = false;             ///< share memory through driver handles at once
  std::optional<uint32_t> leaving_rank;  ///< ends instead of starting its first launch
};

/// The options under which rank 0 starts a process for each other rank of `ranks`.
GpuGroupOptions group_of(uint32_t ranks);

class GpuGroup {
 public:
  /// Rank 0 of a run. Throws RendezvousError where ranks do not come, NoCudaDevice where one has no
  /// card or its card does not reach the others', GpuGroupError where one fails.
  explicit GpuGroup(const GpuGroupOptions& options);
  /// Lets the other ranks go; processes it started end with it.
  ~GpuGroup();
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;

  const DeviceInfo& device() const;
  /// How memory is shared and why not otherwise, one line each.
  const std::vector<std::string>& notes() const;

  /// Throws InputError for what GpuSession::check() refuses and for a number of ranks that is not
  /// this group's.
  void check(const Shape& shape, const KernelOptions& kernel, bool unsafe_ring = false) const;

  /// Runs one launch of a case. A launch that was given up, also because a rank is missing, has
  /// findings that name it, and every rank that is left gets them. The case's world.late_rank
  /// starts late_steps microseconds after the others; a rank that starts noticeably late is a note
  /// (class slow). Throws as check(), and GpuGroupError.
  GpuLaunch launch(const Case& c, size_t index, const GpuLaunchOptions& options = {});

  /// Runs every launch of a case; the first that is given up ends the run. A rank that fails
  /// outside a launch is a finding (class residency).
  RunResult run(const Case& c, const RunOptions& options);

  /// Microseconds of `repeats` launches of the case's first one, without taps, inputs staged
  /// beforehand, L2 caches flushed, all cards started together; of each the slowest rank's.
  std::vector<double> time(const Case& c, uint32_t repeats);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a rank other than 0 has to say when the run is over.
struct RankReport {
  bool failed = false;
  std::vector<std::string> lines;
};

/// The whole life of a rank other than 0: does what rank 0 asks for until it lets it go or is gone.
/// Throws RendezvousError.
RankReport serve_rank(const RankPlace& place, const GpuOptions& options);

}  // namespace moetwin
