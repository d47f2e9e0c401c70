// Plays a schedule: which runnable agent goes next, and the random numbers of the run. It owns the
// run queue, the count and digest of choices, and the record from which any run can be repeated.
// It knows neither fibers nor what an agent does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_sim/probes.h"
#include "cpu_sim/run_queue.h"
#include "cpu_sim/schedule.h"

namespace moetwin {

/// When pending asynchronous work lands. Early never reaches the scheduler: the machine lands it at
/// once, without an agent being queued.
enum class LandingOrder : uint8_t {
  Late,    ///< after every runnable agent but the held ones; first issued first
  Early,   ///< at issue
  Random,  ///< as any agent of the policy
};

/// What the scheduler knows about an agent. A landing is a pending asynchronous operation.
struct AgentInfo {
  uint32_t role = 0;  ///< index into RunSettings::roles
  uint32_t rank = 0;
  bool landing = false;
};

struct RunSettings {
  std::span<const std::string_view> roles;  ///< names, for slow:ROLE@RANK
  LandingOrder landing = LandingOrder::Late;
  uint64_t expected_choices = 100000;  ///< pct places its changes below it; same for same case
  bool record = false;                 ///< keep what recorded() needs
  Chooser* chooser = nullptr;          ///< decides every choice; the policy must be step
};

/// The key of a runnable agent, by policy (band 0 unless said otherwise):
///   fifo, step   count of pushes
///   slow         as fifo, the held agents in band 2
///   random       key of the agent that went last + a waiting time from (seed, agent, times
///   queued);
///                exponential, so that every runnable agent is equally likely to go next
///   timed        virtual time
///   pct          priority of (role, rank), lowered at change points
///   late landing count of pushes in band 1 (under timed: its time, in band 0)
/// A choice is one call of next() or of continues() where preempts().
class Scheduler {
 public:
  Scheduler();
  ~Scheduler();
  Scheduler(Scheduler&&) noexcept;
  Scheduler& operator=(Scheduler&&) noexcept;

  /// Begins a run without agents; memory is kept from run to run. `schedule` is copied. Throws
  /// InputError when slow: names a role that is not in `settings.roles`.
  void start(const Schedule& schedule, const RunSettings& settings);

  /// Agents are numbered from 0 in the order of these calls, at any time of a run.
  uint32_t add_agent(const AgentInfo& info);
  uint32_t num_agents() const { return static_cast<uint32_t>(agents_.size()); }

  /// `agent` may run from now on; it must not be queued. `time` is its virtual time.
  void runnable(uint32_t agent, uint64_t time = 0);
  bool is_runnable(uint32_t agent) const { return queue_.contains(agent); }
  /// No agent is runnable.
  bool empty() const { return queue_.empty(); }
  size_t num_runnable() const { return queue_.size(); }

  /// Takes out the agent that runs next; one must be runnable. Throws InputError when a deviation
  /// of a replay names an agent that cannot run now: the replay does not fit this case.
  uint32_t next();

  /// A guess at the agent that runs `ahead` (0 or 1) choices from now; RunQueue::kNoAgent: none.
  uint32_t likely_next(uint32_t ahead) const { return queue_.likely_next(ahead); }

  /// Whether agents must ask continues() at their visible operations.
  bool preempts() const { return preempts_; }
  /// The running `agent` could go on, at `time`: true when it is chosen to. False: it has been
  /// queued, and must give way to next(). Always true where not preempts(). Never throws.
  bool continues(uint32_t agent, uint64_t time = 0);

  /// Whether the order of lanes is drawn by random() (random, pct, step:SEED) or ascending.
  bool shuffles_lanes() const { return schedule_.seeded; }
  /// The agent's next random number.
  uint64_t random(uint32_t agent);

  uint64_t choices() const { return choices_; }
  /// XXH3 128-bit of the agent numbers (u32, little-endian) in the order chosen; 32 hex digits.
  std::string digest() const;

  const Schedule& schedule() const { return schedule_; }
  /// A string that repeats this run: the schedule that was given, as a text.
  std::string schedule_string() const { return to_string(schedule_); }
  /// The run so far as deviations from fifo (from step where the policy preempts), which repeats
  /// it without the policy. Needs RunSettings::record.
  Schedule recorded() const;
  /// Deviations of a replay that lie beyond the choices made so far.
  size_t unused_deviations() const { return schedule_.deviations.size() - next_deviation_; }

 private:
  struct Agent {
    uint32_t role = 0;
    uint16_t rank = 0;
    bool landing = false;
    bool held = false;
    uint32_t times_queued = 0;
    uint32_t draws = 0;
  };
  struct Digest;

  uint64_t key_of(uint32_t agent, uint64_t time);
  uint64_t pct_key(uint32_t agent) const;
  void lower_priority(uint32_t agent);
  void advance(uint64_t key);
  bool wins(uint32_t agent, uint64_t key) const;
  bool forced() const;
  uint32_t ask_chooser(uint32_t running);
  void chosen(uint32_t agent, bool by_default);
  void enqueue(uint32_t agent, uint64_t key);

  Schedule schedule_;
  LandingOrder landing_ = LandingOrder::Late;
  bool preempts_ = false;
  bool record_ = false;
  Chooser* chooser_ = nullptr;
  uint32_t picked_ = Chooser::kNobody;  ///< by the chooser, to go next
  std::vector<uint32_t> candidates_;    ///< what the chooser is shown
  bool preempted_ = false;  ///< the last continues() was false, and next() is still to come
  uint32_t held_role_ = UINT32_MAX;
  std::vector<Agent> agents_;
  RunQueue queue_;
  uint64_t pushes_ = 0;
  uint64_t choices_ = 0;
  uint64_t random_now_ = 0;
  size_t next_deviation_ = 0;

  std::vector<uint64_t> change_points_;  ///< Pct: choice numbers, ascending
  size_t next_change_ = 0;
  std::vector<uint64_t> lowered_;  ///< Pct: key by (role, rank) group, 0: as drawn

  RunQueue shadow_;  ///< Record: what fifo or step would have queued
  std::vector<Deviation> recorded_;
  std::unique_ptr<Digest> digest_;
};

}  // namespace moetwin
