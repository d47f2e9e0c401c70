// The Machine concept: what a warp-role program may ask of the machine that runs it. A role says
// what happens; the machine says how. cpu_sim/ has the simulated machine, cuda/ the sm90 one.
//
// An agent is what runs a role: one warp, or the four warps of a math warpgroup. Calls are made by
// the whole agent, converged, unless they stand in the body of lanes() or elect(). Bodies hold
// plain and atomic memory operations only: no wait, barrier, copy or further lane operation.
// lanes() runs its body once a lane in no promised order and ends with the lanes of each warp
// together again.
#pragma once

#include <concepts>
#include <cstdint>

#include "common/kernel_plan.h"
#include "common/step.h"
#include "common/symmetric_layout.h"

namespace moetwin {

enum class Order : uint8_t { Relaxed, Acquire, Release };
enum class Scope : uint8_t { Cta, Cluster, Gpu, Sys };

/// Which memory a proxy fence orders.
enum class FenceSpace : uint8_t { Shared, Global, Both };

/// What a bulk wait waits for: the sources of all committed groups are read, or their destinations
/// are written as well.
enum class BulkDone : uint8_t { Read, Written };

/// A place in global memory of some rank. Never dereferenced by a role.
template <class T>
struct Global {
  uint64_t address;
  MOETWIN_HD constexpr Global operator+(uint64_t elements) const {
    return {address + elements * sizeof(T)};
  }
};

/// A place in the CTA's shared memory, in bytes from its start.
template <class T>
struct Shared {
  uint32_t offset;
  MOETWIN_HD constexpr Shared operator+(uint32_t elements) const {
    return {offset + elements * static_cast<uint32_t>(sizeof(T))};
  }
};

/// Eight BF16 values, moved as one 16-byte access.
struct alignas(16) Bf16x8 {
  uint32_t pairs[4];
};

/// BF16 columns that a math warpgroup's staging holds of its 64 rows.
constexpr uint32_t kStagedRowBytes = kStagingBytes / kMathRows;
constexpr uint32_t kStagedColumns = kStagedRowBytes / 2;

/// The condition a wait on a word waits for.
struct Awaited {
  enum class Kind : uint8_t {
    AtLeast,  ///< by signed distance, so that counters may wrap
    Equal,
    PhaseFlipped,  ///< the top bit differs from that of `value`
  };
  Kind kind;
  uint32_t value;

  MOETWIN_HD constexpr bool holds(uint32_t word) const {
    if (kind == Kind::AtLeast) return static_cast<int32_t>(word - value) >= 0;
    if (kind == Kind::Equal) return word == value;
    return ((word ^ value) & 0x80000000u) != 0;
  }
};
MOETWIN_HD constexpr Awaited at_least(uint32_t value) { return {Awaited::Kind::AtLeast, value}; }
MOETWIN_HD constexpr Awaited equal_to(uint32_t value) { return {Awaited::Kind::Equal, value}; }
MOETWIN_HD constexpr Awaited phase_flipped(uint32_t old) {
  return {Awaited::Kind::PhaseFlipped, old};
}

/// The kernel's arguments that are the same on every rank. Host and device.
struct KernelArgs {
  Shape shape;
  KernelPlan plan;
  SymmetricLayout layout;
  float clamp;  ///< activation limit; infinity: none
};

/// Stage and parity of a ring of mbarriers as one walker sees it.
struct PipelineState {
  uint32_t index = 0;
  uint32_t parity = 0;

  MOETWIN_HD constexpr void advance(uint32_t depth) {
    if (++index == depth) {
      index = 0;
      parity ^= 1;
    }
  }
};

/// The calls, with what they mean beyond their names:
///
/// who       rank() sm() agent(): this agent's place; agent() counts within its role
///           num_tokens(): of this rank. kLanes: lanes of the agent (a role's Machine type may fix
///           it)
/// lanes     lanes(f) f(lane); elect(f) one lane, its result given to all; sync(step) all lanes and
///           warps of the agent; Lanes<T> v; v[lane] a value a lane; lanes_min, lanes_sum,
///           lanes_scan (inclusive) over the lanes of a warp agent; ballot(f): f(warp lane)
///           evaluated by each warp alike, the mask given to all
/// memory    region<T>(Region), w1_scales(), w2_scales(): this rank's addresses; remote(g, rank):
///           the same place on another rank; load, store, fetch_add, reduce_add on Global and
///           Shared words, with order and scope where not plain; wait_until(word, awaited, scope,
///           step) acquires; bound(index, limit, step, what) refuses an index past its table
/// barriers  barrier_sync / barrier_arrive(NamedBarrier, threads, step); mbarrier_init(bar, count);
///           mbarrier_arrive: once for each warp of the agent, its lanes converged;
///           mbarrier_expect(bar, bytes): one arrival that also announces bytes;
///           mbarrier_wait(bar, parity): returns when the phase of that parity is complete
/// proxies   fence_proxy_async(space, step) by every lane; fence_barrier_init(step)
/// copies    bulk_load(shared, global, bytes, bar), bulk_store(global, shared, bytes), 1-D;
///           tile_load(tensor, row, column, rows, shared, bar): a box of rows x 128 bytes, whose
///           layout in shared memory is the machine's own; tile_store(tensor, row, column, shared):
///           64 rows of 64 bytes, staged; prefetch(tensor): it will be copied; bulk_commit,
///           bulk_wait(BulkDone): all groups of this agent
/// tensor    Accumulator: 64 x 128 f32; kMaxSlices: the most that an agent has at once;
///           operand(shared): a staged tile as mma takes it, Operand + bytes: further on in it;
///           mma<steps>(product, acc, a, b, first_k): product = chained K=32 steps from +0 on the
///           agent's 64 rows of operand a, to be promoted into acc; mma_commit, mma_wait;
///           promote() stepped_k_blocks(n): how many of a tile's n blocks of K the agent walks
///           through, asked once a tile; n, or 1 where the machine lets one stand for all (payload
///           tags)
/// rows      RowValues<T>: a value for each of the 64 rows of a warpgroup's tile, held by the row's
///           owner (four lanes on the GPU); load_rows, store_rows; for_slices<n>(accumulators,
///           f) f(slice, accumulator) and for_rows(accumulator, staging, f) f(row view), in order;
///           staged_byte(row, row bytes, byte): where a byte of a staged row lies;
///           stage_columns(accumulator, first, staging, step, bf16): bf16(value) of kStagedColumns
///           columns from `first` on, kStagedRowBytes a row, each by the warp that owns the row;
///           CopiedRows<T>: a value for each of the 64 rows, held by the lanes that copy it, of the
///           same warp; load_copied_rows(first, valid, step); find_rows(values, valid, place): the
///           places place(value) in global memory that copy_rows(places, offset, valid, staging,
///           step) then copies staged rows to
/// progress  token_done(step): the agent has written y of one more token; counted, never waited for
/// math()    false when payloads are tags and arithmetic is skipped
template <class M>
concept Machine = requires(M& m, const KernelArgs& args, Global<uint32_t> word,
                           Shared<uint32_t> shared_word, Mbarrier bar, NamedBarrier named) {
  { m.rank() } -> std::convertible_to<uint32_t>;
  { m.sm() } -> std::convertible_to<uint32_t>;
  { m.agent() } -> std::convertible_to<uint32_t>;
  { m.num_tokens() } -> std::convertible_to<uint32_t>;
  { m.math() } -> std::convertible_to<bool>;
  { m.load(word) } -> std::convertible_to<uint32_t>;
  { m.load(shared_word) } -> std::convertible_to<uint32_t>;
  { m.remote(word, 0u) } -> std::same_as<Global<uint32_t>>;
  {
    m.fetch_add(word, 1u, Order::Relaxed, Scope::Gpu, Step::None)
    } -> std::convertible_to<uint32_t>;
  m.store(word, 0u, Step::None);
  m.reduce_add(word, 1u, Order::Release, Scope::Gpu, Step::None);
  m.wait_until(word, at_least(1), Scope::Gpu, Step::None);
  m.sync(Step::None);
  m.barrier_sync(named, 64u, Step::None);
  m.barrier_arrive(named, 64u, Step::None);
  m.mbarrier_init(bar, 1u, Step::None);
  m.mbarrier_arrive(bar, Step::None);
  m.mbarrier_expect(bar, 16u, Step::None);
  m.mbarrier_wait(bar, 0u, Step::None);
  m.fence_proxy_async(FenceSpace::Both, Step::None);
  m.bulk_commit(Step::None);
  m.bulk_wait(BulkDone::Written, Step::None);
  m.token_done(Step::None);
  { m.stepped_k_blocks(1u) } -> std::convertible_to<uint32_t>;
  typename M::Accumulator;
};

/// Payload bytes that the agent's warps touch in turn, `bytes_a_warp` each. A role names them where
/// it skips the accesses themselves because math() is false; only a machine that checks cares.
struct SkippedPayload {
  bool writes;
  uint64_t bytes;
  uint32_t bytes_a_warp;
};

template <class M, class Place>
MOETWIN_ROLE void skipped_payload(M& m, Place place, SkippedPayload payload, Step step) {
  if constexpr (requires { m.skipped_payload(place, payload, step); })
    m.skipped_payload(place, payload, step);
}

}  // namespace moetwin
