// The kernel's parameters: what is the same on every rank, what each rank has of its own, which
// ranks this card runs, and the limits of waits. They stay in the constant bank
// (__grid_constant__), where an index known only at run time costs no local memory. Host and
// device.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "common/machine.h"
#include "common/trace_event.h"
#include "cuda/wait_record.h"

namespace moetwin {

/// Ranks of a launch: side by side on one card, or one a card.
constexpr uint32_t kMaxKernelRanks = 16;

/// Tensor maps of a rank: one for each matrix and way of moving it.
enum class TensorMap : uint8_t {
  PoolXLoad,  ///< one for each box of rows
  Linear1Load = PoolXLoad + kNumBoxes,
  W1Load = Linear1Load + kNumBoxes,
  W2Load,
  Linear1Store,
  TapLinear1Store,
  Count,
};
constexpr uint32_t kNumTensorMaps = static_cast<uint32_t>(TensorMap::Count);

/// The map of operand A's box of `rows`, or of a slice of weights.
MOETWIN_HD constexpr TensorMap load_map(Tensor tensor, uint32_t rows) {
  switch (tensor) {
    case Tensor::W1:
      return TensorMap::W1Load;
    case Tensor::W2:
      return TensorMap::W2Load;
    default:
      return static_cast<TensorMap>(static_cast<uint32_t>(tensor == Tensor::PoolX
                                                              ? TensorMap::PoolXLoad
                                                              : TensorMap::Linear1Load) +
                                    box_of(rows));
  }
}
MOETWIN_HD constexpr TensorMap store_map(Tensor tensor) {
  return tensor == Tensor::Linear1 ? TensorMap::Linear1Store : TensorMap::TapLinear1Store;
}

/// What one rank has of its own. Addresses are the device's; of a rank on another card only `base`
/// is known, as this card reaches it.
struct RankParams {
  uint64_t base;       ///< of its symmetric buffer
  uint64_t w1_scales;  ///< [E_local, 2I/128, H/128] f32
  uint64_t w2_scales;  ///< [E_local, H/128, I/128] f32
  uint32_t num_tokens;
};

/// The tensor maps of one rank, by TensorMap.
struct RankMaps {
  CUtensorMap map[kNumTensorMaps];
};

/// The ranks that one card runs.
struct LocalRanks {
  uint32_t first;
  uint32_t count;
};

/// How long a wait may last, and where it is told that one lasted longer.
struct WaitLimits {
  uint64_t nanoseconds;
  uint64_t abort_flag;  ///< address of a u32: not 0 once any agent of any rank has given up
  uint64_t records;     ///< address of WaitRecord[CTAs][kAgentsPerCta]
  uint32_t num_cards;
  uint64_t all_flags[kMaxKernelRanks];  ///< [num_cards] abort flags, this card's own among them
};

/// Where the traced variant logs its events: a log of `capacity` events an agent.
struct TraceLogs {
  uint64_t events;    ///< address of TraceEvent[CTAs][kAgentsPerCta][capacity]
  uint64_t counts;    ///< address of u32[CTAs][kAgentsPerCta]: events logged, or lost past capacity
  uint32_t capacity;  ///< 0: nothing is traced
};

struct KernelParams {
  KernelArgs args;
  WaitLimits limits;
  /// Planted variant only: the arrivals of this step, at mbarriers or at words (GpuOptions), are
  /// left out.
  Step skipped_arrive;
  TraceLogs trace;
  LocalRanks local;
  RankParams ranks[kMaxKernelRanks];
  uint64_t maps;  ///< address of RankMaps[local.count], in global memory
};
/// A launch begins later the more parameters it has: 26 KB cost 2.4 us on an H200.
static_assert(sizeof(KernelParams) <= 2048);

}  // namespace moetwin
