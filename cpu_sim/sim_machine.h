// The simulated machine as a role program sees it (common/machine.h): every call acts on the
// Simulation through the agent that runs. Lanes are a loop, an elected lane is lane 0, a row of an
// accumulator belongs to one owner who holds all its columns.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "cpu_sim/sim_memory.h"

namespace moetwin {

class SimMachine : public SimMemory {
 public:
  static constexpr uint32_t kRowPairs = kSliceN / 2;
  static constexpr uint32_t kPairsPerChunk = 4;
  static constexpr uint32_t kMaxSlices = 2;

  using SimMemory::SimMemory;

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
  using Operand = Shared<uint8_t>;
  static Operand operand(Shared<uint8_t> place) { return place; }
  template <uint32_t kSteps>
  void mma(Accumulator& product, Accumulator& total, Operand a, Operand b, uint32_t first_step,
           Step step) {
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

  template <class F>
  void stage_columns(const Accumulator& total, uint32_t first, Shared<uint8_t> staging, Step step,
                     F&& bf16) {
    for_rows(total, staging, [&](const RowView& row) {
      for (uint32_t column = 0; column < kStagedColumns; column += 2) {
        const Pair pair = row.pair((first + column) / 2);
        const uint32_t both = bf16(pair.low) | static_cast<uint32_t>(bf16(pair.high)) << 16;
        const uint32_t byte = staged_byte(row.index(), kStagedRowBytes, 2 * column);
        store(Shared<uint32_t>{staging.offset + byte}, both, step);
      }
    });
  }

  template <class T>
  using CopiedRows = std::array<T, kMathRows>;

  template <class T>
  CopiedRows<T> load_copied_rows(Global<T> first, uint32_t valid, Step step) {
    sim_.visible(agent_);
    const uint64_t begin = agent_.time;
    CopiedRows<T> values{};
    for (uint32_t row = 0; row < valid; ++row) {
      lane_ = lane_that_copies(row);
      values[row] = load(first + row, step);
    }
    agent_.time = begin;  // nobody waits for them
    end_of_lanes();
    return values;
  }

  using RowPlaces = std::array<uint64_t, kMathRows>;

  /// The places that `place` names for the values of the first `valid` rows.
  template <class T, class Place>
  RowPlaces find_rows(const CopiedRows<T>& values, uint32_t valid, Place&& place) {
    RowPlaces places{};
    for (uint32_t row = 0; row < valid; ++row) {
      lane_ = lane_that_copies(row);
      places[row] = Global<uint8_t>{place(values[row])}.address;
    }
    end_of_lanes();
    return places;
  }

  /// Copies `valid` staged rows to their places, `offset` bytes on.
  void copy_rows(const RowPlaces& places, uint32_t offset, uint32_t valid, Shared<uint8_t> from,
                 Step step) {
    sim_.visible(agent_);
    const uint64_t begin = agent_.time;
    if (checker_)
      notes_.copied_rows({places.data(), valid}, offset, from.offset, kStagedRowBytes, step);
    for (uint32_t row = 0; row < valid; ++row) {
      lane_ = lane_that_copies(row);
      const uint64_t place = places[row] + offset;
      sim_.touched(agent_, step, DataOp::Store, place);
      if (!math()) {
        scatter_tag(place, from, row, kStagedRowBytes, step);
        continue;
      }
      const uint8_t* source =
          readable_shared(from.offset + row * kStagedRowBytes, kStagedRowBytes, 16, step);
      std::memcpy(writable(place, kStagedRowBytes, 16, step), source, kStagedRowBytes);
    }
    // What a round takes: staging, and stores that nobody waits for.
    agent_.time = begin + sim_.costs().global_access;
    if (sim_.timed()) sim_.bandwidth().data(begin, agent_.cta, uint64_t{valid} * kStagedRowBytes);
    end_of_lanes();
  }

  /// Accesses to payload that exists as tags only.
  template <class Place>
  void skipped_payload(Place place, SkippedPayload payload, Step step) {
    if (checker_) notes_.in_turn(race_range(place, payload.bytes), payload, step);
    if constexpr (std::is_same_v<Place, Global<Bf16x8>>)
      sim_.touched(agent_, step, payload.writes ? DataOp::Store : DataOp::Load, place.address);
  }

 private:
  /// One of the eight, of the warp that owns the row.
  static uint32_t lane_that_copies(uint32_t row) {
    return row / kRowsPerWarp * kWarpLanes + row % 4 * 8 + 1;
  }
  template <class Place>
  void note_rows(AccessKind kind, Place rows, uint32_t valid, Step step) {
    constexpr auto kRow = static_cast<uint32_t>(sizeof(decltype(pointee(rows))));
    const uint32_t bytes = valid * kRow;
    notes_.in_turn(race_range(rows, bytes), {writes(kind), bytes, kRowsPerWarp * kRow}, step);
  }
  template <class T>
  static T pointee(Global<T>);
  template <class T>
  static T pointee(Shared<T>);
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
  void stage_tags(const Accumulator& total, Shared<uint8_t> staging);
  void scatter_tag(uint64_t address, Shared<uint8_t> from, uint32_t row, uint32_t bytes, Step step);

  Accumulator* late_product_ = nullptr;  ///< whose wait is postponed, while it lives
  uint32_t tiles_begun_ = 0;
  uint32_t k_blocks_a_step_ = 1;  ///< blocks of K that a step of this tile stands for
};

static_assert(Machine<SimMachine>);

}  // namespace moetwin
