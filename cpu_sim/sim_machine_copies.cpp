// Bulk and tile copies of the simulated machine.
#include <fmt/format.h>

#include "cpu_sim/sim_machine.h"

namespace moetwin {

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

}  // namespace moetwin
