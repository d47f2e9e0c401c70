// A complete plan of the kernel for a shape: tile sizes, warp roles, barriers, ring, and the map of
// shared memory. make_plan() derives it from a case's options or says which field is wrong. Owns
// every count of threads and arrivals; the role programs ask it and never repeat one.
#pragma once

#include <cstdint>

#include "common/block_scheduler.h"
#include "common/host_device.h"
#include "common/kernel_options.h"
#include "common/ring_pool.h"
#include "common/routing.h"
#include "common/shape.h"

namespace moetwin {

/// The warp roles of a CTA, in the order of its warps.
enum class Role : uint8_t { Dispatch, LoadA, LoadB, Math, Count };
constexpr uint32_t kNumRoles = static_cast<uint32_t>(Role::Count);

constexpr const char* role_name(Role role) {
  constexpr const char* kNames[] = {"dispatch", "load_a", "load_b", "math"};
  return kNames[static_cast<uint32_t>(role)];
}

constexpr uint32_t kDispatchWarps = 2;
constexpr uint32_t kWarpgroupWarps = 4;
constexpr uint32_t kWarpgroupThreads = kWarpgroupWarps * kWarpLanes;
constexpr uint32_t kMathRows = 64;  ///< rows of a tile that a math warpgroup multiplies
constexpr uint32_t kMaxMathWarpgroups = 2;
constexpr uint32_t kRowsPerWarp = kMathRows / kWarpgroupWarps;  ///< as wgmma lays them out
constexpr uint32_t kMmaK = 32;              ///< codes of K a tensor-core step multiplies
constexpr uint32_t kPullChunkBytes = 4096;  ///< most bytes of a row a dispatch warp holds at once
constexpr uint32_t kPullChunkAlignment = 128;  ///< what chunks are multiples of, in bytes
constexpr uint32_t kTaskQueueEntries = 2;      ///< tiles a CTA may claim ahead
constexpr uint32_t kMaxCombineStages = 8;
constexpr uint32_t kCombineColumns = 4096;  ///< most BF16 columns of a combine stage
constexpr uint32_t kLeastCombineColumns = 256;
constexpr uint32_t kCombineStageBytes = 2 * kCombineColumns;
constexpr uint32_t kMaxSharedBytes = 232448;
/// Data regions are addressed by 32-bit rows.
constexpr uint64_t kMaxPoolRows = uint64_t{1} << 31;
/// Tiles are numbered in 32 bits.
constexpr uint64_t kMaxTasks = (uint64_t{1} << 32) - 65536;

// Dispatch and load warps share the first warpgroup, so that setmaxnreg can move its registers.
static_assert(kDispatchWarps + 2 == kWarpgroupWarps);

constexpr uint32_t kDispatchThreads = kDispatchWarps * kWarpLanes;
constexpr uint32_t kServiceRegisters = 56;  ///< a thread of the first warpgroup
constexpr uint32_t kMathRegisters = 224;    ///< a thread of a math warpgroup
static_assert(kServiceRegisters % 8 == 0 && kMathRegisters % 8 == 0);
static_assert(kWarpgroupThreads * (kServiceRegisters + 2 * kMathRegisters) <= 65536);

/// Named barriers of a CTA. Participants are threads.
enum class NamedBarrier : uint8_t {
  Everyone,        ///< all warps: mbarriers initialised; pool table built
  Dispatch,        ///< the dispatch warps
  MathDone,        ///< math warps arrive, dispatch warps wait
  CombineReady,    ///< dispatch warps arrive, math warps wait
  MathWarpgroup0,  ///< the warps of one math warpgroup
  MathWarpgroup1,
  Count,
};
constexpr uint32_t kNumNamedBarriers = static_cast<uint32_t>(NamedBarrier::Count);
static_assert(kNumNamedBarriers <= 16, "the hardware has ids 0 to 15");

constexpr const char* named_barrier_name(NamedBarrier barrier) {
  constexpr const char* kNames[] = {"Everyone",     "Dispatch",       "MathDone",
                                    "CombineReady", "MathWarpgroup0", "MathWarpgroup1"};
  return kNames[static_cast<uint32_t>(barrier)];
}

/// An mbarrier by its place in the CTA's array.
struct Mbarrier {
  uint32_t index;
};

/// Byte offsets into a CTA's shared memory.
struct SharedLayout {
  uint32_t stage_a;         ///< [stages][BLOCK_M][128] codes; with stage_b the combine's stages
  uint32_t stage_b;         ///< [stages][BLOCK_N][128] codes
  uint32_t stage_scales;    ///< [stages][2][BLOCK_M] f32
  uint32_t staging;         ///< [math warpgroups][8192] bytes: output tiles
  uint32_t pull_buffer;     ///< [dispatch warps][pull chunk]
  uint32_t expert_counter;  ///< [E] u32
  uint32_t pool_table;      ///< [E_local + 1] PoolTableEntry
  uint32_t task_queue;      ///< [entries] TaskEntry
  uint32_t mbarriers;       ///< [num_mbarriers] 8 bytes
  uint32_t machine;         ///< kMachineSharedBytes that belong to the machine, not to the roles
  uint32_t total;
};

/// The sm90 machine keeps one mbarrier for each named barrier here.
constexpr uint32_t kMachineSharedBytes = 64;
static_assert(kNumNamedBarriers * 8 <= kMachineSharedBytes);

constexpr uint32_t kStagingBytes = 8192;  ///< a math warpgroup's staging: 64 rows of 128 bytes
static_assert(kStagingBytes == kMathRows * 128);

/// Everything the role programs need to know about the kernel beyond the shape.
struct KernelPlan {
  uint32_t block_m;
  uint32_t block_n;
  uint32_t math_warpgroups;
  uint32_t sms;
  uint32_t stages;
  SchedulerPolicy scheduler;
  uint32_t ring_blocks;
  uint32_t warm_up;
  uint32_t experts_per_wave;
  uint32_t max_blocks;   ///< pool blocks any routing can need
  uint32_t pull_chunks;  ///< that a row is pulled in
  uint32_t pull_chunk_bytes;
  uint32_t combine_columns;  ///< of a chunk
  uint32_t combine_chunks;   ///< of a token
  uint32_t combine_stages;   ///< rows a math warpgroup holds on their way into a sum
  TileCounts tiles;
  bool taps;  ///< Linear1 rows are also stored by logical row, to be read back
  SharedLayout shared;

  MOETWIN_HD constexpr uint32_t math_warps() const { return math_warpgroups * kWarpgroupWarps; }
  MOETWIN_HD constexpr uint32_t threads() const {
    return kWarpgroupThreads * (1 + math_warpgroups);
  }
  MOETWIN_HD constexpr uint32_t math_threads() const { return kWarpgroupThreads * math_warpgroups; }
  MOETWIN_HD constexpr uint32_t max_pool_rows() const { return max_blocks * block_m; }

  /// Slices of 128 weight rows, each with an accumulator of its own.
  MOETWIN_HD constexpr uint32_t slices() const { return block_n / kSliceN; }

  /// What all rows of a pool block add to x_full.
  MOETWIN_HD constexpr uint32_t x_full_a_block() const { return block_m * pull_chunks; }

  MOETWIN_HD constexpr uint32_t row_groups() const { return block_m / kMathRows; }

  MOETWIN_HD constexpr uint32_t stage_a_bytes() const { return block_m * kBlockK; }
  MOETWIN_HD constexpr uint32_t stage_b_bytes() const { return block_n * kBlockK; }
  MOETWIN_HD constexpr uint32_t stage_scale_bytes() const { return 2 * block_m * 4; }

  // mbarriers, by place. A stage's own two do not depend on how many stages there are: the math
  // warps work them out on the way.
  MOETWIN_HD constexpr Mbarrier full(uint32_t stage) const { return {2 * stage}; }
  MOETWIN_HD constexpr Mbarrier empty(uint32_t stage) const { return {2 * stage + 1}; }
  MOETWIN_HD constexpr Mbarrier task_full(uint32_t entry) const { return {2 * stages + entry}; }
  MOETWIN_HD constexpr Mbarrier task_empty(uint32_t entry) const {
    return {2 * stages + kTaskQueueEntries + entry};
  }
  MOETWIN_HD constexpr Mbarrier pull(uint32_t warp) const {
    return {2 * stages + 2 * kTaskQueueEntries + warp};
  }
  MOETWIN_HD constexpr Mbarrier combine(uint32_t warpgroup, uint32_t stage) const {
    return {2 * stages + 2 * kTaskQueueEntries + kDispatchWarps + warpgroup * combine_stages +
            stage};
  }
  MOETWIN_HD constexpr uint32_t num_mbarriers() const { return combine(math_warpgroups, 0).index; }

  // Arrivals that complete a phase.
  static constexpr uint32_t kFullArrivals = 2;  ///< load A and load B, each with its bytes
  MOETWIN_HD constexpr uint32_t empty_arrivals() const { return math_warps(); }
  static constexpr uint32_t kTaskFullArrivals = 1;
  MOETWIN_HD constexpr uint32_t task_empty_arrivals() const { return 1 + math_warps(); }
};

/// Rows of the boxes that operand A is loaded by; a tile takes the smallest that holds its valid
/// rows.
constexpr uint32_t kBoxRows[] = {8, 32, 64, 128};
constexpr uint32_t kNumBoxes = sizeof(kBoxRows) / sizeof(kBoxRows[0]);

/// Number of the box of a tile of `rows` valid rows, 1 to 128. No larger than BLOCK_M, which is one
/// of them.
MOETWIN_HD constexpr uint32_t box_of(uint32_t rows) {
  return rows <= 8 ? 0 : rows <= 32 ? 1 : rows <= 64 ? 2 : 3;
}
MOETWIN_HD constexpr uint32_t box_rows(uint32_t box) { return box == 0 ? 8 : 16u << box; }
static_assert(box_rows(0) == kBoxRows[0] && box_rows(1) == kBoxRows[1]);
static_assert(box_rows(2) == kBoxRows[2] && box_rows(3) == kBoxRows[3]);

/// A claimed tile as load A publishes it to the CTA.
struct alignas(16) TaskEntry {
  TileKind kind;
  uint32_t block;
  uint32_t n;
  uint32_t local_expert;
  uint32_t rows;    ///< valid rows of the block
  uint32_t slice;   ///< the first one of the tile's that are multiplied
  uint32_t slices;  ///< how many
  uint32_t unused;
};
static_assert(sizeof(TaskEntry) == 32);

/// A plan, or the field that forbids one.
struct PlanResult {
  KernelPlan plan{};
  ShapeError error{};
};

namespace detail {

constexpr uint32_t align_up(uint32_t bytes, uint32_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

constexpr SharedLayout make_shared_layout(const Shape& shape, const KernelPlan& plan) {
  SharedLayout s{};
  uint32_t at = 0;
  const auto place = [&at](uint32_t bytes, uint32_t alignment) {
    at = align_up(at, alignment);
    const uint32_t offset = at;
    at += bytes;
    return offset;
  };
  // 1024: a 128-byte swizzled tile starts on one.
  s.stage_a = place(plan.stages * plan.stage_a_bytes(), 1024);
  s.stage_b = place(plan.stages * plan.stage_b_bytes(), 1024);
  s.staging = place(plan.math_warpgroups * kStagingBytes, 1024);
  s.stage_scales = place(plan.stages * plan.stage_scale_bytes(), 128);
  s.pull_buffer = place(kDispatchWarps * plan.pull_chunk_bytes, 128);
  s.expert_counter = place(shape.experts * 4, 16);
  s.pool_table = place((shape.num_local_experts() + 1) * sizeof(PoolTableEntry), 16);
  s.task_queue = place(kTaskQueueEntries * sizeof(TaskEntry), 16);
  s.mbarriers = place(plan.num_mbarriers() * 8, 8);
  s.machine = place(kMachineSharedBytes, 8);
  s.total = at;
  return s;
}

}  // namespace detail

/// Derives the plan of a valid shape. `allow_unsafe_ring` skips the rule that a ring below the
/// smallest safe one is refused (`run --unsafe-ring`); `taps` adds the stage taps.
constexpr PlanResult make_plan(const Shape& shape, const KernelOptions& options,
                               bool allow_unsafe_ring = false, bool taps = false) {
  if (options.block_m != 64 && options.block_m != 128)
    return {{}, {"kernel.block_m", options.block_m, "64 or 128"}};
  if (options.sms_per_rank < 1 || options.sms_per_rank > kMaxSmsPerRank)
    return {{}, {"kernel.sms_per_rank", options.sms_per_rank, "1 to 256"}};
  if (options.stages < 1 || options.stages > kMaxStages)
    return {{}, {"kernel.stages", options.stages, "1 to 8"}};
  const uint64_t blocks = max_pool_blocks(shape, options.block_m);
  if (blocks * options.block_m > kMaxPoolRows)
    return {{},
            {"shape.max_tokens_per_rank", shape.max_tokens_per_rank,
             "so few that ranks * max_tokens_per_rank * topk stays within 2^31 pool rows"}};
  if (options.block_n != kSliceN && options.block_n != kMaxSlices * kSliceN)
    return {{}, {"kernel.block_n", options.block_n, "128 or 256"}};
  if (shape.hidden % options.block_n != 0)
    return {{}, {"kernel.block_n", options.block_n, "a divisor of shape.hidden"}};
  const TileCounts tiles = tile_counts(shape, options.block_n);
  // Claims past the end must not wrap the counter either: each SM makes one.
  if (blocks * (tiles.n1 + tiles.n2) > kMaxTasks)
    return {{},
            {"shape.max_tokens_per_rank", shape.max_tokens_per_rank,
             "so few that the tiles of a rank stay within 2^32 - 65536"}};
  KernelPlan plan{};
  plan.block_m = options.block_m;
  plan.block_n = options.block_n;
  const uint32_t parts = plan.row_groups() * plan.slices();
  plan.math_warpgroups = parts < kMaxMathWarpgroups ? parts : kMaxMathWarpgroups;
  plan.sms = options.sms_per_rank;
  plan.stages = options.stages;
  plan.scheduler = options.scheduler;
  plan.max_blocks = static_cast<uint32_t>(blocks);
  plan.tiles = tiles;
  plan.warm_up = linear1_warm_up(shape, options.block_n, options.sms_per_rank);
  plan.experts_per_wave =
      options.experts_per_wave == 0 ? shape.num_local_experts() : options.experts_per_wave;
  plan.taps = taps;
  const uint64_t safe =
      smallest_safe_ring(shape, {options.block_m, options.block_n}, options.sms_per_rank);
  if (options.scheduler == SchedulerPolicy::Wave) {
    plan.ring_blocks = plan.max_blocks;
  } else {
    plan.ring_blocks = options.ring_blocks == 0 ? static_cast<uint32_t>(safe) : options.ring_blocks;
    if (plan.ring_blocks < safe && !allow_unsafe_ring)
      return {{},
              {"kernel.ring_blocks", options.ring_blocks,
               "at least the smallest safe ring (moetwin ring CASE tells it)"}};
    if (plan.ring_blocks > kMaxRingBlocks)
      return {{}, {"kernel.ring_blocks", options.ring_blocks, "at most 1048576"}};
  }
  // Chunks of the same size, as few as there can be: what that leaves may hold another stage.
  plan.pull_chunks = (shape.hidden + kPullChunkBytes - 1) / kPullChunkBytes;
  plan.pull_chunk_bytes = detail::align_up((shape.hidden + plan.pull_chunks - 1) / plan.pull_chunks,
                                           kPullChunkAlignment);
  // With few tokens the columns are shared, so that more SMs have some.
  plan.combine_columns = shape.hidden < kCombineColumns ? shape.hidden : kCombineColumns;
  const auto chunks = [&] {
    return (shape.hidden + plan.combine_columns - 1) / plan.combine_columns;
  };
  while (plan.combine_columns > kLeastCombineColumns &&
         uint64_t{shape.max_tokens_per_rank} * chunks() < uint64_t{plan.sms} * plan.math_warpgroups)
    plan.combine_columns /= 2;
  plan.combine_chunks = chunks();
  const uint32_t in_stages = plan.stages * (plan.stage_a_bytes() + plan.stage_b_bytes()) /
                             (plan.math_warpgroups * kCombineStageBytes);
  plan.combine_stages = in_stages < kMaxCombineStages ? in_stages : kMaxCombineStages;
  plan.shared = detail::make_shared_layout(shape, plan);
  if (plan.shared.total > kMaxSharedBytes)
    return {{},
            {"kernel.stages", options.stages,
             "so few that a CTA's shared memory stays within 232448 bytes"}};
  return {plan, {}};
}

}  // namespace moetwin
