// The calls of the simulated machine that are too large for its header.
#include "cpu_sim/sim_machine.h"

#include <fmt/format.h>

#include "common/check.h"
#include "common/number_formats.h"

namespace moetwin {

static_assert(pack_address(3, 7, 11) == word_id(3, 7, 11), "a timeline's words are addresses");

namespace {

/// An access that leaves its region is reported where it is made; the checker has no place for it.
bool lies_inside(const Simulation& sim, const RaceRange& range) {
  const uint64_t end = range.offset + range.row_bytes;
  if (range.space == RaceSpace::Shared) return end <= sim.plan().shared.total;
  return range.owner < sim.ranks().size() && range.region < kNumRegions &&
         end <= sim.plan_layout().bytes[range.region];
}

}  // namespace

SimMachine::Accumulator::~Accumulator() {
  if (machine != nullptr) machine->sim_.tiles().release(job);
  if (late_wait != nullptr) late_wait->late_product_ = nullptr;
}

bool SimMachine::mutated_visit() {
  const Mutant& mutant = sim_.mutant();
  if (mutant.role != Role::Count && mutant.role != agent_.role) return false;
  if (mutant.rank != UINT32_MAX && mutant.rank != agent_.rank) return false;
  const uint32_t visit = agent_.mutant_visits++;
  return visit >= mutant.first && visit <= mutant.last;
}

void SimMachine::make_postponed_call() {
  in_postponed_ = true;
  std::exchange(postponed_, nullptr)();
  in_postponed_ = false;
}

void SimMachine::put_off(const RaceRange& range, Step step) {
  PutOffRead& read = put_off_reads_[static_cast<size_t>(range.space)];
  RaceRange& before = read.range;
  if (before.owner == range.owner && before.region == range.region &&
      before.offset + before.row_bytes == range.offset && before.row_bytes != 0 &&
      read.step == step && read.who == who()) {
    before.row_bytes += range.row_bytes;
    return;
  }
  if (before.row_bytes != 0) note_put_off(read);
  read = {range, who(), step};
}

void SimMachine::note_put_off(PutOffRead& read) {
  checker_->access({sim_.id_of(agent_), AccessKind::Read, read.who, read.step}, read.range);
  read.range.row_bytes = 0;
}

void SimMachine::note(AccessKind kind, uint64_t address, uint64_t bytes, Step step) {
  const RaceRange range = sim_.race_range(address, bytes);
  if (!lies_inside(sim_, range)) return;  // nor do weights, which never change
  if (kind == AccessKind::Read && lane_ != kAllLanes) return put_off(range, step);
  const RaceSite site{sim_.id_of(agent_), kind, who(), step};
  if (kind == AccessKind::Write)
    checker_->plain_store(site, range);
  else
    checker_->access(site, range);
}

void SimMachine::note(AccessKind kind, uint32_t shared, uint64_t bytes, Step step) {
  const RaceRange range = sim_.race_range(agent_, shared, bytes);
  if (!lies_inside(sim_, range)) return;
  if (kind == AccessKind::Read && lane_ != kAllLanes) return put_off(range, step);
  checker_->access({sim_.id_of(agent_), kind, who(), step}, range);
}

void SimMachine::note_in_turn(const RaceRange& range, SkippedPayload payload, Step step) {
  if (range.space == RaceSpace::Global && range.region >= kNumRegions) return;  // weights
  note_put_off_reads();
  RaceDetector::WarpAccesses accesses(*checker_, sim_.id_of(agent_),
                                      payload.writes ? AccessKind::Write : AccessKind::Read, step,
                                      range.space);
  RaceRange piece = range;
  const uint64_t bytes_a_warp = agent_.warps == 1 ? payload.bytes : payload.bytes_a_warp;
  for (uint64_t at = 0, i = 0; at < payload.bytes; at += bytes_a_warp, ++i) {
    piece.offset = range.offset + at;
    piece.row_bytes = std::min<uint64_t>(bytes_a_warp, payload.bytes - at);
    if (lies_inside(sim_, piece)) accesses.touch(static_cast<uint32_t>(i % agent_.warps), piece);
  }
}

void SimMachine::note_copied_rows(const RowPlaces& places, uint32_t offset, uint32_t valid,
                                  uint32_t bytes, Shared<uint8_t> from, Step step) {
  constexpr uint32_t kRowsAtOnce = 4;  // of a warp
  using Accesses = RaceDetector::WarpAccesses;
  note_put_off_reads();
  Accesses writes(*checker_, sim_.id_of(agent_), AccessKind::Write, step, RaceSpace::Global);
  Accesses reads(*checker_, sim_.id_of(agent_), AccessKind::Read, step, RaceSpace::Shared);
  for (uint32_t row = 0; row < valid; ++row) {
    const RaceRange place = sim_.race_range(places[row] + offset, bytes);
    if (lies_inside(sim_, place)) writes.prefetch(place);
  }
  for (uint32_t row = 0; row < valid; row += kRowsAtOnce) {
    const uint32_t warp = row / kRowsAtOnce % kWarpgroupWarps;
    const uint32_t end = std::min(valid, row + kRowsAtOnce);
    for (uint32_t i = row; i < end; ++i) {
      const RaceRange place = sim_.race_range(places[i] + offset, bytes);
      if (lies_inside(sim_, place)) writes.touch(warp, place);
    }
    const RaceRange staged = race_range(from + row * bytes, (end - row) * bytes);
    if (lies_inside(sim_, staged)) reads.touch(warp, staged);
  }
}

void SimMachine::note_add(uint64_t address, uint64_t bytes, Order order, Scope scope, Step step) {
  note_put_off_reads();
  const RaceRange range = sim_.race_range(address, bytes);
  if (lies_inside(sim_, range))
    checker_->atomic_add(sim_.id_of(agent_), who(), order, scope, step, range);
}

void SimMachine::note_add(uint32_t shared, uint64_t bytes, Order order, Scope scope, Step step) {
  note_put_off_reads();
  checker_->atomic_add(sim_.id_of(agent_), who(), order, scope, step,
                       sim_.race_range(agent_, shared, bytes));
}

void SimMachine::undefined_global(uint64_t address, uint64_t bytes, Step step) {
  const PoisonedBytes& memory = sim_.rank(address_rank(address)).memory;
  sim_.undefined_read(agent_, step, sim_.place_name(address),
                      memory.written(sim_.memory_offset(address), bytes));
}

void SimMachine::undefined_shared(uint32_t offset, uint32_t bytes, Step step) {
  sim_.undefined_read(agent_, step, sim_.shared_name(offset), cta_.shared.written(offset, bytes));
}

void SimMachine::wait_until(Global<uint32_t> word, Awaited awaited, Scope scope, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { wait_until(word, awaited, scope, step); })) return;
  Order order = Order::Acquire;
  weaken(order, scope, step);
  awaited.value += static_cast<uint32_t>(delta(MutantKind::Target, step));
  trace(TraceKind::Begin, step, TraceObject::Word, word.address);
  if (mutated(MutantKind::LateTarget, step)) awaited.value = peek(word, step);
  bool listening = false;
  for (;;) {
    const uint32_t value = peek(word, step);
    if (awaited.holds(value)) break;
    if (!listening) sim_.wait_on_word(agent_, word.address, awaited);
    listening = true;
    Wait wait;
    wait.kind = Wait::Kind::Word;
    wait.step = step;
    wait.address = word.address;
    wait.awaited = awaited;
    sim_.block(agent_, wait);
  }
  if (listening) sim_.stop_waiting_on_word(agent_, word.address);
  if (checker_)
    checker_->word_wait(sim_.id_of(agent_), who(), order, scope, step,
                        sim_.race_range(word.address, 4));
  trace(TraceKind::End, step, TraceObject::Word, word.address);
  const SyncOp op = awaited.kind == Awaited::Kind::AtLeast ? SyncOp::WaitAtLeast
                    : awaited.kind == Awaited::Kind::Equal ? SyncOp::WaitEqual
                                                           : SyncOp::WaitFlip;
  sim_.synced(sim_.id_of(agent_), step, op, word.address, awaited.value);
  synchronised();
}

void SimMachine::bound(uint32_t index, uint64_t limit, Step step, uint32_t expert) {
  if (index < limit) return;
  sim_.stop(FindingClass::Overflow, agent_, step,
            fmt::format("slot {} of {} on expert {} from rank {} would lie in the next source "
                        "rank's table; refused before the write",
                        index, limit, expert, agent_.rank));
}

void SimMachine::sync(Step step) {
  sim_.visible(agent_);
  // The agent is the barrier's only participant: its warps meet at once.
  if (dropped(step) || postponed(step, [=, this] { sync(step); })) return;
  if (agent_.warps == 1) {
    if (checker_) checker_->agent_together(sim_.id_of(agent_), step);
    return synchronised();
  }
  const auto barrier = static_cast<NamedBarrier>(
      static_cast<uint32_t>(NamedBarrier::MathWarpgroup0) + agent_.number);
  barrier_sync(barrier, kWarpgroupThreads, step);
}

bool SimMachine::arrive_named(NamedBarrier barrier, uint32_t threads, bool waits, Step step,
                              uint64_t& round) {
  if (checker_) sim_.check_member(agent_, barrier, step);
  threads += static_cast<uint32_t>(delta(MutantKind::Count, step));
  cost(sim_.costs().issue);
  const auto bar = static_cast<uint32_t>(barrier);
  trace(TraceKind::Arrive, step, TraceObject::NamedBarrier, bar);
  SimNamedBarrier& state = cta_.named[bar];
  round = state.rounds;
  bool complete = false;
  const BarrierFault fault =
      state.arrive(agent_.in_cta, agent_.warps * kWarpLanes, threads, complete);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step,
                       fmt::format("named barrier {}", named_barrier_name(barrier)));
  sim_.synced(sim_.id_of(agent_), step, SyncOp::Arrive, sync_object_named(agent_.cta, bar), round,
              complete);
  if (checker_) {
    checker_->named_arrive(sim_.id_of(agent_), bar, step);
    const AgentMask leaving = state.waiting | (waits ? AgentMask{1} << agent_.in_cta : 0);
    if (complete) checker_->named_complete(agent_.cta, bar, leaving, step);
  }
  if (complete) sim_.wake_all(agent_.rank, agent_.sm, state.waiting, agent_.time);
  return complete;
}

void SimMachine::barrier_sync(NamedBarrier barrier, uint32_t threads, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { barrier_sync(barrier, threads, step); })) return;
  uint64_t round = 0;
  const bool last = arrive_named(barrier, threads, true, step, round);
  const auto bar = static_cast<uint32_t>(barrier);
  trace(TraceKind::Begin, step, TraceObject::NamedBarrier, bar);
  SimNamedBarrier& state = cta_.named[bar];
  while (!last && state.rounds == round) {
    state.waiting |= AgentMask{1} << agent_.in_cta;
    Wait wait;
    wait.kind = Wait::Kind::NamedBarrier;
    wait.step = step;
    wait.bar = bar;
    wait.round = round;
    sim_.block(agent_, wait);
  }
  trace(TraceKind::End, step, TraceObject::NamedBarrier, bar);
  sim_.synced(sim_.id_of(agent_), step, SyncOp::WaitRound, sync_object_named(agent_.cta, bar),
              round);
  synchronised();
}

void SimMachine::barrier_arrive(NamedBarrier barrier, uint32_t threads, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { barrier_arrive(barrier, threads, step); })) return;
  uint64_t round = 0;
  arrive_named(barrier, threads, false, step, round);
  synchronised();
}

void SimMachine::fence_proxy_async(FenceSpace space, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { fence_proxy_async(space, step); })) return;
  const bool first_lane_only = mutated(MutantKind::LeaderOnly, step);
  if (checker_) checker_->fence(sim_.id_of(agent_), space, first_lane_only, step);
  synchronised();
}

void SimMachine::mbarrier_init(Mbarrier bar, uint32_t arrivals, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  arrivals += static_cast<uint32_t>(delta(MutantKind::Count, step));
  if (checker_) checker_->mbarrier_init(sim_.id_of(agent_), bar.index, step);
  const BarrierFault fault = cta_.mbarriers[bar.index].init(arrivals);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step, sim_.mbarrier_name(bar.index));
  sim_.synced(sim_.id_of(agent_), step, SyncOp::Write, sync_object_mbarrier(agent_.cta, bar.index),
              0);
}

void SimMachine::mbarrier_arrive(Mbarrier bar, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { mbarrier_arrive(bar, step); })) return;
  cost(sim_.costs().issue);
  trace(TraceKind::Arrive, step, TraceObject::Mbarrier, bar.index);
  const uint32_t count = agent_.warps + static_cast<uint32_t>(delta(MutantKind::Count, step));
  if (checker_)
    checker_->mbarrier_arrive(sim_.id_of(agent_), bar.index, count >= agent_.warps, step);
  const BarrierFault fault = cta_.mbarriers[bar.index].arrive(agent_.in_cta, count);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step, sim_.mbarrier_name(bar.index));
  sim_.complete_phase(agent_, bar.index, step, agent_.time, sim_.id_of(agent_));
  synchronised();
}

void SimMachine::mbarrier_expect(Mbarrier bar, uint32_t bytes, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { mbarrier_expect(bar, bytes, step); })) return;
  cost(sim_.costs().issue);
  if (checker_) checker_->mbarrier_arrive(sim_.id_of(agent_), bar.index, false, step);
  trace(TraceKind::Arrive, step, TraceObject::Mbarrier, bar.index);
  SimMbarrier& state = cta_.mbarriers[bar.index];
  BarrierFault fault = state.transact(bytes + delta(MutantKind::Bytes, step));
  if (fault == BarrierFault::None) fault = state.arrive(agent_.in_cta, 1);
  if (fault != BarrierFault::None)
    sim_.barrier_fault(agent_, fault, step, sim_.mbarrier_name(bar.index));
  sim_.complete_phase(agent_, bar.index, step, agent_.time, sim_.id_of(agent_));
  synchronised();
}

void SimMachine::mbarrier_wait(Mbarrier bar, uint32_t parity, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { mbarrier_wait(bar, parity, step); })) return;
  if (mutated(MutantKind::Parity, step)) parity ^= 1;
  SimMbarrier& state = cta_.mbarriers[bar.index];
  if (!state.initialised)
    sim_.barrier_fault(agent_, BarrierFault::NotInitialised, step, sim_.mbarrier_name(bar.index));
  trace(TraceKind::Begin, step, TraceObject::Mbarrier, bar.index);
  while (!state.passed(parity)) {
    state.waiting |= AgentMask{1} << agent_.in_cta;
    Wait wait;
    wait.kind = Wait::Kind::Mbarrier;
    wait.step = step;
    wait.bar = bar.index;
    wait.parity = parity;
    sim_.block(agent_, wait);
  }
  trace(TraceKind::End, step, TraceObject::Mbarrier, bar.index);
  // The parity alone cannot tell a phase from the one two later; the count of waits can.
  uint32_t& seen = agent_.phases_seen[bar.index];
  if (seen == 0) seen = 1 + (parity & 1 ? 0 : 1);  // the phase wanted, plus one
  if (static_cast<uint32_t>(state.phases + 1) != seen)
    sim_.barrier_fault(agent_, BarrierFault::Lapped, step, sim_.mbarrier_name(bar.index));
  // A wait on the phase before the first passes at once and waits for nobody.
  if (state.phases != 0)
    sim_.synced(sim_.id_of(agent_), step, SyncOp::WaitPhase,
                sync_object_mbarrier(agent_.cta, bar.index), state.phases - 1);
  ++seen;
  state.observed = true;
  if (checker_) checker_->mbarrier_seen(sim_.id_of(agent_), bar.index, step);
  synchronised();
}

void SimMachine::bulk(Copy::Kind kind, uint64_t global, uint32_t shared, uint32_t bytes,
                      Mbarrier bar, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  Copy copy;
  copy.kind = kind;
  copy.step = step;
  copy.global = global;
  copy.shared = shared;
  copy.row_bytes = bytes;
  copy.bar = bar.index;
  if (bytes % 16 != 0 || address_offset(global) % 16 != 0 || shared % 16 != 0)
    sim_.stop(FindingClass::Bounds, agent_, step,
              fmt::format("a bulk copy needs 16-byte addresses and sizes: {} bytes, {}, shared "
                          "offset {}",
                          bytes, sim_.place_name(global), shared));
  sim_.issue(agent_, copy);
  synchronised();
}

Copy SimMachine::tile_copy(Copy::Kind kind, Tensor tensor, uint32_t row, uint32_t column,
                           uint32_t rows, uint32_t row_bytes, uint32_t shared, Step step) const {
  Copy copy;
  copy.kind = kind;
  copy.step = step;
  copy.tensor = tensor;
  copy.column = column;
  copy.shared = shared;
  copy.rows = rows;
  copy.row_bytes = row_bytes;
  copy.weight_row = row;
  if (kind == Copy::Kind::TileLoad) copy.k_blocks = k_blocks_a_step_;
  const Shape& shape = sim_.launch(agent_.rank).args.shape;
  const auto place = [&](Region region, uint32_t pitch) {
    copy.global_pitch = pitch;
    copy.global =
        pack_address(agent_.rank, static_cast<uint32_t>(region), uint64_t{row} * pitch + column);
  };
  if (tensor == Tensor::PoolX) place(Region::PoolX, shape.hidden);
  if (tensor == Tensor::Linear1) place(Region::Linear1, shape.intermediate);
  if (tensor == Tensor::TapLinear1) place(Region::TapLinear1, shape.intermediate);
  return copy;
}

void SimMachine::tile_load(Tensor tensor, uint32_t row, uint32_t column, uint32_t rows,
                           Shared<uint8_t> to, Mbarrier bar, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  Copy copy = tile_copy(Copy::Kind::TileLoad, tensor, row, column, rows, kBlockK, to.offset, step);
  copy.bar = bar.index;
  sim_.issue(agent_, copy);
  synchronised();
}

void SimMachine::tile_store(Tensor tensor, uint32_t row, uint32_t column, Shared<uint8_t> from,
                            Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  Copy copy = tile_copy(Copy::Kind::TileStore, tensor, row, column, kMathRows, kLinear1ScaleGroup,
                        from.offset, step);
  sim_.issue(agent_, copy);
  synchronised();
}

void SimMachine::bulk_commit(Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { bulk_commit(step); })) return;
  for (size_t i = 0; i < agent_.copies.size(); ++i)
    if (!agent_.copies[i].is_load()) agent_.copies[i].committed = true;
  agent_.uncommitted = 0;
  if (checker_) checker_->commit(sim_.id_of(agent_));
  synchronised();
}

void SimMachine::bulk_wait(BulkDone done, Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  if (postponed(step, [=, this] { bulk_wait(done, step); })) return;
  if (checker_ && agent_.uncommitted != 0)
    sim_.report(FindingClass::Barrier, agent_, step,
                fmt::format("{} {}: {} of its bulk stores are in no committed group, so nothing "
                            "waits for them",
                            sim_.agent_name(agent_), step_words(step), agent_.uncommitted));
  const TraceObject stores = done == BulkDone::Read ? TraceObject::StoresRead : TraceObject::Stores;
  trace(TraceKind::Begin, step, stores);
  while (!sim_.stores_done(agent_, done)) {
    Wait wait;
    wait.kind = Wait::Kind::Bulk;
    wait.step = step;
    wait.done = done;
    sim_.block(agent_, wait);
  }
  if (checker_) checker_->stores_waited(sim_.id_of(agent_), done);
  trace(TraceKind::End, step, stores);
  sim_.synced(sim_.id_of(agent_), step, SyncOp::WaitCopies, sync_object_copies(sim_.id_of(agent_)),
              0);
  synchronised();
}

void SimMachine::clear(Accumulator& total, uint32_t valid) {
  total.machine = this;
  total.valid = valid;
  ++sim_.counts().tiles;
  if (!math()) return;
  total.job = sim_.tiles().acquire(sim_.padding() == Padding::Compute ? kMathRows : valid);
}

void SimMachine::issue_mma(Accumulator& product, Shared<uint8_t> a, Shared<uint8_t> b,
                           uint32_t first_step, uint32_t steps, Step step) {
  sim_.visible(agent_);
  trace(TraceKind::Begin, step);
  product.a = a;
  product.b = b;
  product.first_step = first_step;
  product.steps = steps;
  product.read = false;
  product.retired = false;
  // Whole rows: the swizzle spreads a slice of K over all of a row's bytes.
  if (checker_)
    product.operation = checker_->mma(sim_.id_of(agent_), step,
                                      sim_.race_range(agent_, a.offset, kMathRows * kBlockK),
                                      sim_.race_range(agent_, b.offset, kSliceN * kBlockK));
  // The tensor core may read its operands at once, or as late as the wait that retires it.
  const bool early =
      sim_.landing() == Landing::Early ||
      (sim_.landing() == Landing::Random && sim_.scheduler().random(sim_.id_of(agent_)) % 2 == 0);
  if (early) read_operands(product, step);
}

void SimMachine::mma_wait(Accumulator& product, Step step) {
  sim_.visible(agent_);
  const uint64_t steps = uint64_t{product.steps} * k_blocks_a_step_;
  if (sim_.timed())
    agent_.time =
        std::max(agent_.time, sim_.bandwidth().tensor_cores(agent_.time, agent_.cta, steps));
  if (dropped(step)) return;
  if (postponed(step, [step, operation = product.operation, this] {
        if (late_product_ != nullptr)
          mma_wait(*late_product_, step);
        else
          mma_retired(operation, step);
      })) {
    late_product_ = &product;
    product.late_wait = this;
    return;
  }
  if (!product.read) read_operands(product, step);
  product.retired = true;
  mma_retired(product.operation, step);
}

void SimMachine::mma_retired(uint32_t operation, Step step) {
  if (checker_) checker_->retired(operation, sim_.id_of(agent_));
  trace(TraceKind::End, step);
  synchronised();
}

void SimMachine::read_operands(Accumulator& product, Step step) {
  product.read = true;
  if (!math()) return read_operand_tags(*product.total, product, step);
  const uint32_t first = product.first_step * kMmaK;
  const uint32_t width = product.steps * kMmaK;
  for (uint32_t row = 0; row < product.total->valid; ++row)
    readable_shared(product.a.offset + row * kBlockK + first, width, 16, step);
  for (uint32_t row = 0; row < kSliceN; ++row)
    readable_shared(product.b.offset + row * kBlockK + first, width, 16, step);
  const uint8_t* a = sim_.shared_bytes(agent_, product.a.offset, kMathRows * kBlockK, 16, step, 0);
  const uint8_t* b = sim_.shared_bytes(agent_, product.b.offset, kSliceN * kBlockK, 16, step, 0);
  product.block =
      sim_.tiles().multiply(*product.total->job, a + first, b + first, kBlockK, product.steps);
}

void SimMachine::promote(Accumulator& total, Accumulator& product, const RowValues<float>& scales,
                         float even, float odd) {
  cost(sim_.costs().promote);
  if (!product.retired) {
    sim_.report(FindingClass::Barrier, agent_, Step::MathMmaWait,
                "reads an accumulator whose wgmma has not been waited for");
    read_operands(product, Step::MathMmaWait);
  }
  if (!math()) return check_scale_tags(total, product, scales);
  TileJob::Block& block = total.job->blocks[product.block];
  std::copy_n(scales.rows.begin(), kMathRows, block.row_scales);
  block.even_scale = even;
  block.odd_scale = odd;
  sim_.tiles().make_ready(*total.job, product.block);
}

void SimMachine::store_rows(Global<float> to, const RowValues<float>& values, uint32_t valid,
                            Step step) {
  sim_.visible(agent_);
  if (dropped(step)) return;
  const auto& tags = cta_.tags.staging[agent_.number];
  if (checker_) note_rows(AccessKind::Write, to, valid, step);
  for (uint32_t row = 0; row < valid; ++row)
    poke(to + row, math() ? values[row] : float_of_bits(scale_tag(tags[row])), step);
}

}  // namespace moetwin
