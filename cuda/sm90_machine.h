// The real machine: what each call of a role program (common/machine.h) is on an sm90 GPU. One
// object a thread; an agent is a warp, or the four warps of a math warpgroup. Everything inlines:
// the object is registers, the parameters stay in the constant bank.
//
//   Lanes<T>      one value a thread: the lane is the thread itself
//   elected lane  always the agent's first: bulk groups belong to the thread that issued them
//   RowValues<T>  two values a thread: rows lane / 4 and lane / 4 + 8 of its warp's sixteen
#pragma once

#include "common/epilogue_math.h"
#include "common/roles/start.h"
#include "cuda/sm90_agent.h"
#include "cuda/sm90_rows.h"
#include "cuda/wgmma.h"

namespace moetwin {

/// `kSlices`: the most that one warpgroup multiplies.
template <Role kRole, uint32_t kSlices, Variant kVariant>
class Sm90Machine : public Sm90Agent<kRole, kVariant> {
  using Agent = Sm90Agent<kRole, kVariant>;
  using Agent::agent_;
  using Agent::base;
  using Agent::elected;
  using Agent::kIsMath;
  using Agent::lane;
  using Agent::params_;
  using Agent::pointer;
  using Agent::skips;
  using Agent::trace;
  using Agent::trace_add;
  using Agent::trace_elected;
  using Agent::warp_lane;

 public:
  using Agent::Agent;
  using Agent::barrier_sync;
  using Agent::kLanes;
  using Agent::num_tokens;
  using Agent::rank;

  static constexpr uint32_t kRowPairs = AccumulatorTile::kChunks;
  static constexpr uint32_t kPairsPerChunk = 1;
  static constexpr uint32_t kMaxSlices = kSlices;
  using Accumulator = AccumulatorTile;

  template <class T>
  struct Lanes {
    T value;
    __device__ __forceinline__ T& operator[](uint32_t) { return value; }
    __device__ __forceinline__ const T& operator[](uint32_t) const { return value; }
  };

  template <class T>
  using RowValues = OwnedRowValues<T>;

  static constexpr bool math() { return true; }
  static __device__ __forceinline__ constexpr uint32_t stepped_k_blocks(uint32_t k_blocks) {
    return k_blocks;
  }

  // Lanes.

  template <class F>
  __device__ __forceinline__ void lanes(F&& f) {
    f(lane());
    __syncwarp();
  }

  /// A math warpgroup's elected lane gives no result: it would have to cross warps.
  template <class F>
  __device__ __forceinline__ auto elect(F&& f) {
    using Result = decltype(f());
    if constexpr (std::is_void_v<Result>) {
      if (elected()) f();
      __syncwarp();
    } else {
      static_assert(!kIsMath && sizeof(Result) == 4);
      Result result{};
      if (elected()) result = f();
      return __shfl_sync(ptx::kAllLanes, result, 0);
    }
  }

  __device__ __forceinline__ void sync(Step step) {
    if constexpr (kIsMath)
      barrier_sync(own_barrier(), kWarpgroupThreads, step);
    else
      __syncwarp();
  }

  __device__ __forceinline__ uint32_t lanes_min(const Lanes<uint32_t>& v) const {
    static_assert(!kIsMath);
    return __reduce_min_sync(ptx::kAllLanes, v.value);
  }
  __device__ __forceinline__ uint32_t lanes_sum(const Lanes<uint32_t>& v) const {
    static_assert(!kIsMath);
    return __reduce_add_sync(ptx::kAllLanes, v.value);
  }
  __device__ __forceinline__ Lanes<uint32_t> lanes_scan(const Lanes<uint32_t>& v) const {
    static_assert(!kIsMath);
    Lanes<uint32_t> sum = v;
    MOETWIN_UNROLL
    for (uint32_t distance = 1; distance < kWarpLanes; distance *= 2) {
      const uint32_t before = __shfl_up_sync(ptx::kAllLanes, sum.value, distance);
      if (warp_lane() >= distance) sum.value += before;
    }
    return sum;
  }
  template <class F>
  __device__ __forceinline__ uint32_t ballot(F&& f) const {
    return __ballot_sync(ptx::kAllLanes, f(warp_lane()));
  }

  // Memory.

  template <class T>
  __device__ __forceinline__ Global<T> region(Region region) const {
    return {base() + params_.args.layout.offset(region)};
  }
  __device__ __forceinline__ Global<float> w1_scales() const {
    return {params_.ranks[rank()].w1_scales};
  }
  __device__ __forceinline__ Global<float> w2_scales() const {
    return {params_.ranks[rank()].w2_scales};
  }
  template <class T>
  __device__ __forceinline__ Global<T> remote(Global<T> place, uint32_t rank) const {
    return {place.address - base() + params_.ranks[rank].base};
  }

  template <class T>
  __device__ __forceinline__ T load(Global<T> place, Step = Step::None) const {
    return *ptx::global_pointer(place);
  }
  template <class T>
  __device__ __forceinline__ T load(Shared<T> place, Step = Step::None) const {
    return *ptx::shared_pointer(place);
  }
  template <class T>
  __device__ __forceinline__ void store(Global<T> place, const T& value, Step) {
    *ptx::global_pointer(place) = value;
  }
  template <class T>
  __device__ __forceinline__ void store(Shared<T> place, const T& value, Step) {
    *ptx::shared_pointer(place) = value;
  }
  template <class T>
  __device__ __forceinline__ T fetch_add(Global<T> word, T value, Order order, Scope scope,
                                         Step step) {
    trace_add(word, value, order, step);
    return ptx::fetch_add(ptx::global_pointer(word), value, order, scope);
  }
  /// Shared counters are relaxed and of the CTA, which is what atomicAdd_block() is.
  template <class T>
  __device__ __forceinline__ T fetch_add(Shared<T> word, T value, Order, Scope, Step) {
    return atomicAdd_block(ptx::shared_pointer(word), value);
  }
  template <class T>
  __device__ __forceinline__ void reduce_add(Global<T> word, T value, Order order, Scope scope,
                                             Step step) {
    if (skips(step)) return;
    trace_add(word, value, order, step);
    ptx::fetch_add(ptx::global_pointer(word), value, order, scope);
  }
  template <class T>
  __device__ __forceinline__ void reduce_add(Shared<T> word, T value, Order, Scope, Step) {
    atomicAdd_block(ptx::shared_pointer(word), value);
  }

  __device__ __forceinline__ void wait_until(Global<uint32_t> word, Awaited awaited, Scope scope,
                                             Step step) {
    trace_elected(TraceKind::Begin, step, TraceObject::Word, word.address);
    const uint32_t got = ptx::load_acquire(ptx::global_pointer(word), scope);
    if (!__all_sync(ptx::kAllLanes, awaited.holds(got))) {
      const WordWait wait{step, scope, awaited};
      if constexpr (kIsMath)
        wait_for_word_in_turns(params_, word, wait);
      else
        call_wait_for_word(params_, word, wait);
    }
    trace_elected(TraceKind::End, step, TraceObject::Word, word.address);
  }

  __device__ __forceinline__ void bound(uint32_t index, uint64_t limit, Step step, uint32_t what) {
    if (index < limit) return;
    give_up(params_, {step, WaitKind::TableBound, Awaited::Kind::Equal, true},
            bound_place(index, what), static_cast<uint32_t>(limit));
  }

  __device__ __forceinline__ void token_done(Step step) {
    trace_elected(TraceKind::TokenDone, step);
  }

  // Proxies.

  __device__ __forceinline__ void fence_proxy_async(FenceSpace space, Step) {
    ptx::fence_proxy_async(space);
  }
  /// For the copy engine too: its bytes count on the new mbarriers.
  __device__ __forceinline__ void fence_barrier_init(Step) {
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async(FenceSpace::Shared);
  }

  // Copies.

  template <class T, class U>
  __device__ __forceinline__ void bulk_load(Shared<T> target, Global<U> source, uint32_t bytes,
                                            Mbarrier bar, Step step) {
    trace_elected(TraceKind::Copy, step, TraceObject::Mbarrier, bar.index, bytes);
    if (!elected()) return;
    void* const to = ptx::shared_pointer(target);
    if constexpr (kIsMath)  // rows to be summed: this is their only reader
      ptx::bulk_load_once(to, ptx::global_pointer(source), bytes, pointer(bar));
    else
      ptx::bulk_load(to, ptx::global_pointer(source), bytes, pointer(bar));
  }
  template <class T, class U>
  __device__ __forceinline__ void bulk_store(Global<T> target, Shared<U> source, uint32_t bytes,
                                             Step step) {
    trace_elected(TraceKind::Copy, step, TraceObject::Stores, 0, bytes);
    if (elected()) ptx::bulk_store(ptx::global_pointer(target), ptx::shared_pointer(source), bytes);
  }
  __device__ __forceinline__ void tile_load(Tensor tensor, uint32_t row, uint32_t column,
                                            uint32_t rows, Shared<uint8_t> target, Mbarrier bar,
                                            Step step) {
    trace_elected(TraceKind::Copy, step, TraceObject::Mbarrier, bar.index, rows * kBlockK);
    if (elected())
      ptx::tile_load(ptx::shared_pointer(target), map(load_map(tensor, rows)), row, column,
                     pointer(bar));
  }
  /// The copy engine fetches the tensor's maps: those of all boxes, and the one it is stored by.
  __device__ __forceinline__ void prefetch(Tensor tensor) {
    if (!elected()) return;
    if (tensor == Tensor::W1 || tensor == Tensor::W2)
      return ptx::prefetch_map(map(load_map(tensor, kSliceN)));
    for (uint32_t box = 0; box < kNumBoxes; ++box)
      ptx::prefetch_map(map(load_map(tensor, box_rows(box))));
    if (tensor == Tensor::Linear1) ptx::prefetch_map(map(store_map(tensor)));
  }
  __device__ __forceinline__ void tile_store(Tensor tensor, uint32_t row, uint32_t column,
                                             Shared<uint8_t> source, Step step) {
    trace_elected(TraceKind::Copy, step, TraceObject::Stores, 0, kMathRows * kLinear1ScaleGroup);
    if (elected())
      ptx::tile_store(map(store_map(tensor)), row, column, ptx::shared_pointer(source));
  }
  __device__ __forceinline__ void bulk_commit(Step) {
    if (elected()) ptx::bulk_commit();
  }
  __device__ __forceinline__ void bulk_wait(BulkDone done, Step step) {
    if (!elected()) return;
    const TraceObject stores =
        done == BulkDone::Read ? TraceObject::StoresRead : TraceObject::Stores;
    trace(TraceKind::Begin, step, stores);
    if (done == BulkDone::Read)
      ptx::bulk_wait_read();
    else
      ptx::bulk_wait_written();
    trace(TraceKind::End, step, stores);
  }

  // Tensor core. The four warps of the agent call together.

  __device__ __forceinline__ void clear(Accumulator& total, uint32_t /*valid*/) {
    MOETWIN_UNROLL
    for (float& value : total.value) value = 0.0f;
    if (params_.args.plan.stages == 0) wgmma::place_sums(total.value);  // no plan is so
  }

  using Operand = wgmma::Operand;

  __device__ __forceinline__ Operand operand(Shared<uint8_t> place) const {
    return wgmma::operand(
        static_cast<uint32_t>(__cvta_generic_to_shared(ptx::shared_pointer(place))));
  }

  template <uint32_t kSteps>
  __device__ __forceinline__ void mma(Accumulator& product, const Accumulator& /*total*/, Operand a,
                                      Operand b, uint32_t first_k, Step step) {
    trace_elected(TraceKind::Begin, step);
    const uint32_t skipped = first_k * kMmaK;
    // With the log's code in the k loop the compiler does better the other way round.
    wgmma::multiply<kSteps, kVariant == Variant::Traced>(product.value, a + skipped, b + skipped);
  }
  __device__ __forceinline__ void mma_commit(Step) { wgmma::commit(); }
  __device__ __forceinline__ void mma_wait(Accumulator& product, Step step) {
    wgmma::wait(product.value);
    trace_elected(TraceKind::End, step);
  }

  __device__ __forceinline__ void promote(Accumulator& total, const Accumulator& product,
                                          const RowValues<float>& row_scales, float even,
                                          float odd) {
    promote_tile(total, product, row_scales, even, odd);
  }

  // Rows.

  /// Rows past `valid` lie inside their buffers and are read all the same; nobody uses them.
  template <template <class> class Place, class T>
  __device__ __forceinline__ RowValues<T> load_rows(Place<T> first, uint32_t /*valid*/,
                                                    Step step) const {
    return {{load(first + owned_row(0), step), load(first + owned_row(1), step)}};
  }
  template <class T>
  __device__ __forceinline__ void store_rows(Global<T> first, const RowValues<T>& values,
                                             uint32_t valid, Step step) {
    if (threadIdx.x % kLanesPerRow == 0) {
      MOETWIN_UNROLL
      for (uint32_t place = 0; place < kRowsPerThread; ++place)
        if (owned_row(place) < valid) store(first + owned_row(place), values[place], step);
    }
    __syncwarp();
  }

  template <uint32_t kCount, class F>
  __device__ __forceinline__ void for_slices(const Accumulator* total, F&& f) {
    MOETWIN_UNROLL
    for (uint32_t slice = 0; slice < kCount; ++slice) f(slice, total[slice]);
  }

  template <class F>
  __device__ __forceinline__ void for_rows(const Accumulator& total, Shared<uint8_t> /*staging*/,
                                           F&& f) {
    each_row<kSlices == 1>(total, f);
    __syncwarp();
  }

  static __device__ __forceinline__ constexpr uint32_t staged_byte(uint32_t row, uint32_t row_bytes,
                                                                   uint32_t byte) {
    return moetwin::staged_byte(row, row_bytes, byte);
  }

  template <class F>
  __device__ __forceinline__ void stage_columns(const Accumulator& total, uint32_t first,
                                                Shared<uint8_t> staging, Step, F&& bf16) {
    moetwin::stage_columns(total, first, staging, bf16);
  }

  template <class T>
  using CopiedRows = CopiedRowValues<T>;
  using RowPlaces = CopiedRowPlaces;

  /// Rows past `valid` lie inside their buffer and are read all the same; nobody uses them.
  template <class T>
  __device__ __forceinline__ CopiedRows<T> load_copied_rows(Global<T> first, uint32_t /*valid*/,
                                                            Step step) const {
    CopiedRows<T> values;
    MOETWIN_UNROLL
    for (uint32_t i = 0; i < kRowCopies; ++i) values.value[i] = load(first + copied_row(i), step);
    return values;
  }
  template <class T, class Place>
  __device__ __forceinline__ RowPlaces find_rows(const CopiedRows<T>& values, uint32_t valid,
                                                 Place&& place) const {
    RowPlaces places{};
    MOETWIN_UNROLL
    for (uint32_t i = 0; i < kRowCopies; ++i)
      if (copied_row(i) < valid)
        places.address[i] = Global<uint8_t>{place(values.value[i])}.address + copied_byte();
    return places;
  }
  /// Eight lanes a row of 128 bytes: each warp writes whole lines.
  __device__ __forceinline__ void copy_rows(const RowPlaces& places, uint32_t offset,
                                            uint32_t valid, Shared<uint8_t> staging, Step step) {
    MOETWIN_UNROLL
    for (uint32_t i = 0; i < kRowCopies; ++i) {
      const uint32_t row = copied_row(i);
      const Shared<uint4> source{staging.offset + staged_byte(row, kStagedRowBytes, copied_byte())};
      const Global<uint4> target{places.address[i] + offset};
      if (row < valid) ptx::store_streaming(ptx::global_pointer(target), load(source, step));
    }
    __syncwarp();
  }

  /// The kernel has done it: all warps of a warpgroup must run the same setmaxnreg instruction, and
  /// the roles of the first warpgroup are different code.
  template <uint32_t kRegisters>
  __device__ __forceinline__ void set_registers(Step) {
    static_assert(kRegisters == (kIsMath ? kMathRegisters : kServiceRegisters));
  }

 private:
  __device__ __forceinline__ NamedBarrier own_barrier() const {
    return static_cast<NamedBarrier>(static_cast<uint32_t>(NamedBarrier::MathWarpgroup0) + agent_);
  }
  __device__ __forceinline__ uint32_t owned_row(uint32_t place) const {
    return lane() / kWarpLanes * kRowsPerWarp + warp_lane() / kLanesPerRow + kRowStep * place;
  }

  __device__ __forceinline__ const CUtensorMap* map(TensorMap which) const {
    const Global<RankMaps> own = Global<RankMaps>{params_.maps} + (rank() - params_.local.first);
    return &ptx::global_pointer(own)->map[static_cast<uint32_t>(which)];
  }
};

}  // namespace moetwin
