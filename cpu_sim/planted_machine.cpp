#include "cpu_sim/planted_machine.h"

namespace moetwin {

PlantedMachine::PlantedMachine(Simulation& sim, Agent& agent)
    : SimMachine(sim, agent),
      fault_(sim.mutant().kind == MutantKind::Rule ? static_cast<LayerFault>(sim.mutant().delta)
                                                   : LayerFault::None) {}

uint32_t PlantedMachine::mutant_delta() const { return static_cast<uint32_t>(sim_.mutant().delta); }

int32_t PlantedMachine::expert_id(Global<int32_t> from, int32_t value, Step step) {
  const bool unmasks = fault_ == LayerFault::MaskedByFactor && step == Step::CombineReadRoutes;
  if (value == kMaskedExpert && (unmasks || mutated(MutantKind::Unmask, step))) return 0;
  if (sim_.mutant().kind != MutantKind::Deduplicate || role() != Role::Dispatch) return value;
  const Launch& launch = sim_.launch(rank());
  const uint64_t slot = address_offset(from.address) / sizeof(int32_t);
  const auto ids = launch.problem.ranks[rank()].topk_idx.begin();
  const auto here = ids + static_cast<ptrdiff_t>(slot);
  const auto first = here - static_cast<ptrdiff_t>(slot % launch.args.shape.topk);
  return std::find(first, here, value) == here ? value : kMaskedExpert;
}

void PlantedMachine::cut_pool_table(PoolTableEntry& entry, Step step) {
  if (!mutated(MutantKind::PoolEnd, step)) return;
  const uint32_t rows = mutant_delta();
  entry.first_row = std::min(entry.first_row, rows);
  entry.first_block = std::min(entry.first_block, blocks_of(rows, sim_.plan().block_m));
}

uint64_t PlantedMachine::metadata_place(uint64_t address) const {
  if (sim_.mutant().kind != MutantKind::RingRow) return address;
  const uint64_t ring_bytes =
      uint64_t{sim_.plan().ring_blocks} * sim_.plan().block_m * sizeof(TokenSrcMetadata);
  return pack_address(address_rank(address), address_region(address),
                      address_offset(address) % ring_bytes);
}

uint64_t PlantedMachine::row_to_load(uint64_t address, Step step) {
  if (step != Step::CombineLoad) return address;
  const auto at = [&](uint64_t offset) {
    return pack_address(address_rank(address), address_region(address), offset);
  };
  const uint64_t offset = address_offset(address);
  if (mutated(MutantKind::Narrow, step)) return at(static_cast<uint32_t>(offset));
  const Launch& launch = sim_.launch(rank());
  const Shape& shape = launch.args.shape;
  const CombineRow row = combine_row(shape, offset);
  const int32_t* experts =
      &launch.problem.ranks[rank()].topk_idx[flat_route(row.token, 0, shape.topk)];
  if (fault_ == LayerFault::MaskedByFactor)
    factors_.push_back(experts[row.k] == kMaskedExpert ? 0.0f : 1.0f);
  if (!mutated(MutantKind::ByExpert, step)) return address;
  std::vector<uint32_t> routed;
  for (uint32_t k = 0; k < shape.topk; ++k)
    if (experts[k] != kMaskedExpert) routed.push_back(k);
  const auto place = std::find(routed.begin(), routed.end(), row.k) - routed.begin();
  std::stable_sort(routed.begin(), routed.end(),
                   [&](uint32_t a, uint32_t b) { return experts[a] < experts[b]; });
  const uint64_t row_bytes = uint64_t{2} * shape.hidden;
  return at(2 * combine_index(shape, routed[static_cast<size_t>(place)], row.token, 0) +
            offset % row_bytes);
}

void PlantedMachine::clear_early(Region region) {
  const auto words = this->region<uint32_t>(region);
  for (uint64_t i = 0; i < sim_.plan_layout().size(region) / sizeof(uint32_t); ++i)
    store(words + i, 0u, Step::CleanupClear);
}

void PlantedMachine::barrier_sync(NamedBarrier barrier, uint32_t threads, Step step) {
  if (mutated(MutantKind::Leave, step)) throw LeaveKernel{};
  if (mutated(MutantKind::ClearEarly, step)) clear_early(static_cast<Region>(sim_.mutant().delta));
  SimMachine::barrier_sync(barrier, threads, step);
}

void PlantedMachine::mbarrier_wait(Mbarrier bar, uint32_t parity, Step step) {
  SimMachine::mbarrier_wait(bar, parity, step);
  if (fault_ != LayerFault::MaskedByFactor || step != Step::CombineWaitsForRow) return;
  factor_ = factors_.front();
  factors_.pop_front();
}

}  // namespace moetwin
