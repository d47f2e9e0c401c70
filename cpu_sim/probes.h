// What looks into a simulated run from outside: an observer that is told every synchronising
// operation, and a chooser that decides in place of the schedule's policy. Both are optional and
// neither changes what an operation does. Exploration, coverage and directed search stand on them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "common/step.h"

namespace moetwin {

/// What a synchronising operation did to its object.
enum class SyncOp : uint8_t {
  Read,         ///< plain load of a word that outlives the launch or is zero between launches
  Write,        ///< plain store to such a word; initialisation of an mbarrier
  Add,          ///< atomic add whose old value nobody takes
  Fetch,        ///< atomic add whose old value is used
  WaitAtLeast,  ///< a wait on a word ended; more additions would not have changed that
  WaitFlip,     ///< a wait for the top bit of a word ended; likewise
  WaitEqual,    ///< a wait on a word ended that a further addition would have kept from ending
  Arrive,       ///< arrival, announced or landed bytes at an mbarrier; arrival at a named barrier
  WaitPhase,    ///< a wait on an mbarrier ended; a whole further phase would have hidden it
  WaitRound,    ///< a wait at a named barrier ended; the hardware lets nobody miss its round
  Issue,        ///< an asynchronous copy begins
  Land,         ///< it has landed
  WaitCopies,   ///< a wait for the issuer's copies ended
};

/// When something happened.
struct Moment {
  uint64_t launch = 0;  ///< that the agent's rank is in
  uint64_t event = 0;   ///< control events of the run so far
  uint64_t time = 0;    ///< virtual nanoseconds of the agent; only the timed schedule keeps to them
};

/// One operation, told after it took effect. Objects are numbered by sync_object_*().
struct Observation {
  uint32_t agent = 0;  ///< as the scheduler counts; landings have numbers of their own
  Step step = Step::None;
  SyncOp op = SyncOp::Read;
  uint64_t object = 0;
  /// Words: the value afterwards, waits: the value compared with. Barriers: the phase.
  uint64_t number = 0;
  bool completes = false;  ///< Arrive: its phase ended with it
  Moment at;
};

class SyncObserver {
 public:
  virtual ~SyncObserver() = default;
  virtual void on_sync(const Observation& event) = 0;
};

enum class DataOp : uint8_t {
  Load,   ///< of a word
  Store,  ///< of a word or row; of a TaskEntry too
  Issue,  ///< a bulk copy begins
  Land,   ///< it has landed
};

/// One access to data. Places are packed global addresses (those of a tile's first row), for a
/// TaskEntry its sync_object_shared(). Copies of weights are not told.
struct DataEvent {
  uint32_t agent = 0;  ///< of a copy: its issuer
  Step step = Step::None;
  DataOp op = DataOp::Load;
  uint64_t place = 0;
  const void* value = nullptr;  ///< Store of a word or TaskEntry: what is stored, for this call
  Moment at;
};

class DataObserver {
 public:
  virtual ~DataObserver() = default;
  virtual void on_data(const DataEvent& event) = 0;
};

/// Picks the agent that goes on at each choice.
class Chooser {
 public:
  virtual ~Chooser() = default;
  static constexpr uint32_t kNobody = UINT32_MAX;
  /// `runnable` is not empty: the agents that can go on, in the order in which they became so
  /// (landings last); `running` is the first of them where it was not blocked, else kNobody.
  /// Returns one of `runnable`.
  virtual uint32_t choose(std::span<const uint32_t> runnable, uint32_t running) = 0;
};

struct KernelArgs;
struct Problem;
struct Timeline;
class SimulationPool;

struct Probes {
  SyncObserver* observer = nullptr;
  Chooser* chooser = nullptr;
  /// Most events of the run; one that goes on is stopped with a finding of class deadlock. A broken
  /// program may run for ever without waiting.
  uint64_t max_events = UINT64_MAX;
  /// Changes what the kernel is started with, once a launch, before memory is laid out; may be
  /// empty. For planted faults.
  std::function<void(Problem& problem, KernelArgs& args)> alter = {};
  DataObserver* data = nullptr;
  Timeline* timeline = nullptr;  ///< filled at the end of the run, however it ends
  /// Memory and stacks of earlier runs of this thread; null: the run's own.
  SimulationPool* pool = nullptr;
};

// Objects: words of global memory by their packed address, everything else above all addresses
// (a packed address begins with a rank below 128).
constexpr uint64_t kBarrierObjects = uint64_t{0x80} << 56;
constexpr uint64_t kNamedObjects = uint64_t{0x90} << 56;
constexpr uint64_t kSharedObjects = uint64_t{0xA0} << 56;
constexpr uint64_t kCopyObjects = uint64_t{0xB0} << 56;

constexpr uint64_t sync_object_mbarrier(uint32_t cta, uint32_t bar) {
  return kBarrierObjects | uint64_t{cta} << 16 | bar;
}
constexpr uint64_t sync_object_named(uint32_t cta, uint32_t bar) {
  return kNamedObjects | uint64_t{cta} << 16 | bar;
}
constexpr uint64_t sync_object_shared(uint32_t cta, uint32_t offset) {
  return kSharedObjects | uint64_t{cta} << 32 | offset;
}
constexpr uint64_t sync_object_copies(uint32_t issuer) { return kCopyObjects | issuer; }

}  // namespace moetwin
