// The simulated world: ranks with memory, SMs with shared memory and barriers, agents on fibers,
// and pending asynchronous copies, all driven by one control timeline. It owns what exists and who
// waits for what; sim_machine.h is how a role program acts on it, wait_report.h puts a deadlock in
// words.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/machine.h"
#include "common/trace_event.h"
#include "cpu_sim/agent_numbers.h"
#include "cpu_sim/barriers.h"
#include "cpu_sim/copies.h"
#include "cpu_sim/cost_table.h"
#include "cpu_sim/expert_cache.h"
#include "cpu_sim/fiber.h"
#include "cpu_sim/mutant.h"
#include "cpu_sim/payload_tags.h"
#include "cpu_sim/poisoned_bytes.h"
#include "cpu_sim/probes.h"
#include "cpu_sim/race_detector.h"
#include "cpu_sim/scheduler.h"
#include "cpu_sim/shared_bandwidth.h"
#include "cpu_sim/tile_jobs.h"
#include "model/case.h"
#include "model/collect.h"
#include "model/run.h"

namespace moetwin {

constexpr size_t kMaxFindings = 20;

/// Thrown through a fiber when going on makes no sense; the findings say why.
struct StopRun {};

/// What an agent is blocked on.
struct Wait {
  enum class Kind : uint8_t { Nothing, Launch, Word, Mbarrier, NamedBarrier, Bulk };
  Kind kind = Kind::Nothing;
  Step step = Step::None;
  uint64_t address = 0;  ///< Word
  Awaited awaited{};     ///< Word
  uint32_t bar = 0;      ///< Mbarrier, NamedBarrier
  uint32_t parity = 0;   ///< Mbarrier
  uint64_t round = 0;    ///< NamedBarrier: the round that must end
  BulkDone done = BulkDone::Read;
};

/// mbarriers of a CTA at the most: full and empty stages, task queue, pulls, combine stages.
constexpr uint32_t kMaxMbarriers =
    2 * kMaxStages + 2 * kTaskQueueEntries + kDispatchWarps + 2 * kMaxCombineStages;

struct Cta {
  PoisonedBytes shared;
  SharedTags tags;
  std::array<SimMbarrier, kMaxMbarriers> mbarriers{};
  std::array<SimNamedBarrier, kNumNamedBarriers> named{};
  bool held = false;  ///< never becomes resident
};

/// An agent that wants to know when a word changes.
struct WordWaiter {
  uint64_t address = 0;
  uint32_t agent = 0;
  Awaited awaited{};
};

struct RankState {
  PoisonedBytes memory;
  RankTags tags;
  ExpertCache experts;
  uint64_t launch = 0;  ///< being run or, if idle, to be run next
  bool running = false;
  uint32_t agents_left = 0;
  uint32_t num_tokens = 0;
  std::vector<std::vector<WordWaiter>> word_waiters;  ///< by hash of the word's address
};

struct Agent {
  uint32_t rank = 0;
  uint32_t sm = 0;
  Role role = Role::Dispatch;
  uint32_t number = 0;  ///< within its role
  uint32_t cta = 0;     ///< of all ranks' CTAs
  uint32_t in_cta = 0;  ///< bit in an AgentMask
  uint32_t warps = 1;
  bool started = false;  ///< in the current launch
  bool finished = false;
  Wait wait;
  uint64_t time = 0;
  PendingCopies copies;                               ///< issued and not landed
  uint32_t mutant_visits = 0;                         ///< calls that the mutant could have changed
  uint32_t uncommitted = 0;                           ///< bulk stores since the last commit
  std::array<uint32_t, kMaxMbarriers> phases_seen{};  ///< by mbarrier: waits that ended
};

/// Global addresses: rank, region (or one of the weight scales) and byte offset in one word, so
/// that a bound is checked exactly and a report can name the place.
constexpr uint32_t kW1ScalesRegion = kNumRegions;
constexpr uint32_t kW2ScalesRegion = kNumRegions + 1;
constexpr uint64_t pack_address(uint32_t rank, uint32_t region, uint64_t offset) {
  return uint64_t{rank} << 56 | uint64_t{region} << 48 | offset;
}
constexpr uint32_t address_rank(uint64_t address) { return static_cast<uint32_t>(address >> 56); }
constexpr uint32_t address_region(uint64_t address) { return (address >> 48) & 0xFF; }
constexpr uint64_t address_offset(uint64_t address) { return address & 0xFFFFFFFFFFFFull; }

/// Regions whose words never grow stale.
constexpr std::array<bool, kNumRegions> kLastingRegion = [] {
  std::array<bool, kNumRegions> lasting{};
  for (uint32_t region = 0; region < kNumRegions; ++region)
    lasting[region] = region_info(static_cast<Region>(region)).persistence != Persistence::Launch;
  return lasting;
}();

struct Launch {
  Problem problem;
  KernelArgs args;
  std::vector<std::vector<uint64_t>> weight_tiles;  ///< [rank][local expert]: tile loads to come
};

class Simulation {
 public:
  Simulation(const Case& c, const RunOptions& options, const Mutant& mutant,
             const Probes& probes = {});
  ~Simulation();

  RunResult run();
  /// How long the launches took so far by the cost table, from the first launch on.
  uint64_t virtual_nanoseconds() const;
  /// Which launch the rank is in, where the case has more than one.
  std::optional<uint32_t> launch_of(uint32_t rank) const;

  // What SimMachine acts on.

  Cta& cta(const Agent& a) { return ctas_[a.cta]; }
  RankState& rank(uint32_t r) { return ranks_[r]; }
  const Launch& launch(uint32_t rank) const { return launches_[ranks_[rank].launch]; }
  const KernelPlan& plan() const { return *plan_; }
  const SymmetricLayout& plan_layout() const { return *layout_; }
  bool math() const { return options_.math; }
  /// Whether a tile's k loop may be one step: what it touches lies inside its SM, and nobody looks
  /// at single accesses.
  bool k_loop_may_be_one_step() const {
    return !options_.math && !options_.check && !options_.full_k_loop && !traced() &&
           probes_.data == nullptr;
  }
  const Mutant& mutant() const { return mutant_; }
  bool observed() const { return probes_.observer != nullptr; }
  /// Tells the observer of an operation of agent `id` (a landing's number for landings).
  void synced(uint32_t id, Step step, SyncOp op, uint64_t object, uint64_t number,
              bool completes = false) {
    if (observed())
      probes_.observer->on_sync({id, step, op, object, number, completes, moment_of(id)});
  }
  /// Tells the data observer of an access or copy of `a`.
  void touched(const Agent& a, Step step, DataOp op, uint64_t place, const void* value = nullptr) {
    if (probes_.data != nullptr) [[unlikely]]
      probes_.data->on_data({id_of(a), step, op, place, value, moment_of(id_of(a))});
  }
  TileJobs& tiles() { return tiles_; }
  ProtocolCounts& counts() { return counts_; }
  Scheduler& scheduler() { return scheduler_; }
  Landing landing() const { return case_.world.landing; }
  Padding padding() const { return case_.world.padding; }
  const CostTable& costs() const { return costs_; }
  /// Whether virtual time decides the order, so that shared bandwidth counts.
  bool timed() const { return timed_; }
  SharedBandwidth& bandwidth() { return bandwidth_; }
  /// The race checker; null when the run is not checked.
  RaceDetector* checker() { return checker_.get(); }
  /// A place of global memory, or of the agent's shared memory, as the checker names it.
  RaceRange race_range(uint64_t address, uint64_t bytes) const {
    return {RaceSpace::Global, address_rank(address), address_region(address),
            address_offset(address), bytes};
  }
  RaceRange race_range(const Agent& a, uint32_t shared, uint64_t bytes) const {
    return {RaceSpace::Shared, a.cta, 0, shared, bytes};
  }
  /// Reports a named barrier that is none of the agent's.
  void check_member(const Agent& a, NamedBarrier barrier, Step step);
  uint32_t id_of(const Agent& a) const { return static_cast<uint32_t>(&a - agents_.data()); }
  bool traced() const { return !options_.trace_path.empty() || probes_.timeline != nullptr; }
  /// Adds an event of `a` to the timeline; only where traced().
  void log(const Agent& a, TraceKind kind, Step step, TraceObject what, uint64_t object,
           uint32_t value);
  /// The scheduler's number of the landings of an agent's copies.
  uint32_t landing_number(const Agent& a) const {
    return static_cast<uint32_t>(agents_.size()) + id_of(a);
  }
  Stamp stamp(const Agent& a) const { return launch_stamp(ranks_[a.rank].launch); }

  /// Gives other agents a chance before a visible operation.
  void visible(Agent& a) {
    if (++counts_.events > probes_.max_events) [[unlikely]]
      stop_endless(a);
    if (scheduler_.preempts() && !scheduler_.continues(id_of(a), a.time)) pool_->yield();
  }
  /// Blocks the running agent until somebody wakes it; the caller looks again.
  void block(Agent& a, const Wait& wait);
  void wake(Agent& a, uint64_t time);
  void wake_all(uint32_t rank, uint32_t sm, AgentMask& waiting, uint64_t time);
  /// A word changed: agents whose condition now holds may look again.
  void word_changed(uint64_t address, uint32_t value, uint64_t time, Scope scope);
  void wait_on_word(const Agent& a, uint64_t address, Awaited awaited);
  void stop_waiting_on_word(const Agent& a, uint64_t address);

  /// The bytes behind a global address, or StopRun with a finding of class bounds.
  uint8_t* global_bytes(const Agent& a, uint64_t address, uint64_t bytes, uint64_t alignment,
                        Step step, uint32_t lane) {
    const uint32_t rank = address_rank(address);
    const uint32_t region = address_region(address);
    const uint64_t offset = address_offset(address);
    if (rank >= ranks_.size() || region >= kNumRegions || offset + bytes > layout_->bytes[region] ||
        offset % alignment != 0) [[unlikely]]
      out_of_bounds(a, address, bytes, alignment, step, lane);
    return ranks_[rank].memory.data(layout_->offsets[region] + offset, bytes);
  }
  /// Place of a global address in its rank's memory.
  uint64_t memory_offset(uint64_t address) const {
    return layout_->offsets[address_region(address)] + address_offset(address);
  }
  /// What a write marks its bytes with: words of lasting regions never grow stale.
  Stamp stamp_of_write(const Agent& a, uint64_t address) const {
    return kLastingRegion[address_region(address)] ? kLastingStamp : stamp(a);
  }
  void check_shared_bounds(const Agent& a, uint32_t offset, uint32_t bytes, uint32_t alignment,
                           Step step, uint32_t lane) {
    if (uint64_t{offset} + bytes > plan().shared.total || offset % alignment != 0) [[unlikely]]
      out_of_shared_bounds(a, offset, bytes, alignment, step, lane);
  }
  uint8_t* shared_bytes(const Agent& a, uint32_t offset, uint32_t bytes, uint32_t alignment,
                        Step step, uint32_t lane) {
    check_shared_bounds(a, offset, bytes, alignment, step, lane);
    return cta(a).shared.data(offset, bytes);
  }
  float weight_scale(const Agent& a, uint64_t address, Step step, uint32_t lane);
  /// Reports a read of bytes that nobody wrote in this launch.
  void undefined_read(const Agent& a, Step step, const std::string& place, bool ever_written);

  void issue(Agent& a, Copy& copy);
  /// Whether all of the agent's committed stores have got as far as `done` says.
  bool stores_done(const Agent& a, BulkDone done) const;
  /// Ends the mbarrier's phase if it is complete, at virtual time `time`.
  /// `actor`: the agent or landing that arrived or whose bytes landed.
  void complete_phase(Agent& a, uint32_t bar, Step step, uint64_t time, uint32_t actor);
  void barrier_fault(const Agent& a, BarrierFault fault, Step step, const std::string& barrier);

  void report(FindingClass kind, const Agent& a, Step step, std::string text,
              std::string other = {});
  [[noreturn]] void stop_endless(const Agent& a);
  [[noreturn]] void stop(FindingClass kind, const Agent& a, Step step, std::string text);

  std::string agent_name(const Agent& a) const;
  std::string place_name(uint64_t address) const;
  std::string shared_name(uint32_t offset) const;
  std::string mbarrier_name(uint32_t bar) const;

  // What the deadlock report reads.
  const std::vector<Agent>& agents() const { return agents_; }
  const std::vector<RankState>& ranks() const { return ranks_; }
  const std::vector<Cta>& ctas() const { return ctas_; }
  uint32_t word_value(uint64_t address);
  uint64_t num_launches() const { return launches_.size(); }

 private:
  struct FiberStart {
    Simulation* simulation;
    Agent* agent;
  };

  [[noreturn]] void out_of_bounds(const Agent& a, uint64_t address, uint64_t bytes,
                                  uint64_t alignment, Step step, uint32_t lane);
  [[noreturn]] void out_of_shared_bounds(const Agent& a, uint32_t offset, uint32_t bytes,
                                         uint32_t alignment, Step step, uint32_t lane);
  /// Now, as agent or landing `id` sees it.
  Moment moment_of(uint32_t id) const {
    const Agent& a = agents_[id < agents_.size() ? id : id - agents_.size()];
    return {ranks_[a.rank].launch, counts_.events, a.time};
  }
  /// Of the rank's agents.
  uint64_t latest_time(uint32_t rank) const;
  std::unique_ptr<FiberPool> take_fibers(size_t count) const;
  PagePool* pages() const;
  void use_layout_of(uint64_t launch);
  void prepare_launches();
  void create_agents();
  void start_rank(uint32_t rank);
  bool may_start(uint32_t rank) const;
  void start_ready_ranks();
  bool same_shape(uint64_t launch) const;
  void lay_out(RankState& rank);
  void upload_inputs(uint32_t rank);
  void agent_body(Agent& a);
  void run_agent_role(Agent& a);
  void agent_done(Agent& a);
  void end_of_launch(uint32_t rank);
  void land_one(uint32_t issuer);
  void land(Agent& a, const Copy& copy, const CopiedData* read);
  bool carries_tags(const Copy& copy) const;
  void read_source(Agent& a, const Copy& copy, CopiedData& to);
  void write_destination(Agent& a, const Copy& copy, const CopiedData& from);
  void move_data(Agent& a, const Copy& copy);
  void poison_destination(Agent& a, const Copy& copy);
  void read_tags(Agent& a, const Copy& copy, RowTag* to);
  void write_tags(Agent& a, const Copy& copy, const RowTag* from);
  void check_issue(Agent& a, Copy& copy);
  uint64_t landing_time(const Agent& a, const Copy& copy);
  void check_left_over(uint32_t rank);
  void report_race(const RaceFinding& finding);
  void check_combine(Agent& a, const Copy& copy);
  void prefetch_next();
  void drive();
  RegionReader reader();
  void collect(uint64_t launch);
  void collect_y(uint32_t rank);
  void finish_result(RunResult& result);
  void save_trace();
  std::string state_digest() const;

  const Case& case_;
  RunOptions options_;
  Mutant mutant_;
  Probes probes_;
  CostTable costs_;
  SharedBandwidth bandwidth_;
  bool timed_ = false;
  std::vector<uint64_t> launch_ends_;  ///< where timed: when a launch's last rank has left it
  std::vector<Launch> launches_;
  WeightCache weight_cache_;
  std::vector<RankState> ranks_;
  std::vector<Cta> ctas_;
  std::vector<Agent> agents_;
  Scheduler scheduler_;
  TileJobs tiles_;
  ProtocolCounts counts_;
  std::vector<Finding> findings_;
  std::unique_ptr<RaceDetector> checker_;
  std::vector<LayerResult> results_;
  std::vector<TraceEvent> trace_;
  uint64_t laid_out_launch_ = 0;
  const KernelPlan* plan_ = nullptr;         ///< of the laid-out launch
  const SymmetricLayout* layout_ = nullptr;  ///< the same
  bool ever_laid_out_ = false;
  bool starts_pending_ = true;  ///< a rank may have become ready to start
  bool stopped_ = false;
  bool deadlocked_ = false;
  std::vector<FiberStart> fiber_starts_;
  std::unique_ptr<FiberPool> pool_;  ///< unwound first, while all that its fibers refer to lives
};

}  // namespace moetwin
