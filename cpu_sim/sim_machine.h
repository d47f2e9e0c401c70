// The simulated machine as a role program sees it (common/machine.h): every call acts on the
// Simulation through the agent that runs. Lanes are a loop, an elected lane is lane 0, a row of an
// accumulator belongs to one owner who holds all its columns.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#include "cpu_sim/simulation.h"

namespace moetwin {

class SimMachine {
 public:
  static constexpr uint32_t kRowPairs = kSliceN / 2;
  static constexpr uint32_t kPairsPerChunk = 4;
  static constexpr uint32_t kMaxSlices = 2;
  static constexpr uint32_t kAllLanes = UINT32_MAX;

  template <class T>
  using Lanes = std::array<T, kWarpgroupThreads>;

  template <class T>
  struct RowValues {
    std::array<T, kMathRows> rows{};
    const T& operator[](uint32_t place) const { return rows[place]; }
    void set(uint32_t place, const T& value) { rows[place] = value; }
  };

  /// A tile's accumulator: a job of its own, or one product on its way into another.
  struct Accumulator {
    SimMachine* machine = nullptr;
    TileJob* job = nullptr;
    Accumulator* total = nullptr;  ///< of a product: where it will be promoted
    uint32_t valid = 0;
    Shared<uint8_t> a{0};  ///< operands of a product
    Shared<uint8_t> b{0};
    uint32_t first_step = 0;
    uint32_t steps = 0;
    uint32_t block = 0;      ///< of the job, once the operands have been read
    uint32_t operation = 0;  ///< the checker's number of the product
    bool read = false;
    bool retired = false;
    bool tagged = false;
    SimMachine* late_wait = nullptr;     ///< that has postponed the wait for this product
    std::array<RowTag, kMathRows> tags;  ///< of the valid rows, once tagged

    Accumulator() = default;
    Accumulator(const Accumulator&) = delete;
    Accumulator& operator=(const Accumulator&) = delete;
    ~Accumulator();
  };

  struct Pair {
    float low;
    float high;
  };

  struct RowView {
    const float* values;
    uint32_t row;
    uint32_t index() const { return row; }
    uint32_t place() const { return row; }
    Pair pair(uint32_t p) const { return {values[2 * p], values[2 * p + 1]}; }
    uint32_t half_column(uint32_t p) const { return 2 * p; }
    float max(float value) const { return value; }
  };

  /// For one launch.
  SimMachine(Simulation& sim, Agent& agent)
      : sim_(sim),
        agent_(agent),
        cta_(sim.cta(agent)),
        checker_(sim.checker()),
        stamp_(sim.stamp(agent)) {}

  // Who.
  uint32_t rank() const { return agent_.rank; }
  uint32_t sm() const { return agent_.sm; }
  uint32_t agent() const { return agent_.number; }
  uint32_t num_tokens() const { return sim_.rank(agent_.rank).num_tokens; }
  bool math() const { return sim_.math(); }

  // Lanes.
  template <class F>
  void lanes(F&& f) {
    sim_.visible(agent_);
    const uint32_t count = agent_.warps * kWarpLanes;
    if (!sim_.scheduler().shuffles_lanes()) {
      for (lane_ = 0; lane_ < count; ++lane_) f(lane_);
    } else {
      // An odd step visits every lane of a power of two once.
      const uint64_t random = sim_.scheduler().random(sim_.id_of(agent_));
      const uint32_t step = static_cast<uint32_t>(random >> 32) | 1;
      for (uint32_t i = 0; i < count; ++i) {
        lane_ = (static_cast<uint32_t>(random) + i * step) % count;
        f(lane_);
      }
    }
    end_of_lanes();
  }

  template <class F>
  auto elect(F&& f) {
    sim_.visible(agent_);
    lane_ = 0;
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      end_of_lanes();
    } else {
      const auto value = f();
      end_of_lanes();
      return value;
    }
  }

  uint32_t lanes_sum(const Lanes<uint32_t>& v) const {
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) sum += v[lane];
    return sum;
  }
  uint32_t lanes_min(const Lanes<uint32_t>& v) const {
    return *std::min_element(v.begin(), v.begin() + kWarpLanes);
  }
  Lanes<uint32_t> lanes_scan(const Lanes<uint32_t>& v) const {
    Lanes<uint32_t> through{};
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) through[lane] = sum += v[lane];
    return through;
  }
  template <class F>
  uint32_t ballot(F&& f) {
    uint32_t mask = 0;
    for (lane_ = 0; lane_ < kWarpLanes; ++lane_) mask |= uint32_t{f(lane_)} << lane_;
    lane_ = kAllLanes;
    if (checker_) note_put_off_reads();
    return mask;
  }

  void token_done(Step step) {
    ++sim_.counts().rows_combined;
    trace(TraceKind::TokenDone, step);
  }

  // Memory.
  template <class T>
  Global<T> region(Region region) const {
    return {pack_address(agent_.rank, static_cast<uint32_t>(region), 0)};
  }
  Global<float> w1_scales() const { return {pack_address(agent_.rank, kW1ScalesRegion, 0)}; }
  Global<float> w2_scales() const { return {pack_address(agent_.rank, kW2ScalesRegion, 0)}; }
  template <class T>
  Global<T> remote(Global<T> place, uint32_t rank) const {
    return {pack_address(rank, address_region(place.address), address_offset(place.address))};
  }

  template <class T>
  T load(Global<T> from, Step step = Step::None) {
    cost(sim_.costs().global_access / kWarpLanes);
    if (checker_) note(AccessKind::Read, from.address, sizeof(T), step);
    if (watched(from.address)) sim_.synced(sim_.id_of(agent_), step, SyncOp::Read, from.address, 0);
    sim_.touched(agent_, step, DataOp::Load, from.address);
    return peek(from, step);
  }
  template <class T>
  T load(Shared<T> from, Step step = Step::None) {
    if (checker_) note(AccessKind::Read, from.offset, sizeof(T), step);
    return peek(from, step);
  }
  template <class T>
  void store(Global<T> to, T value, Step step) {
    if (!spared(to.address) && dropped(step)) return;
    if (checker_) note(AccessKind::Write, to.address, sizeof(T), step);
    poke(to, value, step);
    sim_.touched(agent_, step, DataOp::Store, to.address, &value);
    if constexpr (std::is_integral_v<T>)
      if (watched(to.address))
        sim_.synced(sim_.id_of(agent_), step, SyncOp::Write, to.address, value);
  }
  template <class T>
  void store(Shared<T> to, T value, Step step) {
    if (dropped(step)) return;
    if (checker_) note(AccessKind::Write, to.offset, sizeof(T), step);
    poke(to, value, step);
    if constexpr (std::is_same_v<T, TaskEntry>)
      sim_.touched(agent_, step, DataOp::Store, sync_object_shared(agent_.cta, to.offset), &value);
  }
  template <class T>
  T fetch_add(Global<T> to, T value, Order order, Scope scope, Step step) {
    return add_word(to, value, order, scope, step, SyncOp::Fetch);
  }
  template <class T>
  T fetch_add(Shared<T> to, T value, Order order, Scope scope, Step step) {
    return add_word(to, value, order, scope, step, SyncOp::Fetch);
  }
  template <class T>
  void reduce_add(Global<T> to, T value, Order order, Scope scope, Step step) {
    add_word(to, value, order, scope, step, SyncOp::Add);
  }
  template <class T>
  void reduce_add(Shared<T> to, T value, Order order, Scope scope, Step step) {
    add_word(to, value, order, scope, step, SyncOp::Add);
  }
  void wait_until(Global<uint32_t> word, Awaited awaited, Scope scope, Step step);
  void bound(uint32_t index, uint64_t limit, Step step, uint32_t expert);

  // Barriers.
  void sync(Step step);
  void barrier_sync(NamedBarrier barrier, uint32_t threads, Step step);
  void barrier_arrive(NamedBarrier barrier, uint32_t threads, Step step);
  void mbarrier_init(Mbarrier bar, uint32_t arrivals, Step step);
  void fence_barrier_init(Step step) {
    if (checker_) checker_->fence(sim_.id_of(agent_), FenceSpace::Shared, false, step);
  }
  void mbarrier_arrive(Mbarrier bar, Step step);
  void mbarrier_expect(Mbarrier bar, uint32_t bytes, Step step);
  void mbarrier_wait(Mbarrier bar, uint32_t parity, Step step);
  void fence_proxy_async(FenceSpace space, Step step);
  template <uint32_t registers>
  void set_registers(Step) {
    static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256);
  }

  // Copies.
  template <class T>
  void bulk_load(Shared<T> to, Global<T> from, uint32_t bytes, Mbarrier bar, Step step) {
    bulk(Copy::Kind::Load, from.address, to.offset, bytes, bar, step);
  }
  template <class T>
  void bulk_store(Global<T> to, Shared<T> from, uint32_t bytes, Step step) {
    bulk(Copy::Kind::Store, to.address, from.offset, bytes, Mbarrier{0}, step);
  }
  static void prefetch(Tensor) {}
  void tile_load(Tensor tensor, uint32_t row, uint32_t column, uint32_t rows, Shared<uint8_t> to,
                 Mbarrier bar, Step step);
  void tile_store(Tensor tensor, uint32_t row, uint32_t column, Shared<uint8_t> from, Step step);
  void bulk_commit(Step step);
  void bulk_wait(BulkDone done, Step step);

  // Tensor core.
  /// Without tile arithmetic one block of K stands for all of a tile's, but for the first tiles of
  /// an SM: with them every barrier and stage has been walked through.
  uint32_t stepped_k_blocks(uint32_t k_blocks) {
    constexpr uint32_t kSteppedTiles = 2;
    const bool step = !sim_.k_loop_may_be_one_step() || tiles_begun_ < kSteppedTiles;
    ++tiles_begun_;
    k_blocks_a_step_ = step ? 1 : k_blocks;
    return step ? k_blocks : 1;
  }
  void clear(Accumulator& total, uint32_t valid);
  template <uint32_t kSteps>
  void mma(Accumulator& product, Accumulator& total, Shared<uint8_t> a, Shared<uint8_t> b,
           uint32_t first_step, Step step) {
    product.total = &total;
    issue_mma(product, a, b, first_step, kSteps, step);
  }
  void mma_commit(Step) {}
  void mma_wait(Accumulator& product, Step step);
  void promote(Accumulator& total, Accumulator& product, const RowValues<float>& scales, float even,
               float odd);

  // Rows.
  template <class T>
  RowValues<T> load_rows(Shared<T> from, uint32_t valid, Step step) {
    RowValues<T> values;
    if (checker_) note_rows(AccessKind::Read, from, valid, step);
    for (uint32_t row = 0; row < valid; ++row) values.rows[row] = peek(from + row, step);
    return values;
  }
  template <class T>
  RowValues<T> load_rows(Global<T> from, uint32_t valid, Step step) {
    RowValues<T> values;
    if (checker_) note_rows(AccessKind::Read, from, valid, step);
    for (uint32_t row = 0; row < valid; ++row) values.rows[row] = peek(from + row, step);
    return values;
  }
  void store_rows(Global<float> to, const RowValues<float>& values, uint32_t valid, Step step);

  template <uint32_t kSlices, class F>
  void for_slices(const Accumulator* total, F&& f) {
    for (uint32_t slice = 0; slice < kSlices; ++slice) f(slice, total[slice]);
  }
  template <class F>
  void for_rows(const Accumulator& total, Shared<uint8_t> staging, F&& f) {
    sim_.visible(agent_);
    cost(sim_.costs().epilogue);
    if (!math()) return stage_tags(total, staging);
    sim_.tiles().finish(*total.job);
    const uint32_t rows = sim_.padding() == Padding::Compute ? kMathRows : total.valid;
    for (uint32_t row = 0; row < rows; ++row) {
      lane_ = row / kRowsPerWarp * kWarpLanes + 1;  // a lane of the warp that owns the row
      f(RowView{&total.job->values[size_t{row} * kSliceN], row});
    }
    end_of_lanes();
  }

  static uint32_t staged_byte(uint32_t row, uint32_t row_bytes, uint32_t byte) {
    return row * row_bytes + byte;
  }

  using RowPlaces = std::array<uint64_t, kMathRows>;

  /// The places that `to(row)` names for the first `valid` rows.
  template <class F>
  RowPlaces find_rows(uint32_t valid, uint32_t /*row_bytes*/, F&& to) {
    sim_.visible(agent_);
    RowPlaces places{};
    for (uint32_t row = 0; row < valid; ++row) {
      lane_ = row % 16 * 8 + 1;  // one of the eight that copy the row
      places[row] = Global<uint8_t>{to(row)}.address;
    }
    end_of_lanes();
    return places;
  }

  /// Copies `valid` staged rows of `bytes` to their places, `offset` bytes on.
  void copy_rows(const RowPlaces& places, uint32_t offset, uint32_t valid, uint32_t bytes,
                 Shared<uint8_t> from, Step step) {
    sim_.visible(agent_);
    const uint64_t begin = agent_.time;
    if (checker_) note_copied_rows(places, offset, valid, bytes, from, step);
    for (uint32_t row = 0; row < valid; ++row) {
      lane_ = row % 16 * 8 + 1;  // one of the eight that copy the row
      const uint64_t place = places[row] + offset;
      sim_.touched(agent_, step, DataOp::Store, place);
      if (!math()) {
        scatter_tag(place, from, row, bytes, step);
        continue;
      }
      const uint8_t* source = readable_shared(from.offset + row * bytes, bytes, 16, step);
      std::memcpy(writable(place, bytes, 16, step), source, bytes);
    }
    // The rows' places are looked up together, and nobody waits for the stores.
    agent_.time = begin + sim_.costs().global_access;
    if (sim_.timed()) sim_.bandwidth().data(begin, agent_.cta, uint64_t{valid} * bytes);
    end_of_lanes();
  }

  /// Accesses to payload that exists as tags only.
  template <class Place>
  void skipped_payload(Place place, SkippedPayload payload, Step step) {
    if (checker_) note_in_turn(race_range(place, payload.bytes), payload, step);
    if constexpr (std::is_same_v<Place, Global<Bf16x8>>)
      sim_.touched(agent_, step, payload.writes ? DataOp::Store : DataOp::Load, place.address);
  }

 protected:
  Role role() const { return agent_.role; }
  bool mutated(MutantKind kind, Step step) {
    const Mutant& mutant = sim_.mutant();
    return mutant.kind == kind && mutant.step == step && mutated_visit();
  }

  Simulation& sim_;

 private:
  void trace(TraceKind kind, Step step, TraceObject what = TraceObject::Nothing,
             uint64_t object = 0, uint32_t value = 0) {
    if (sim_.traced()) [[unlikely]]
      sim_.log(agent_, kind, step, what, object, value);
  }
  void cost(uint64_t nanoseconds) { agent_.time += nanoseconds; }
  bool mutated_visit();
  /// Whether a mutant that drops stores leaves those to this place alone.
  bool spared(uint64_t address) const {
    const Region only = sim_.mutant().region;
    return only != Region::Count && address_region(address) != static_cast<uint32_t>(only);
  }
  template <class T>
  T add_word(Global<T> to, T value, Order order, Scope scope, Step step, SyncOp op) {
    if (dropped(step)) return T{0};
    weaken(order, scope, step);
    synchronised_ |= order != Order::Relaxed;
    if (order == Order::Release)
      trace(TraceKind::Arrive, step, TraceObject::Word, to.address, static_cast<uint32_t>(value));
    cost(sim_.costs().global_access);
    if (mutated(MutantKind::AddOne, step)) value = std::min(value, T{1});
    value += static_cast<T>(delta(MutantKind::Count, step));
    if (checker_) note_add(to.address, sizeof(T), order, scope, step);
    const T old = peek(to, step);
    const T sum = static_cast<T>(old + value);
    std::memcpy(writable(to.address, sizeof(T), alignof(T), step), &sum, sizeof(T));
    sim_.synced(sim_.id_of(agent_), step, op, to.address, static_cast<uint64_t>(sum));
    if constexpr (sizeof(T) == 4) notify(to.address, std::bit_cast<uint32_t>(sum), scope);
    return old;
  }
  template <class T>
  T add_word(Shared<T> to, T value, Order order, Scope scope, Step step, SyncOp op) {
    if (checker_) note_add(to.offset, sizeof(T), order, scope, step);
    const T old = peek(to, step);
    poke(to, static_cast<T>(old + value), step);
    sim_.synced(sim_.id_of(agent_), step, op, sync_object_shared(agent_.cta, to.offset),
                old + value);
    return old;
  }
  /// Whether the observer wants to know of plain accesses to a place: to words, not to payload.
  bool watched(uint64_t address) const {
    return sim_.observed() && address_region(address) < kNumRegions &&
           region_info(static_cast<Region>(address_region(address))).persistence !=
               Persistence::Launch;
  }
  bool dropped(Step step) { return mutated(MutantKind::Drop, step); }
  int64_t delta(MutantKind kind, Step step) {
    return mutated(kind, step) ? sim_.mutant().delta : 0;
  }

  /// Applies a mutant of order or scope to a call at `step`.
  void weaken(Order& order, Scope& scope, Step step) {
    if (mutated(MutantKind::Order, step)) order = Order::Relaxed;
    if (mutated(MutantKind::Scope, step)) scope = narrower(scope);
  }
  /// Whether a mutant moves this call behind its next neighbour; `call` then makes it there.
  template <class F>
  bool postponed(Step step, F call) {
    if (in_postponed_ || !mutated(MutantKind::Swap, step)) return false;
    postponed_ = std::move(call);
    neighbours_left_ = std::max<int64_t>(1, sim_.mutant().delta);
    return true;
  }
  /// A synchronising call has been made: a postponed one may be due.
  void synchronised() {
    if (postponed_ && !in_postponed_ && --neighbours_left_ == 0) make_postponed_call();
  }
  void make_postponed_call();
  /// The lanes of each warp are together again.
  void end_of_lanes() {
    lane_ = kAllLanes;
    if (checker_) {
      note_put_off_reads();
      checker_->warps_together(sim_.id_of(agent_));
    }
    if (std::exchange(synchronised_, false)) synchronised();
  }

  // The same without telling the checker.
  template <class T>
  T peek(Global<T> from, Step step) {
    if constexpr (std::is_same_v<T, float>) {
      if (address_region(from.address) >= kNumRegions)
        return sim_.weight_scale(agent_, from.address, step, lane_);
      if (!math() && address_region(from.address) == static_cast<uint32_t>(Region::TokenScales))
        return token_scale_tag(from.address);
    }
    T value;
    std::memcpy(&value, readable(from.address, sizeof(T), alignof(T), step), sizeof(T));
    return value;
  }
  template <class T>
  T peek(Shared<T> from, Step step) {
    T value;
    std::memcpy(&value, readable_shared(from.offset, sizeof(T), alignof(T), step), sizeof(T));
    return value;
  }
  template <class T>
  void poke(Global<T> to, T value, Step step) {
    cost(sim_.costs().shared_access);
    std::memcpy(writable(to.address, sizeof(T), alignof(T), step), &value, sizeof(T));
    if constexpr (sizeof(T) == 4) notify(to.address, std::bit_cast<uint32_t>(value), Scope::Cta);
  }
  template <class T>
  void poke(Shared<T> to, T value, Step step) {
    std::memcpy(writable_shared(to.offset, sizeof(T), alignof(T), step), &value, sizeof(T));
  }

  // What the checker is told.
  Who who() const {
    if (lane_ == kAllLanes) return all_warps(agent_.warps);
    return lane_ == 0 ? kFirstLane : warp_of(lane_ / kWarpLanes);
  }
  /// A read by one lane that the checker has not been told of yet, because the next lanes may read
  /// on from there. Nothing that synchronises may come before it is told.
  struct PutOffRead {
    RaceRange range;  ///< no bytes: none
    Who who;
    Step step = Step::None;
  };
  void put_off(const RaceRange& range, Step step);
  void note_put_off(PutOffRead& read);
  void note_put_off_reads() {
    for (PutOffRead& read : put_off_reads_)
      if (read.range.row_bytes != 0) note_put_off(read);
  }
  void note(AccessKind kind, uint64_t address, uint64_t bytes, Step step);
  void note(AccessKind kind, uint32_t shared, uint64_t bytes, Step step);
  void note_add(uint64_t address, uint64_t bytes, Order order, Scope scope, Step step);
  void note_add(uint32_t shared, uint64_t bytes, Order order, Scope scope, Step step);
  /// Consecutive pieces, touched by the agent's warps in turn.
  void note_in_turn(const RaceRange& range, SkippedPayload payload, Step step);
  /// The accesses of copy_rows().
  void note_copied_rows(const RowPlaces& places, uint32_t offset, uint32_t valid, uint32_t bytes,
                        Shared<uint8_t> from, Step step);
  template <class Place>
  void note_rows(AccessKind kind, Place rows, uint32_t valid, Step step) {
    constexpr auto kRow = static_cast<uint32_t>(sizeof(decltype(pointee(rows))));
    const uint32_t bytes = valid * kRow;
    note_in_turn(race_range(rows, bytes), {writes(kind), bytes, kRowsPerWarp * kRow}, step);
  }
  template <class T>
  RaceRange race_range(Global<T> place, uint64_t bytes) const {
    return sim_.race_range(place.address, bytes);
  }
  template <class T>
  RaceRange race_range(Shared<T> place, uint64_t bytes) const {
    return sim_.race_range(agent_, place.offset, bytes);
  }
  template <class T>
  static T pointee(Global<T>);
  template <class T>
  static T pointee(Shared<T>);

  const uint8_t* readable(uint64_t address, uint64_t bytes, uint64_t alignment, Step step) {
    const uint8_t* data = sim_.global_bytes(agent_, address, bytes, alignment, step, lane_);
    const PoisonedBytes& memory = sim_.rank(address_rank(address)).memory;
    if (!memory.stamped(sim_.memory_offset(address), bytes, stamp_)) [[unlikely]]
      undefined_global(address, bytes, step);
    return data;
  }
  uint8_t* writable(uint64_t address, uint64_t bytes, uint64_t alignment, Step step) {
    uint8_t* data = sim_.global_bytes(agent_, address, bytes, alignment, step, lane_);
    const Stamp stamp = kLastingRegion[address_region(address)] ? kLastingStamp : stamp_;
    sim_.rank(address_rank(address)).memory.set_stamps(sim_.memory_offset(address), bytes, stamp);
    return data;
  }
  const uint8_t* readable_shared(uint32_t offset, uint32_t bytes, uint32_t alignment, Step step) {
    const uint8_t* data = sim_.shared_bytes(agent_, offset, bytes, alignment, step, lane_);
    if (!cta_.shared.stamped(offset, bytes, stamp_)) [[unlikely]]
      undefined_shared(offset, bytes, step);
    return data;
  }
  uint8_t* writable_shared(uint32_t offset, uint32_t bytes, uint32_t alignment, Step step) {
    uint8_t* data = sim_.shared_bytes(agent_, offset, bytes, alignment, step, lane_);
    cta_.shared.set_stamps(offset, bytes, stamp_);
    return data;
  }
  void undefined_global(uint64_t address, uint64_t bytes, Step step);
  void undefined_shared(uint32_t offset, uint32_t bytes, Step step);
  void notify(uint64_t address, uint32_t value, Scope scope) {
    sim_.word_changed(address, value, agent_.time, scope);
  }
  void wait_named(uint32_t bar, uint64_t round, Step step);
  bool arrive_named(NamedBarrier barrier, uint32_t threads, bool waits, Step step, uint64_t& round);
  void bulk(Copy::Kind kind, uint64_t global, uint32_t shared, uint32_t bytes, Mbarrier bar,
            Step step);
  Copy tile_copy(Copy::Kind kind, Tensor tensor, uint32_t row, uint32_t column, uint32_t rows,
                 uint32_t row_bytes, uint32_t shared, Step step) const;
  void issue_mma(Accumulator& product, Shared<uint8_t> a, Shared<uint8_t> b, uint32_t first_step,
                 uint32_t steps, Step step);
  void read_operands(Accumulator& product, Step step);
  void mma_retired(uint32_t operation, Step step);
  void read_operand_tags(Accumulator& total, const Accumulator& product, Step step);
  void check_scale_tags(const Accumulator& total, const Accumulator& product,
                        const RowValues<float>& scales);
  float token_scale_tag(uint64_t address) const;
  void stage_tags(const Accumulator& total, Shared<uint8_t> staging);
  void scatter_tag(uint64_t address, Shared<uint8_t> from, uint32_t row, uint32_t bytes, Step step);

  Agent& agent_;
  Cta& cta_;
  RaceDetector* const checker_;  ///< null: nothing is checked
  const Stamp stamp_;            ///< of this launch
  uint32_t lane_ = kAllLanes;
  std::array<PutOffRead, 2> put_off_reads_;  ///< by RaceSpace
  bool synchronised_ = false;                ///< a lane has released or acquired
  std::function<void()> postponed_;
  Accumulator* late_product_ = nullptr;  ///< whose wait is postponed, while it lives
  int64_t neighbours_left_ = 0;
  bool in_postponed_ = false;
  uint32_t tiles_begun_ = 0;
  uint32_t k_blocks_a_step_ = 1;  ///< blocks of K that a step of this tile stands for
};

static_assert(Machine<SimMachine>);

}  // namespace moetwin
