// Memory of the simulated world: addresses and bounds, copies on their way, what a launch brings in
// and leaves behind.
#include <fmt/format.h>

#include <cstring>

#include "common/check.h"
#include "cpu_sim/simulation.h"
#include "model/wait_report.h"

namespace moetwin {

void Simulation::out_of_bounds(const Agent& a, uint64_t address, uint64_t bytes, uint64_t alignment,
                               Step step, uint32_t lane) {
  const uint32_t region = address_region(address);
  const bool inside = address_rank(address) < ranks_.size() && region < kNumRegions &&
                      address_offset(address) + bytes <= plan_layout().bytes[region];
  stop(FindingClass::Bounds, a, step,
       fmt::format("{}{} {}: touches {} bytes at {}, {}", agent_name(a),
                   lane < kWarpgroupThreads ? fmt::format(" lane {}", lane) : "", step_words(step),
                   bytes, place_name(address),
                   inside ? fmt::format("which is not aligned to {}", alignment)
                          : "which is outside the region"));
}

void Simulation::out_of_shared_bounds(const Agent& a, uint32_t offset, uint32_t bytes,
                                      uint32_t alignment, Step step, uint32_t lane) {
  stop(FindingClass::Bounds, a, step,
       fmt::format("{}{} {}: touches {} bytes at shared offset {} of {}, aligned to {}",
                   agent_name(a), lane < kWarpgroupThreads ? fmt::format(" lane {}", lane) : "",
                   step_words(step), bytes, offset, plan().shared.total, alignment));
}

float Simulation::weight_scale(const Agent& a, uint64_t address, Step step, uint32_t lane) {
  const Tensor tensor = address_region(address) == kW1ScalesRegion ? Tensor::W1 : Tensor::W2;
  const uint64_t element = address_offset(address) / 4;
  ExpertCache& experts = ranks_[address_rank(address)].experts;
  if (element >= experts.num_scales(tensor))
    stop(FindingClass::Bounds, a, step,
         fmt::format("{} lane {} {}: touches {}, which is outside", agent_name(a), lane,
                     step_words(step), place_name(address)));
  return math() ? experts.scale(tensor, element) : 1.0f;
}

uint32_t Simulation::word_value(uint64_t address) {
  uint32_t value = 0;
  std::memcpy(&value, ranks_[address_rank(address)].memory.data(memory_offset(address), 4), 4);
  return value;
}

std::string Simulation::place_name(uint64_t address) const {
  const uint32_t region = address_region(address);
  const char* name = region == kW1ScalesRegion   ? "W1Scales"
                     : region == kW2ScalesRegion ? "W2Scales"
                     : region < kNumRegions      ? region_info(static_cast<Region>(region)).name
                                                 : "unknown region";
  const uint32_t element =
      region < kNumRegions ? region_info(static_cast<Region>(region)).element_bytes : 4;
  return fmt::format("{}[{}] of rank {}", name, address_offset(address) / element,
                     address_rank(address));
}

std::string Simulation::shared_name(uint32_t offset) const {
  const KernelPlan& p = plan();
  const SharedLayout& s = p.shared;
  const auto in = [&](uint32_t begin, uint32_t bytes) {
    return offset >= begin && offset < begin + bytes;
  };
  if (in(s.stage_a, p.stages * p.stage_a_bytes()))
    return fmt::format("operand A of stage {}", (offset - s.stage_a) / p.stage_a_bytes());
  if (in(s.stage_b, p.stages * p.stage_b_bytes()))
    return fmt::format("operand B of stage {}", (offset - s.stage_b) / p.stage_b_bytes());
  if (in(s.stage_scales, p.stages * p.stage_scale_bytes()))
    return fmt::format("the scales of stage {}", (offset - s.stage_scales) / p.stage_scale_bytes());
  if (in(s.staging, p.math_warpgroups * kStagingBytes))
    return fmt::format("the staging of math {}", (offset - s.staging) / kStagingBytes);
  if (in(s.pull_buffer, kDispatchWarps * p.pull_chunk_bytes))
    return fmt::format("the pull buffer of dispatch {}",
                       (offset - s.pull_buffer) / p.pull_chunk_bytes);
  if (offset >= s.mbarriers) return "the mbarriers";
  if (offset >= s.task_queue)
    return fmt::format("entry {} of the task queue", (offset - s.task_queue) / sizeof(TaskEntry));
  if (offset >= s.pool_table)
    return fmt::format("entry {} of the pool table",
                       (offset - s.pool_table) / sizeof(PoolTableEntry));
  return fmt::format("the counter of expert {}", (offset - s.expert_counter) / 4);
}

std::string Simulation::mbarrier_name(uint32_t bar) const {
  return moetwin::mbarrier_name(plan(), bar);
}

/// Virtual time at which a copy issued now has landed.
uint64_t Simulation::landing_time(const Agent& a, const Copy& copy) {
  if (!timed_) return a.time + costs_.copy_latency;
  const uint64_t bytes = uint64_t{copy.total()} * copy.k_blocks;
  if (copy.from_weights()) {
    const uint64_t piece = uint64_t{copy.tensor == Tensor::W2} << 63 | copy.weight_row << 24 |
                           uint64_t{copy.column / kBlockK};
    return bandwidth_.weights(a.time, a.cta, piece, bytes) + costs_.copy_latency;
  }
  const uint32_t owner = address_rank(copy.global);
  if (owner != a.rank)
    return bandwidth_.peer_data(a.time, a.cta, owner, bytes) + costs_.peer_latency;
  return bandwidth_.data(a.time, a.cta, bytes) + costs_.copy_latency;
}

void Simulation::issue(Agent& a, Copy& copy) {
  if (traced()) {
    const bool load = copy.is_load();
    log(a, TraceKind::Copy, copy.step, load ? TraceObject::Mbarrier : TraceObject::Stores,
        load ? copy.bar : 0, copy.total());
  }
  copy.time = landing_time(a, copy);
  a.time += costs_.issue;
  // Bounds are checked where the copy is issued, so that the finding names the issuer.
  if (!copy.from_weights() && !carries_tags(copy)) {
    const uint64_t span = uint64_t{copy.rows - 1} * copy.global_pitch + copy.row_bytes;
    global_bytes(a, copy.global, span, 16, copy.step, 0);
  }
  if (carries_tags(copy))
    check_shared_bounds(a, copy.shared, copy.total(), 16, copy.step, 0);
  else
    shared_bytes(a, copy.shared, copy.total(), 16, copy.step, 0);
  if (!copy.is_load()) ++a.uncommitted;
  if (checker_) check_issue(a, copy);
  if (!copy.from_weights()) touched(a, copy.step, DataOp::Issue, copy.global);
  poison_destination(a, copy);
  if (case_.world.landing == Landing::Early) return land(a, copy, nullptr);
  const uint32_t landing_agent = landing_number(a);
  synced(id_of(a), copy.step, SyncOp::Issue, sync_object_copies(id_of(a)), 0);
  const bool queued = !a.copies.empty();
  a.copies.push(copy);
  if (!queued) scheduler_.runnable(landing_agent, a.copies[0].time);
}

void Simulation::land_one(uint32_t issuer) {
  Agent& a = agents_[issuer];
  const uint32_t landing_agent = landing_number(a);
  size_t which = 0;
  bool read_only = false;
  if (case_.world.landing == Landing::Random) {
    const uint64_t random = scheduler_.random(landing_agent);
    which = (random >> 8) % a.copies.size();
    read_only = !a.copies[which].read && random % 2 == 0;
  } else if (a.wait.kind == Wait::Kind::Bulk) {
    // Nothing orders an agent's stores behind its loads: the one that is waited for comes first.
    while (which + 1 < a.copies.size() && a.copies[which].is_load()) ++which;
    if (a.copies[which].is_load()) which = 0;
  }
  Copy& copy = a.copies[which];
  if (read_only) {
    copy.read = true;
    read_source(a, copy, a.copies.data(which));
  } else {
    land(a, copy, copy.read ? &a.copies.data(which) : nullptr);
    a.copies.erase(which);
  }
  if (a.wait.kind == Wait::Kind::Bulk && stores_done(a, a.wait.done)) wake(a, a.time);
  if (!a.copies.empty()) scheduler_.runnable(landing_agent, a.copies[0].time);
}

/// `read`: what the copy has read earlier; null: it reads and writes now.
void Simulation::land(Agent& a, const Copy& copy, const CopiedData* read) {
  ++counts_.events;
  synced(landing_number(a), copy.step, SyncOp::Land, sync_object_copies(id_of(a)), 0);
  if (read != nullptr)
    write_destination(a, copy, *read);
  else
    move_data(a, copy);
  if (!copy.is_load()) a.time = std::max(a.time, copy.time);
  if (!copy.from_weights()) touched(a, copy.step, DataOp::Land, copy.global);
  if (!copy.is_load()) return;
  if (checker_) checker_->landed(copy.operation);
  const BarrierFault fault = cta(a).mbarriers[copy.bar].transact(-int64_t{copy.total()});
  if (fault != BarrierFault::None) barrier_fault(a, fault, copy.step, mbarrier_name(copy.bar));
  complete_phase(a, copy.bar, copy.step, copy.time, landing_number(a));
}

bool Simulation::stores_done(const Agent& a, BulkDone done) const {
  for (size_t i = 0; i < a.copies.size(); ++i) {
    const Copy& copy = a.copies[i];
    if (!copy.is_load() && copy.committed && (done == BulkDone::Written || !copy.read))
      return false;
  }
  return true;
}

void Simulation::poison_destination(Agent& a, const Copy& copy) {
  if (carries_tags(copy)) return;
  if (copy.is_load()) return cta(a).shared.poison(copy.shared, copy.total());
  for (uint32_t row = 0; row < copy.rows; ++row)
    ranks_[address_rank(copy.global)].memory.poison(
        memory_offset(copy.global + row * copy.global_pitch), copy.row_bytes);
}

void Simulation::read_source(Agent& a, const Copy& copy, CopiedData& to) {
  if (carries_tags(copy)) {
    to.tags.assign(copy.rows, kNoTag);
    return read_tags(a, copy, to.tags.data());
  }
  to.bytes.resize(copy.total());
  to.stamps.resize(copy.total());
  if (copy.from_weights()) {
    ranks_[a.rank].experts.read_box(copy.tensor, copy.weight_row, copy.column, to.bytes.data());
    std::fill(to.stamps.begin(), to.stamps.end(), stamp(a));
    return;
  }
  for (uint32_t row = 0; row < copy.rows; ++row) {
    PoisonedBytes& source =
        copy.is_load() ? ranks_[address_rank(copy.global)].memory : cta(a).shared;
    const uint64_t place = copy.is_load() ? memory_offset(copy.global + row * copy.global_pitch)
                                          : copy.shared + uint64_t{row} * copy.row_bytes;
    std::memcpy(&to.bytes[size_t{row} * copy.row_bytes], source.data(place, copy.row_bytes),
                copy.row_bytes);
    std::memcpy(&to.stamps[size_t{row} * copy.row_bytes], source.stamps(place), copy.row_bytes);
  }
}

void Simulation::write_destination(Agent& a, const Copy& copy, const CopiedData& from) {
  if (carries_tags(copy)) return write_tags(a, copy, from.tags.data());
  for (uint32_t row = 0; row < copy.rows; ++row) {
    PoisonedBytes& target =
        copy.is_load() ? cta(a).shared : ranks_[address_rank(copy.global)].memory;
    const uint64_t place = copy.is_load() ? copy.shared + uint64_t{row} * copy.row_bytes
                                          : memory_offset(copy.global + row * copy.global_pitch);
    std::memcpy(target.data(place, copy.row_bytes), &from.bytes[size_t{row} * copy.row_bytes],
                copy.row_bytes);
    std::memcpy(target.stamps(place), &from.stamps[size_t{row} * copy.row_bytes], copy.row_bytes);
  }
}

/// Reads and writes at one moment, without a place in between.
void Simulation::move_data(Agent& a, const Copy& copy) {
  if (carries_tags(copy)) {
    std::array<RowTag, kMaxTileRows> tags;
    std::fill_n(tags.begin(), copy.rows, kNoTag);
    read_tags(a, copy, tags.data());
    return write_tags(a, copy, tags.data());
  }
  PoisonedBytes& shared = cta(a).shared;
  if (copy.from_weights()) {
    ranks_[a.rank].experts.read_box(copy.tensor, copy.weight_row, copy.column,
                                    shared.data(copy.shared, copy.total()));
    return shared.set_stamps(copy.shared, copy.total(), stamp(a));
  }
  PoisonedBytes& memory = ranks_[address_rank(copy.global)].memory;
  for (uint32_t row = 0; row < copy.rows; ++row) {
    const uint64_t there = memory_offset(copy.global + row * copy.global_pitch);
    const uint64_t here = copy.shared + uint64_t{row} * copy.row_bytes;
    uint8_t* in_memory = memory.data(there, copy.row_bytes);
    uint8_t* in_shared = shared.data(here, copy.row_bytes);
    if (copy.is_load()) {
      std::memcpy(in_shared, in_memory, copy.row_bytes);
      std::memcpy(shared.stamps(here), memory.stamps(there), copy.row_bytes);
    } else {
      std::memcpy(in_memory, in_shared, copy.row_bytes);
      std::memcpy(memory.stamps(there), shared.stamps(here), copy.row_bytes);
    }
  }
}

void Simulation::lay_out(RankState& rank) {
  const bool keeps_words = ever_laid_out_ && mutant_.kind == MutantKind::KeepWords;
  const SymmetricLayout& layout = plan_layout();
  for (uint32_t r = 0; r < kNumRegions; ++r) {
    const auto region = static_cast<Region>(r);
    const uint64_t size = layout.size(region);
    if (region_info(region).persistence == Persistence::Launch || size == 0 || keeps_words)
      continue;
    std::memset(rank.memory.data(layout.offset(region), size), 0, size);
    rank.memory.set_stamps(layout.offset(region), size, kLastingStamp);
  }
  if (math()) return;
  const uint64_t ring_rows = uint64_t{plan().ring_blocks} * plan().block_m;
  rank.tags.pool_x.assign(ring_rows, kNoTag);
  rank.tags.linear1.assign(ring_rows, kNoTag);
}

void Simulation::upload_inputs(uint32_t r) {
  RankState& rank = ranks_[r];
  const RankInput& input = launches_[rank.launch].problem.ranks[r];
  const auto upload = [&](Region region, const auto& values, bool payload) {
    const uint64_t bytes = values.size() * sizeof(values[0]);
    if (bytes == 0) return;
    if (checker_)
      checker_->access({checker_->topology().host_of(r), AccessKind::Write, kFirstLane, Step::None},
                       race_range(pack_address(r, static_cast<uint32_t>(region), 0), bytes));
    if (payload && !math()) return;
    const uint64_t place = plan_layout().offset(region);
    MOETWIN_CHECK(bytes <= plan_layout().size(region));
    std::memcpy(rank.memory.data(place, bytes), values.data(), bytes);
    rank.memory.set_stamps(place, bytes, launch_stamp(rank.launch));
  };
  upload(Region::TopkIdx, input.topk_idx, false);
  upload(Region::TopkWeights, input.topk_weights, false);
  upload(Region::Tokens, input.x_codes, true);
  upload(Region::TokenScales, input.x_scales, true);
  // Tags name their launch, so older ones need not go.
  if (!math() && input.topk_idx.size() > rank.tags.combine.size())
    rank.tags.combine.resize(input.topk_idx.size());
}

RegionReader Simulation::reader() {
  return [this](uint32_t rank, Region region, uint64_t offset, uint64_t bytes, void* out) {
    if (bytes == 0) return;
    std::memcpy(out, ranks_[rank].memory.data(plan_layout().offset(region) + offset, bytes), bytes);
  };
}

void Simulation::collect(uint64_t launch) {
  std::vector<uint32_t> tokens;
  for (const RankInput& input : launches_[launch].problem.ranks) tokens.push_back(input.num_tokens);
  if (!math()) {
    results_[launch].tokens = tokens;
    return;
  }
  CollectedLayer collected = collect_result(launches_[launch].args.shape, plan(), tokens, reader());
  results_[launch] = std::move(collected.result);
  for (Finding& finding : collected.findings) {
    if (launches_.size() > 1) finding.launch = static_cast<uint32_t>(launch);
    findings_.push_back(std::move(finding));
  }
}

void Simulation::collect_y(uint32_t r) {
  if (!math()) return;
  const Launch& launch = launches_[ranks_[r].launch];
  LayerResult& result = results_[ranks_[r].launch];
  const uint64_t hidden = launch.args.shape.hidden;
  uint64_t first = 0;
  for (uint32_t before = 0; before < r; ++before)
    first += launch.problem.ranks[before].num_tokens * hidden;
  const uint64_t values = launch.problem.ranks[r].num_tokens * hidden;
  if (values == 0) return;
  const uint64_t place = plan_layout().offset(Region::Y);
  RankState& rank = ranks_[r];
  std::memcpy(&result.y[first], rank.memory.data(place, values * 2), values * 2);
  if (!rank.memory.stamped(place, values * 2, launch_stamp(rank.launch)) && findings_.size() < 20)
    findings_.push_back({FindingClass::Stale,
                         Step::CombineWriteY,
                         r,
                         0,
                         "math",
                         fmt::format("rank {}: y has elements that this launch did not write", r),
                         {},
                         launch_of(r)});
}

}  // namespace moetwin
