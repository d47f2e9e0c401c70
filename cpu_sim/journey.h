// The journeys of routed slots through one launch: who counted, claimed, wrote, pulled, multiplied,
// scattered and summed each of them, and when. A recorder looks into a simulated run (probes.h) and
// changes nothing; journeys of a run that stopped end where it stopped. It knows no words.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/machine.h"
#include "cpu_sim/agent_numbers.h"
#include "cpu_sim/probes.h"
#include "model/problem.h"

namespace moetwin {

/// One thing that was done: by whom, at which step, when.
struct Sighting {
  bool seen = false;
  Step step = Step::None;
  AgentPlace agent;
  uint64_t event = 0;  ///< control events of the run up to there
  uint64_t time = 0;   ///< virtual nanoseconds
};

/// A tile's work on the 64 rows that hold a slot's row.
struct TileJourney {
  Sighting claimed;  ///< by load A
  Sighting begun;    ///< by the math warpgroup
  Sighting done;     ///< Linear1: published; Linear2: the row is scattered
};

/// Where a slot's row lies in the pool of its expert's rank.
struct PoolRowPlace {
  uint32_t row = 0;  ///< logical
  uint32_t block = 0;
  RingSlot ring{};
};

struct SlotJourney {
  uint32_t rank = 0;  ///< of the token
  uint32_t token = 0;
  uint32_t k = 0;
  uint32_t expert = 0;  ///< global id
  float weight = 0;

  Sighting counted;
  Sighting claimed;
  uint32_t first_slot = 0;     ///< of the range that the token's SM claimed on the expert
  uint32_t claimed_slots = 0;  ///< its length
  Sighting written;
  uint32_t slot = 0;   ///< in [local expert][source rank]; known once written
  PoolRowPlace place;  ///< by the round-robin rule; known once written
  Sighting found;      ///< the pull looks the slot up
  Sighting ring_free;  ///< the ring slot's earlier block has been read; only from the second lap on
  Sighting stored;     ///< the row's last codes have landed in the ring
  Sighting recorded;   ///< its TokenSrcMetadata is written
  uint32_t recorded_row = 0;  ///< where: the same as place.row in a right program
  Sighting published;
  uint32_t x_full = 0;               ///< of its ring slot, with this row
  std::vector<TileJourney> linear1;  ///< [n1]
  std::vector<TileJourney> linear2;  ///< [n2]
  Sighting loaded;  ///< a math warpgroup of the token's rank loads the row to combine it
  Sighting summed;  ///< y of the token is written
};

/// Which slots to follow: those for which every given number fits.
struct JourneyFilter {
  static constexpr uint32_t kAny = UINT32_MAX;
  uint32_t rank = kAny;  ///< of the token
  uint32_t token = kAny;
  uint32_t expert = kAny;     ///< global id
  uint32_t pool_rank = kAny;  ///< the expert's
  uint32_t row = kAny;        ///< logical, on pool_rank
  uint32_t block = kAny;      ///< of the pool of pool_rank
};

class JourneyRecorder : public SyncObserver, public DataObserver {
 public:
  /// Follows slots through launch `launch` of a case, whose problem and arguments are given.
  JourneyRecorder(const Problem& problem, const KernelArgs& args, uint64_t launch,
                  const JourneyFilter& filter);

  void on_sync(const Observation& event) override;
  void on_data(const DataEvent& event) override;

  /// The journeys that pass the filter, by rank, token, k. Rows and blocks of slots whose index was
  /// never written are unknown: such slots pass a filter for rows or blocks if their expert does.
  std::vector<SlotJourney> journeys() const;

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Range {
    uint32_t first;
    uint32_t slots;
    Sighting by;
  };
  struct Task {
    TaskEntry entry;
    Sighting claimed;
  };
  struct TileWork {
    TaskEntry task{};
    Sighting claimed;
    std::vector<Sighting> begun;  ///< [math warpgroups]
    std::vector<Sighting> done;
  };
  struct AgentState {
    size_t pulling = kNone;  ///< journey of the row it pulls
    size_t tasks_taken = 0;  ///< math
  };

  bool wanted(uint32_t rank, uint32_t token, uint32_t expert) const;
  void count_rows(const Problem& problem);
  uint32_t rows_of(uint32_t expert) const;
  void choose_slots(const Problem& problem);
  Sighting sight(uint32_t agent, Step step, const Moment& at) const;
  size_t journey_of(uint32_t rank, uint64_t flat) const;
  void on_load(const DataEvent& event, const Sighting& seen);
  void on_store(const DataEvent& event, const Sighting& seen);
  void written(const DataEvent& event, const Sighting& seen);
  void published_task(const DataEvent& event, const Sighting& seen);
  void scattered(uint64_t place, const Sighting& seen);
  void claimed(const Observation& event);
  const Task* current_task(uint32_t agent) const;
  uint64_t task_key(TileKind kind, uint32_t block, uint32_t n, uint32_t slice) const;
  TileWork& work_of(uint32_t rank, const TaskEntry& task);
  PoolRowPlace place_of(uint32_t expert, uint32_t source, uint32_t slot) const;
  bool fits_row(const SlotJourney& journey) const;
  void add_tiles(SlotJourney& journey) const;

  Shape shape_;
  KernelPlan plan_;
  uint64_t launch_;
  JourneyFilter filter_;
  std::vector<SlotJourney> journeys_;
  std::unordered_map<uint64_t, size_t> by_flat_;   ///< rank << 32 | token * K + k
  std::unordered_map<uint64_t, size_t> by_place_;  ///< rank << 56 | place in its slot table
  std::vector<uint32_t> counts_;                   ///< [E][R] rows a source rank sends
  std::vector<uint32_t> first_block_;              ///< [E] of the pool of the expert's rank
  std::vector<bool> followed_;                     ///< [E] some slot of it is followed
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> claimed_so_far_;  ///< (rank, expert)
  std::map<std::pair<uint32_t, uint32_t>, Range> ranges_;             ///< (CTA, expert)
  std::vector<std::vector<Task>> tasks_;                              ///< [CTAs]
  std::vector<AgentState> agents_;
  std::map<std::pair<uint32_t, uint64_t>, TileWork> tiles_;  ///< (rank, block and n of either kind)
};

}  // namespace moetwin
