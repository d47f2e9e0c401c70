#include "cpu_sim/journey.h"

#include <algorithm>
#include <cstring>

#include "common/roles/math_part.h"
#include "common/slot_table.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

template <class T>
T value_of(const DataEvent& event) {
  T value{};
  std::memcpy(&value, event.value, sizeof(T));
  return value;
}

bool in(uint64_t place, Region region) {
  return address_region(place) == static_cast<uint32_t>(region);
}

/// The first sighting counts: later chunks of the same row do not move it.
void keep_first(Sighting& of, const Sighting& seen) {
  if (!of.seen) of = seen;
}

}  // namespace

JourneyRecorder::JourneyRecorder(const Problem& problem, const KernelArgs& args, uint64_t launch,
                                 const JourneyFilter& filter)
    : shape_(args.shape),
      plan_(args.plan),
      launch_(launch),
      filter_(filter),
      counts_(size_t{args.shape.experts} * args.shape.ranks, 0),
      first_block_(args.shape.experts, 0),
      followed_(args.shape.experts, false),
      tasks_(size_t{args.shape.ranks} * args.plan.sms),
      agents_(size_t{args.shape.ranks} * args.plan.sms * agents_per_cta(args.plan)) {
  count_rows(problem);
  choose_slots(problem);
}

void JourneyRecorder::count_rows(const Problem& problem) {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
    for (const int32_t expert : problem.ranks[rank].topk_idx)
      if (expert != kMaskedExpert) ++counts_[static_cast<size_t>(expert) * shape_.ranks + rank];
  for (uint32_t expert = 0; expert < shape_.experts; ++expert)
    if (shape_.local_expert(expert) + 1 < shape_.num_local_experts())
      first_block_[expert + 1] = first_block_[expert] + blocks_of(rows_of(expert), plan_.block_m);
}

uint32_t JourneyRecorder::rows_of(uint32_t expert) const {
  uint32_t rows = 0;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank)
    rows += counts_[size_t{expert} * shape_.ranks + rank];
  return rows;
}

bool JourneyRecorder::wanted(uint32_t rank, uint32_t token, uint32_t expert) const {
  const auto fits = [](uint32_t wish, uint32_t value) {
    return wish == JourneyFilter::kAny || wish == value;
  };
  const uint32_t block =
      filter_.row != JourneyFilter::kAny ? filter_.row / plan_.block_m : filter_.block;
  const bool holds_block =
      block == JourneyFilter::kAny ||
      (block >= first_block_[expert] &&
       block - first_block_[expert] < blocks_of(rows_of(expert), plan_.block_m));
  return fits(filter_.rank, rank) && fits(filter_.token, token) && fits(filter_.expert, expert) &&
         fits(filter_.pool_rank, shape_.rank_of_expert(expert)) && holds_block;
}

void JourneyRecorder::choose_slots(const Problem& problem) {
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const RankInput& input = problem.ranks[rank];
    for (uint32_t flat = 0; flat < input.topk_idx.size(); ++flat) {
      if (input.topk_idx[flat] == kMaskedExpert) continue;
      const auto expert = static_cast<uint32_t>(input.topk_idx[flat]);
      const uint32_t token = route_token(flat, shape_.topk);
      if (!wanted(rank, token, expert)) continue;
      by_flat_[uint64_t{rank} << 32 | flat] = journeys_.size();
      SlotJourney& journey = journeys_.emplace_back();
      journey.rank = rank;
      journey.token = token;
      journey.k = route_k(flat, shape_.topk);
      journey.expert = expert;
      journey.weight = input.topk_weights[flat];
      journey.linear2.resize(plan_.tiles.n2);
      followed_[expert] = true;
    }
  }
}

Sighting JourneyRecorder::sight(uint32_t agent, Step step, const Moment& at) const {
  return {true, step, agent_place(plan_, shape_.ranks, agent), at.event, at.time};
}

size_t JourneyRecorder::journey_of(uint32_t rank, uint64_t flat) const {
  const auto found = by_flat_.find(uint64_t{rank} << 32 | flat);
  return found == by_flat_.end() ? kNone : found->second;
}

PoolRowPlace JourneyRecorder::place_of(uint32_t expert, uint32_t source, uint32_t slot) const {
  // Before it come all smaller slots, and its own number on lower ranks.
  uint32_t row = 0;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const uint32_t count = counts_[size_t{expert} * shape_.ranks + rank];
    row += std::min(count, slot) + (rank < source && count > slot ? 1 : 0);
  }
  PoolRowPlace place;
  place.block = first_block_[expert] + row / plan_.block_m;
  place.row = first_block_[expert] * plan_.block_m + row;
  place.ring = ring_slot(place.block, plan_.ring_blocks);
  return place;
}

void JourneyRecorder::on_data(const DataEvent& event) {
  if (event.at.launch != launch_) return;
  const Sighting seen = sight(event.agent, event.step, event.at);
  switch (event.op) {
    case DataOp::Load:
      return on_load(event, seen);
    case DataOp::Store:
      return on_store(event, seen);
    case DataOp::Issue:
      if (event.step == Step::CombineLoad && in(event.place, Region::CombineRows)) {
        const uint64_t row = address_offset(event.place) / 2 / shape_.hidden;
        const uint64_t token = row % shape_.max_tokens_per_rank;
        const size_t j = journey_of(address_rank(event.place),
                                    token * shape_.topk + row / shape_.max_tokens_per_rank);
        if (j != kNone) keep_first(journeys_[j].loaded, seen);
      }
      return;
    case DataOp::Land: {
      const size_t pulling = agents_[event.agent].pulling;
      if (event.step == Step::PullStore && pulling != kNone) journeys_[pulling].stored = seen;
    }
  }
}

void JourneyRecorder::on_load(const DataEvent& event, const Sighting& seen) {
  const uint64_t word = address_offset(event.place) / 4;
  if (event.step == Step::CountRoutes && in(event.place, Region::TopkIdx)) {
    const size_t j = journey_of(address_rank(event.place), word);
    if (j != kNone) journeys_[j].counted = seen;
  }
  if (event.step == Step::PullFindSource && in(event.place, Region::SlotTable)) {
    const auto found = by_place_.find(uint64_t{address_rank(event.place)} << 56 | word);
    agents_[event.agent].pulling = found == by_place_.end() ? kNone : found->second;
    if (found != by_place_.end()) journeys_[found->second].found = seen;
  }
}

void JourneyRecorder::on_store(const DataEvent& event, const Sighting& seen) {
  switch (event.step) {
    case Step::WriteIndex:
      if (in(event.place, Region::SlotTable)) written(event, seen);
      return;
    case Step::PullMetadata: {
      const size_t pulling = agents_[event.agent].pulling;
      if (pulling == kNone || !in(event.place, Region::Metadata)) return;
      journeys_[pulling].recorded = seen;
      journeys_[pulling].recorded_row =
          static_cast<uint32_t>(address_offset(event.place) / sizeof(TokenSrcMetadata));
      return;
    }
    case Step::TaskPublish:
      return published_task(event, seen);
    case Step::Linear2Scatter:
      return scattered(event.place, seen);
    case Step::CombineWriteY: {
      const uint64_t token = address_offset(event.place) / 2 / shape_.hidden;
      for (uint32_t k = 0; k < shape_.topk; ++k) {
        const size_t j = journey_of(address_rank(event.place), token * shape_.topk + k);
        if (j != kNone) journeys_[j].summed = seen;
      }
      return;
    }
    default:
      return;
  }
}

void JourneyRecorder::written(const DataEvent& event, const Sighting& seen) {
  const uint64_t place = address_offset(event.place) / 4;
  const auto slot = static_cast<uint32_t>(place % shape_.slots_per_source());
  const size_t j = journey_of(seen.agent.rank, value_of<uint32_t>(event));
  if (j == kNone) return;
  SlotJourney& journey = journeys_[j];
  by_place_[uint64_t{address_rank(event.place)} << 56 | place] = j;
  journey.written = seen;
  journey.slot = slot;
  journey.place = place_of(journey.expert, journey.rank, slot);
  const auto range = ranges_.find({seen.agent.rank * plan_.sms + seen.agent.sm, journey.expert});
  if (range == ranges_.end()) return;
  journey.claimed = range->second.by;
  journey.first_slot = range->second.first;
  journey.claimed_slots = range->second.slots;
}

void JourneyRecorder::published_task(const DataEvent& event, const Sighting& seen) {
  const auto entry = value_of<TaskEntry>(event);
  tasks_[seen.agent.rank * plan_.sms + seen.agent.sm].push_back({entry, seen});
  if (entry.kind != TileKind::None) work_of(seen.agent.rank, entry).claimed = seen;
}

void JourneyRecorder::scattered(uint64_t place, const Sighting& seen) {
  if (!in(place, Region::CombineRows)) return;
  const uint64_t element = address_offset(place) / 2;
  const uint64_t row = element / shape_.hidden;
  const uint64_t token = row % shape_.max_tokens_per_rank;
  const size_t j =
      journey_of(address_rank(place), token * shape_.topk + row / shape_.max_tokens_per_rank);
  if (j == kNone) return;
  const uint64_t n = element % shape_.hidden / (shape_.hidden / plan_.tiles.n2);
  if (n < journeys_[j].linear2.size()) journeys_[j].linear2[n].done = seen;
}

void JourneyRecorder::on_sync(const Observation& event) {
  if (event.at.launch != launch_ || event.agent >= agents_.size()) return;
  AgentState& agent = agents_[event.agent];
  switch (event.step) {
    case Step::ClaimSlots:
      if (event.op == SyncOp::Fetch) claimed(event);
      return;
    case Step::PullWaitsForRingSlot:
      if (agent.pulling != kNone)
        journeys_[agent.pulling].ring_free = sight(event.agent, event.step, event.at);
      return;
    case Step::PullPublishRow:
      if (agent.pulling == kNone) return;
      journeys_[agent.pulling].published = sight(event.agent, event.step, event.at);
      journeys_[agent.pulling].x_full = static_cast<uint32_t>(event.number);
      agent.pulling = kNone;
      return;
    case Step::TaskWait: {
      const Sighting seen = sight(event.agent, event.step, event.at);
      if (event.op != SyncOp::WaitPhase || seen.agent.role != Role::Math) return;
      ++agent.tasks_taken;
      if (const Task* task = current_task(event.agent); task && task->entry.kind != TileKind::None)
        work_of(seen.agent.rank, task->entry).begun[seen.agent.number] = seen;
      return;
    }
    case Step::Linear1Publish: {
      const Sighting seen = sight(event.agent, event.step, event.at);
      if (const Task* task = current_task(event.agent); task && task->entry.kind != TileKind::None)
        work_of(seen.agent.rank, task->entry).done[seen.agent.number] = seen;
      return;
    }
    default:
      return;
  }
}

void JourneyRecorder::claimed(const Observation& event) {
  if (!in(event.object, Region::SendCount)) return;
  const auto expert = static_cast<uint32_t>(address_offset(event.object) / sizeof(uint64_t));
  if (expert >= followed_.size() || !followed_[expert]) return;
  const Sighting seen = sight(event.agent, event.step, event.at);
  uint32_t& before = claimed_so_far_[{seen.agent.rank, expert}];
  const uint32_t after = send_count_rows(event.number);
  ranges_[{seen.agent.rank * plan_.sms + seen.agent.sm, expert}] = {before, after - before, seen};
  before = after;
}

/// The tile a math warpgroup works on.
const JourneyRecorder::Task* JourneyRecorder::current_task(uint32_t agent) const {
  const std::vector<Task>& tasks = tasks_[agent / agents_per_cta(plan_)];
  const size_t taken = agents_[agent].tasks_taken;
  return taken == 0 || taken > tasks.size() ? nullptr : &tasks[taken - 1];
}

uint64_t JourneyRecorder::task_key(TileKind kind, uint32_t block, uint32_t n,
                                   uint32_t slice) const {
  return (uint64_t{block} << 32 | (n * plan_.slices() + slice)) * 2 +
         (kind == TileKind::Linear2 ? 1 : 0);
}

JourneyRecorder::TileWork& JourneyRecorder::work_of(uint32_t rank, const TaskEntry& task) {
  TileWork& work = tiles_[{rank, task_key(task.kind, task.block, task.n, task.slice)}];
  work.task = task;
  work.begun.resize(plan_.math_warpgroups);
  work.done.resize(plan_.math_warpgroups);
  return work;
}

bool JourneyRecorder::fits_row(const SlotJourney& journey) const {
  if (filter_.row == JourneyFilter::kAny && filter_.block == JourneyFilter::kAny) return true;
  if (!journey.written.seen) return true;
  return (filter_.row == JourneyFilter::kAny || filter_.row == journey.place.row) &&
         (filter_.block == JourneyFilter::kAny || filter_.block == journey.place.block);
}

void JourneyRecorder::add_tiles(SlotJourney& journey) const {
  const uint32_t row = journey.place.row % plan_.block_m;
  const uint32_t rank = shape_.rank_of_expert(journey.expert);
  const auto keep = [](Sighting& kept, const Sighting& seen, bool last) {
    if (seen.seen && (!kept.seen || (seen.event > kept.event) == last)) kept = seen;
  };
  // A row is multiplied by one warpgroup, or by several, each with other slices.
  const auto keep_of_row = [&](Sighting& kept, const TileWork& work,
                               const std::vector<Sighting>& sightings, bool last) {
    for (uint32_t warpgroup = 0; warpgroup < plan_.math_warpgroups; ++warpgroup) {
      const MathPart part = math_part(plan_, warpgroup, work.task);
      if (row - part.first < part.valid) keep(kept, sightings[warpgroup], last);
    }
  };
  // A tile that was dealt out slice by slice has several tasks.
  const auto each_task = [&](TileKind kind, uint32_t n, auto&& f) {
    for (uint32_t slice = 0; slice < plan_.slices(); ++slice) {
      const auto work = tiles_.find({rank, task_key(kind, journey.place.block, n, slice)});
      if (work != tiles_.end()) f(work->second);
    }
  };
  journey.linear1.resize(plan_.tiles.n1);
  for (uint32_t n = 0; n < plan_.tiles.n1; ++n)
    each_task(TileKind::Linear1, n, [&](const TileWork& work) {
      keep(journey.linear1[n].claimed, work.claimed, false);
      keep_of_row(journey.linear1[n].begun, work, work.begun, false);
      keep_of_row(journey.linear1[n].done, work, work.done, true);
    });
  for (uint32_t n = 0; n < plan_.tiles.n2; ++n)
    each_task(TileKind::Linear2, n, [&](const TileWork& work) {
      keep(journey.linear2[n].claimed, work.claimed, false);
      keep_of_row(journey.linear2[n].begun, work, work.begun, false);
    });
}

std::vector<SlotJourney> JourneyRecorder::journeys() const {
  std::vector<SlotJourney> chosen;
  for (const SlotJourney& journey : journeys_) {
    if (!fits_row(journey)) continue;
    chosen.push_back(journey);
    if (journey.written.seen) add_tiles(chosen.back());
  }
  return chosen;
}

}  // namespace moetwin
