// The life of a simulated run: launches, agents on fibers, who is blocked and who is woken, and the
// loop that lets the scheduler decide.
#include "cpu_sim/simulation.h"

#include <fmt/format.h>
#include <omp.h>
#include <xxhash.h>

#include <chrono>
#include <string_view>

#include "common/check.h"
#include "cpu_sim/planted_rules.h"
#include "cpu_sim/race_report.h"
#include "cpu_sim/wait_report.h"
#include "model/checked_plan.h"
#include "model/collect.h"
#include "model/digest.h"
#include "model/timeline.h"
#include "model/trace.h"
#include "model/wait_report.h"

namespace moetwin {
namespace {

constexpr size_t kStackBytes = size_t{96} << 10;
constexpr uint32_t kWordBuckets = 64;

uint32_t word_bucket(uint64_t address) {
  return static_cast<uint32_t>((address >> 2) ^ (address >> 48)) % kWordBuckets;
}

constexpr std::array<std::string_view, kNumRoles> kRoleNames = {"dispatch", "load_a", "load_b",
                                                                "math"};

uint32_t thread_count(const RunOptions& options) {
  return options.threads != 0 ? options.threads : static_cast<uint32_t>(omp_get_max_threads());
}

}  // namespace

Simulation::Simulation(const Case& c, const RunOptions& options, const Mutant& mutant,
                       const Probes& probes)
    : case_(c),
      options_(options),
      mutant_(mutant),
      probes_(probes),
      weight_cache_(options.weights),
      tiles_(thread_count(options), mutant.kind == MutantKind::Rule
                                        ? static_cast<LayerFault>(mutant.delta)
                                        : LayerFault::None),
      pool_(take_fibers(size_t{c.shape.ranks} * c.kernel.sms_per_rank *
                        (kWarpgroupWarps + kMaxMathWarpgroups))) {
  prepare_launches();
  create_agents();
}

Simulation::~Simulation() {
  pool_->reset();
  if (probes_.pool != nullptr) probes_.pool->give_fibers(std::move(pool_));
}

std::unique_ptr<FiberPool> Simulation::take_fibers(size_t count) const {
  if (probes_.pool != nullptr) return probes_.pool->take_fibers(count, kStackBytes);
  return std::make_unique<FiberPool>(count, kStackBytes);
}

PagePool* Simulation::pages() const {
  return probes_.pool != nullptr ? &probes_.pool->pages() : nullptr;
}

void Simulation::prepare_launches() {
  uint64_t memory_bytes = 0;
  for (size_t i = 0; i < case_.launches.size(); ++i) {
    Launch launch;
    launch.problem =
        options_.math ? make_problem(case_, i, weight_cache_) : make_routed_problem(case_, i);
    const Shape& shape = launch.problem.shape;
    const KernelPlan plan = checked_plan(shape, case_.kernel, options_.unsafe_ring, options_.math);
    launch.args = {shape, plan, make_layout(shape, plan), launch.problem.clamp};
    if (probes_.alter) probes_.alter(launch.problem, launch.args);
    memory_bytes = std::max(memory_bytes, launch.args.layout.total);
    std::vector<std::vector<uint32_t>> blocks(shape.ranks);
    std::vector<uint32_t> rows(shape.experts, 0);
    for (const RankInput& input : launch.problem.ranks)
      for (const int32_t expert : input.topk_idx)
        if (static_cast<uint32_t>(expert) < shape.experts) ++rows[static_cast<uint32_t>(expert)];
    const TileCounts tiles = plan.tiles;
    const uint64_t loads_a_block =
        plan.slices() * (uint64_t{tiles.n1} * shape.hidden_blocks() +
                         uint64_t{tiles.n2} * shape.intermediate_blocks());
    launch.weight_tiles.resize(shape.ranks);
    for (uint32_t expert = 0; expert < shape.experts; ++expert)
      launch.weight_tiles[shape.rank_of_expert(expert)].push_back(
          blocks_of(rows[expert], plan.block_m) * loads_a_block);
    launches_.push_back(std::move(launch));
  }
  use_layout_of(0);
  ranks_.resize(case_.shape.ranks);
  for (RankState& rank : ranks_) {
    rank.memory = PoisonedBytes(memory_bytes, case_.world.poison, pages());
    rank.word_waiters.resize(kWordBuckets);
  }
  results_.resize(launches_.size());
}

void Simulation::create_agents() {
  const KernelPlan& p = plan();
  const uint32_t ctas = case_.shape.ranks * p.sms;
  RunSettings settings;
  settings.roles = kRoleNames;
  settings.record = options_.record;
  const Landing landing = case_.world.landing;
  settings.landing = landing == Landing::Late    ? LandingOrder::Late
                     : landing == Landing::Early ? LandingOrder::Early
                                                 : LandingOrder::Random;
  const std::string& text = options_.schedule.empty() ? case_.schedule : options_.schedule;
  Schedule schedule = parse_schedule(text, kRoleNames);
  if (probes_.chooser != nullptr) {
    schedule = {};
    schedule.policy = SchedulePolicy::Step;
    schedule.replay = true;
    settings.chooser = probes_.chooser;
  }
  if (schedule.policy == SchedulePolicy::Slow && schedule.rank >= case_.shape.ranks)
    throw InputError(fmt::format("schedule: {}: rank {} is not below shape.ranks {}", text,
                                 schedule.rank, case_.shape.ranks));
  scheduler_.start(schedule, settings);
  timed_ = schedule.policy == SchedulePolicy::Timed;
  bandwidth_.start(case_.shape.ranks, p.sms, costs_);

  ctas_.resize(ctas);
  for (Cta& cta : ctas_) {
    cta.shared = PoisonedBytes(kMaxSharedBytes, case_.world.poison, pages());
  }
  for (const HeldSm& held : case_.world.held_sms) ctas_[held.rank * p.sms + held.sm].held = true;

  agents_.reserve(size_t{ctas} * agents_per_cta(p));
  for (uint32_t cta = 0; cta < ctas; ++cta) {
    uint32_t in_cta = 0;
    const auto add = [&](Role role, uint32_t number, uint32_t warps) {
      Agent& a = agents_.emplace_back();
      a.rank = cta / p.sms;
      a.sm = cta % p.sms;
      a.role = role;
      a.number = number;
      a.warps = warps;
      a.cta = cta;
      a.in_cta = in_cta++;
    };
    for (uint32_t warp = 0; warp < kDispatchWarps; ++warp) add(Role::Dispatch, warp, 1);
    add(Role::LoadA, 0, 1);
    add(Role::LoadB, 0, 1);
    for (uint32_t group = 0; group < p.math_warpgroups; ++group)
      add(Role::Math, group, kWarpgroupWarps);
  }
  fiber_starts_.reserve(agents_.size());
  for (const Agent& a : agents_)
    scheduler_.add_agent({static_cast<uint32_t>(a.role), a.rank, false});
  for (const Agent& a : agents_)
    scheduler_.add_agent({static_cast<uint32_t>(a.role), a.rank, true});
  for (Agent& a : agents_) {
    a.finished = true;
    pool_->spawn(
        [](void* argument) {
          auto* both = static_cast<FiberStart*>(argument);
          both->simulation->agent_body(*both->agent);
        },
        &fiber_starts_.emplace_back(FiberStart{this, &a}));
  }
}

void Simulation::block(Agent& a, const Wait& wait) {
  a.wait = wait;
  pool_->yield();
  a.wait = {};
}

void Simulation::wake(Agent& a, uint64_t time) {
  if (a.wait.kind == Wait::Kind::Nothing) return;
  a.wait.kind = Wait::Kind::Nothing;
  a.time = std::max(a.time, time);
  scheduler_.runnable(id_of(a), a.time);
}

void Simulation::wake_all(uint32_t rank, uint32_t sm, AgentMask& waiting, uint64_t time) {
  const uint32_t per_cta = agents_per_cta(plan());
  const uint32_t first = (rank * plan().sms + sm) * per_cta;
  for (uint32_t i = 0; i < per_cta; ++i)
    if ((waiting >> i & 1) != 0) wake(agents_[first + i], time);
  waiting = 0;
}

void Simulation::wait_on_word(const Agent& a, uint64_t address, Awaited awaited) {
  ranks_[address_rank(address)].word_waiters[word_bucket(address)].push_back(
      {address, id_of(a), awaited});
}

void Simulation::stop_waiting_on_word(const Agent& a, uint64_t address) {
  std::erase_if(ranks_[address_rank(address)].word_waiters[word_bucket(address)],
                [id = id_of(a)](const WordWaiter& waiter) { return waiter.agent == id; });
}

void Simulation::word_changed(uint64_t address, uint32_t value, uint64_t time, Scope scope) {
  const auto& waiters = ranks_[address_rank(address)].word_waiters[word_bucket(address)];
  for (const WordWaiter& waiter : waiters)
    if (waiter.address == address && waiter.awaited.holds(value))
      wake(agents_[waiter.agent], time + (scope == Scope::Sys ? costs_.flag_sys : costs_.flag_gpu));
}

void Simulation::complete_phase(Agent& a, uint32_t bar, Step step, uint64_t time, uint32_t actor) {
  SimMbarrier& state = cta(a).mbarriers[bar];
  if (state.overrun()) barrier_fault(a, BarrierFault::ExtraBytes, step, mbarrier_name(bar));
  const uint64_t phase = state.phases;
  const bool completes = state.complete_phase();
  synced(actor, step, SyncOp::Arrive, sync_object_mbarrier(a.cta, bar), phase, completes);
  if (!completes) return;
  if (checker_) checker_->mbarrier_phase(a.cta, bar);
  const BarrierFault fault = state.observation();
  if (fault != BarrierFault::None) barrier_fault(a, fault, step, mbarrier_name(bar));
  wake_all(a.rank, a.sm, state.waiting, time);
}

void Simulation::drive() {
  for (;;) {
    if (starts_pending_) start_ready_ranks();
    if (scheduler_.empty() && starts_pending_) start_ready_ranks();
    if (scheduler_.empty()) {
      bool all_done = true;
      for (const RankState& rank : ranks_) all_done &= rank.launch >= launches_.size();
      if (all_done) return;
      deadlocked_ = true;
      for (Finding& finding : explain_deadlock(*this)) findings_.push_back(std::move(finding));
      return;
    }
    const uint32_t id = scheduler_.next();
    prefetch_next();
    if (id >= agents_.size())
      land_one(id - static_cast<uint32_t>(agents_.size()));
    else
      pool_->resume(id);
  }
}

/// Many agents do not fit the caches: what the next ones need is fetched while this one runs.
void Simulation::prefetch_next() {
  const size_t count = agents_.size();
  if (const uint32_t id = scheduler_.likely_next(0); id != RunQueue::kNoAgent) {
    const Agent& a = agents_[id < count ? id : id - count];
    a.copies.prefetch();
    prefetch_bytes(&cta(a).mbarriers, sizeof(Cta::mbarriers) / 2);
    if (id < count) pool_->prefetch(id);
    if (checker_) checker_->prefetch(id_of(a));
  }
  if (const uint32_t id = scheduler_.likely_next(1); id != RunQueue::kNoAgent)
    prefetch_bytes(&agents_[id < count ? id : id - count], sizeof(Agent));
}

RunResult Simulation::run() {
  const auto begin = std::chrono::steady_clock::now();
  try {
    drive();
  } catch (const StopRun&) {
    stopped_ = true;
  }
  RunResult result;
  finish_result(result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  pool_->unwind_all();
  if (traced()) save_trace();
  return result;
}

void Simulation::log(const Agent& a, TraceKind kind, Step step, TraceObject what, uint64_t object,
                     uint32_t value) {
  trace_.push_back({timed_ ? a.time : counts_.events, object, value, static_cast<uint16_t>(a.rank),
                    static_cast<uint16_t>(a.sm), static_cast<uint8_t>(a.in_cta), kind, step, what});
}

void Simulation::save_trace() {
  Timeline timeline;
  for (const Launch& launch : launches_) timeline.launches.push_back(launch.args);
  timeline.events = std::move(trace_);
  if (!options_.trace_path.empty())
    write_trace(options_.trace_path, timeline.launches, timeline.events);
  if (probes_.timeline != nullptr) *probes_.timeline = std::move(timeline);
}

void Simulation::finish_result(RunResult& result) {
  result.findings = findings_;
  result.schedule_digest = scheduler_.digest();
  result.schedule_string =
      options_.record ? to_string(scheduler_.recorded()) : scheduler_.schedule_string();
  result.threads = thread_count(options_);
  for (const RankState& rank : ranks_) counts_.peak_bytes += rank.memory.touched_bytes();
  for (const Cta& cta : ctas_) counts_.peak_bytes += cta.shared.touched_bytes();
  result.counts = counts_;
  for (size_t launch = 0; launch < launch_ends_.size(); ++launch) {
    const bool ended = std::all_of(ranks_.begin(), ranks_.end(),
                                   [&](const RankState& rank) { return rank.launch > launch; });
    if (!ended) break;
    const uint64_t begin = launch == 0 ? 0 : launch_ends_[launch - 1];
    result.launch_nanoseconds.push_back(launch_ends_[launch] - begin);
  }
  if (deadlocked_ || stopped_) return;
  result.state_digest = state_digest();
  if (options_.math) result.launches = std::move(results_);
}

uint64_t Simulation::latest_time(uint32_t rank) const {
  uint64_t latest = 0;
  for (const Agent& a : agents_)
    if (a.rank == rank) latest = std::max(latest, a.time);
  return latest;
}

uint64_t Simulation::virtual_nanoseconds() const {
  uint64_t latest = 0;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    latest = std::max(latest, latest_time(rank));
  return latest;
}

std::optional<uint32_t> Simulation::launch_of(uint32_t rank) const {
  if (launches_.size() < 2) return {};
  return static_cast<uint32_t>(ranks_[rank].launch);
}

std::string Simulation::agent_name(const Agent& a) const {
  return moetwin::agent_name(a.rank, a.sm, a.role, a.number);
}

std::string Simulation::state_digest() const {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  for (const LayerResult& result : results_) {
    const StageDigests digests = digest_stages(result);
    for (const Stage stage : kStages)
      XXH3_128bits_update(state, digests.of(stage).data(), digests.of(stage).size());
  }
  const SymmetricLayout& layout = plan_layout();
  for (const RankState& rank : ranks_)
    for (uint32_t r = 0; r < kNumRegions; ++r) {
      const auto region = static_cast<Region>(r);
      if (region_info(region).persistence != Persistence::ZeroBetween) continue;
      auto& memory = const_cast<PoisonedBytes&>(rank.memory);
      if (layout.size(region) > 0)
        XXH3_128bits_update(state, memory.data(layout.offset(region), layout.size(region)),
                            layout.size(region));
    }
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace moetwin
