// The race checker: decides by vector clocks whether conflicting accesses of simulated threads and
// asynchronous operations are ordered, over which scopes, and with the proxy fences they need. The
// simulated machine tells it what happens; docs/checker.md has the rules. It owns no memory, wakes
// nobody and knows no role: agents, barriers and regions are numbers, steps come from the caller.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <unordered_map>
#include <vector>

#include "cpu_sim/race_access.h"
#include "cpu_sim/race_clocks.h"
#include "cpu_sim/race_log.h"
#include "cpu_sim/race_places.h"
#include "cpu_sim/race_shadow.h"
#include "model/run.h"

namespace moetwin {

/// A piece of shared memory or a region of a rank's global memory.
struct RacePiece {
  uint64_t begin;
  uint64_t bytes;
  ShadowShape shape;
};

/// What exists. CTAs are numbered rank by rank, agents CTA by CTA; behind them comes one more agent
/// a rank, the host, which writes a launch's inputs.
struct RaceTopology {
  uint32_t ranks = 1;
  uint32_t sms = 1;                ///< CTAs of a rank
  std::vector<uint32_t> warps;     ///< of each agent of a CTA
  uint32_t mbarriers = 0;          ///< of a CTA
  uint32_t mbarrier_offset = 0;    ///< of the first in shared memory, 8 bytes each
  uint32_t named_barriers = 0;     ///< of a CTA
  std::vector<RacePiece> shared;   ///< ascending
  std::vector<RacePiece> regions;  ///< of a rank; begin is not used

  uint32_t num_ctas() const { return ranks * sms; }
  uint32_t agents_per_cta() const { return static_cast<uint32_t>(warps.size()); }
  uint32_t num_agents() const { return num_ctas() * agents_per_cta(); }
  uint32_t host_of(uint32_t rank) const { return num_agents() + rank; }
  bool is_host(uint32_t agent) const { return agent >= num_agents(); }
  uint32_t rank_of(uint32_t agent) const {
    return is_host(agent) ? agent - num_agents() : agent / agents_per_cta() / sms;
  }
  /// The agent's CTA; a host counts as one of its own.
  uint32_t cta_of(uint32_t agent) const {
    return is_host(agent) ? num_ctas() + agent - num_agents() : agent / agents_per_cta();
  }
};

/// Whether what an agent does at `scope` is meant for the other one too.
bool scope_includes(const RaceTopology& topology, Scope scope, uint32_t agent, uint32_t other);

/// Rows of bytes: of a CTA's shared memory, or of a region of a rank.
struct RaceRange {
  RaceSpace space = RaceSpace::Shared;
  uint32_t owner = 0;  ///< CTA or rank
  uint32_t region = 0;
  uint64_t offset = 0;
  uint64_t row_bytes = 0;
  uint32_t rows = 1;
  uint64_t pitch = 0;
};

/// What, tried on the run's own synchronisation, would have ordered the two accesses.
struct Remedy {
  enum class Kind : uint8_t {
    None,            ///< no single change tried does
    WiderScope,      ///< scope sys at `step`
    Stronger,        ///< release or acquire at `step`
    EveryLane,       ///< the fence at `step` by every lane
    FenceEarlier,    ///< the fence at `step` before `other`
    FenceBefore,     ///< a fence before `step`
    Together,        ///< the first side's warps meeting before `step`
    AccessEarlier,   ///< the first access before `step`
    FirstWaits,      ///< the first side waiting for its asynchronous operation before `step`
    SecondWaits,     ///< the second side waiting for its CTA's mbarrier `object`, at which the
                     ///< arrival, if any, was `step`
    SecondAcquires,  ///< the second side acquiring the word released at `step`
  };
  Kind kind = Kind::None;
  Step step = Step::None;
  Step other = Step::None;
  uint32_t object = 0;
};

struct RaceFinding {
  FindingClass kind = FindingClass::Race;  ///< Race, Scope or Proxy
  RaceSite first;                          ///< came first in this run
  RaceSite second;
  RaceRange place;       ///< the bytes in common within one granule, from the first of them
  bool pending = false;  ///< the first is asynchronous and nobody has waited for its end
  bool leaving = false;  ///< the second is the host, to whom the memory returns with the launch
  Remedy remedy;
};

class RaceDetector {
 public:
  using Sink = std::function<void(const RaceFinding&)>;

  RaceDetector(RaceTopology topology, Sink sink);

  const RaceTopology& topology() const { return topology_; }

  // Accesses by threads of an agent.

  class WarpAccesses;
  void access(const RaceSite& site, const RaceRange& range) {
    touch(site, agents_[site.agent].epoch, range);
  }
  /// An atomic add on the word at `range`. Releases unless `order` is relaxed; acquires if it says
  /// so. Adds on a word are one chain: whoever reads the last acquires the releases of all.
  void atomic_add(uint32_t agent, Who who, Order order, Scope scope, Step step,
                  const RaceRange& range);
  /// The agent has read what it waited for.
  void word_wait(uint32_t agent, Who who, Order order, Scope scope, Step step,
                 const RaceRange& range);
  /// A plain store; on a word it ends the chain of adds.
  void plain_store(const RaceSite& site, const RaceRange& range);

  // Threads of one agent.

  void fence(uint32_t agent, FenceSpace space, bool first_lane_only, Step step);
  void warps_together(uint32_t agent);
  void agent_together(uint32_t agent, Step step);

  // Barriers of the agent's CTA.

  void named_arrive(uint32_t agent, uint32_t barrier, Step step);
  /// The round ends; `leaving` are the CTA's agents that waited for it, as bits.
  void named_complete(uint32_t cta, uint32_t barrier, uint32_t leaving, Step step);
  void mbarrier_init(uint32_t agent, uint32_t barrier, Step step);
  void mbarrier_arrive(uint32_t agent, uint32_t barrier, bool each_warp, Step step);
  void mbarrier_phase(uint32_t cta, uint32_t barrier);
  void mbarrier_seen(uint32_t agent, uint32_t barrier, Step step);

  // Asynchronous operations. The number returned names the operation.

  uint32_t load(uint32_t agent, Step step, const RaceRange* from, const RaceRange& to,
                uint32_t barrier);
  void landed(uint32_t operation);
  void store(uint32_t agent, Step step, const RaceRange& from, const RaceRange& to);
  void commit(uint32_t agent);
  /// The agent's first lane has waited for its committed stores.
  void stores_waited(uint32_t agent, BulkDone done);
  uint32_t mma(uint32_t agent, Step step, const RaceRange& a, const RaceRange& b);
  void retired(uint32_t operation, uint32_t agent);

  // Launches.

  /// Everything the rank did is ordered before what its agents do from now on.
  void start_launch(uint32_t rank);
  /// All its agents have left: what other ranks have done to its memory in this launch must be
  /// ordered before that, because its host may free the memory or use it anew.
  void end_launch(uint32_t rank);

  /// Hints that an agent will be heard of soon.
  void prefetch(uint32_t agent) const { agents_[agent].known.prefetch_home(); }
  /// Hints that a range will be touched soon.
  void prefetch(const RaceRange& range);

 private:
  friend class RaceExplainer;

  /// Epochs of an agent's fences: of its first lane, of all lanes as they did it, and how much of
  /// that the first lane knows by having met its warp and the agent's other warps.
  struct Fences {
    uint32_t first_lane = 0;
    uint32_t all_lanes = 0;
    uint32_t warp = 0;
    uint32_t agent = 0;
  };
  struct OpenStore {
    uint32_t operation;
    bool committed;
  };
  struct Word;
  struct AgentState {
    AgentState(ClockSpace& space, uint32_t cta) : known(space, cta), row(cta) {}
    VectorClock known;  ///< of others
    uint32_t row;       ///< where clocks hold what is known of it
    uint32_t place = 0;
    uint32_t epoch = 1;
    uint32_t together = 0;  ///< the epoch when its warps last met
    uint32_t launch = 0;    ///< how many it has started
    uint32_t launched = 0;  ///< the epoch when the last one started
    Fences fences[2];       ///< by RaceSpace
    std::vector<OpenStore> stores;
    // The last word it acquired, which it need not acquire again as it was.
    const Word* acquired = nullptr;
    uint32_t acquired_version = 0;
    Scope acquired_scope = Scope::Cta;
    /// Writes to units of global memory that are known to be ordered before the agent's bulk
    /// copies, by unit. The next columns of the same rows bear the same.
    std::vector<UnitWrite> ordered;
  };
  struct Operation {
    uint32_t barrier = 0;  ///< of all CTAs
    uint32_t issued = 0;   ///< the agent's epoch
  };
  /// An access on its way through the ranges and granules that it touches, while nothing
  /// synchronises.
  struct Touch {
    RaceSite site;
    RaceSpace space;
    uint32_t epoch;
    uint32_t source;
    bool write;
    bool atomic;
    bool async;
    AgentState* agent;
    ClockView known;                   ///< of the agent
    const RaceRange* range = nullptr;  ///< where it is
  };
  struct Barrier {
    Barrier(ClockSpace& space, uint32_t cta) : pending(space, cta), complete(space, cta) {}
    VectorClock pending;   ///< what the arrivals of the current phase know
    VectorClock complete;  ///< what those of the last one knew
    uint32_t phases = 0;   ///< since the first launch
    /// Agents of the CTA whose copies are known to be behind its init, as bits.
    uint32_t loaders = 0;
  };
  /// The last arrival, or wait, of one agent at one mbarrier. The first one is checked against the
  /// barrier's init; later ones are only remembered here, until anything else touches its bytes.
  struct BarrierUse {
    uint32_t epoch = 0;
    Step step = Step::None;
    Who who;  ///< nobody: none
  };
  struct Release {
    Scope scope;
    uint32_t agent;  ///< one that released at this scope
    bool one_cta;
    VectorClock clock;
  };
  struct Word {
    std::vector<Release> releases;
    uint32_t version = 1;  ///< changes with the releases
  };
  enum class Relation : uint8_t { Ordered, Unfenced, Unordered };

  static void next_epoch(AgentState& state);
  /// What all of the rank's agents and its host know and have done.
  VectorClock knowledge_of_rank(uint32_t rank);
  std::vector<uint32_t> agents_of_rank(uint32_t rank) const;
  uint32_t new_operation(uint32_t agent, uint32_t barrier);
  ShadowArea& area(const RaceRange& range, uint64_t& offset);
  ShadowArea& region_area(uint32_t rank, uint32_t region) {
    return regions_[size_t{rank} * topology_.regions.size() + region];
  }
  /// The number of an access's source. `barrier`: of the CTA, on which a load completes.
  uint32_t source_of(const RaceSite& site, uint32_t barrier);
  Touch begin_touch(const RaceSite& site, uint32_t epoch, RaceSpace space, uint32_t barrier);
  void touch_range(Touch& touch, const RaceRange& range);
  void touch_area(Touch& touch, const RaceRange& range, ShadowArea& shadow, uint64_t offset);
  void touch(const RaceSite& site, uint32_t epoch, const RaceRange& range, uint32_t barrier = 0);
  /// A plain store has hit a word that was added to.
  void end_chain(const RaceSite& site, const RaceRange& range);
  RaceRange mbarrier_bytes(uint32_t agent, uint32_t barrier) const {
    return {RaceSpace::Shared, topology_.cta_of(agent), 0,
            topology_.mbarrier_offset + uint64_t{8} * barrier, 8};
  }
  BarrierUse& barrier_use(uint32_t agent, bool waits, uint32_t barrier) {
    return uses_[(size_t{agent} * 2 + (waits ? 1 : 0)) * topology_.mbarriers + barrier];
  }
  void use_barrier(const RaceSite& site, uint32_t barrier);
  /// Remembers all uses of the CTA's mbarriers in the shadow; the next ones are checked again.
  [[gnu::noinline]] void settle_barrier_uses(uint32_t cta);
  bool touches_barriers(const RaceRange& range) const {
    return range.space == RaceSpace::Shared &&
           range.offset + range.row_bytes > topology_.mbarrier_offset &&
           range.offset < topology_.mbarrier_offset + uint64_t{8} * topology_.mbarriers;
  }
  /// The copy engine will count on a barrier: its init must be known, fence included.
  void check_initialised(const RaceSite& site, uint32_t barrier);
  bool read_again(const Touch& touch, Granule& granule, uint64_t mask, bool& known) const;
  void touch_one(const Touch& touch, const ShadowPlace& place, uint64_t mask);
  Record* read_over(const Touch& touch, Granule& granule, uint64_t number, uint64_t mask,
                    bool known);
  Record* write_over(const Touch& touch, Granule& granule, uint64_t number, uint64_t mask);
  void check_unit_writes(const Touch& touch, const UnitWrite* writes, uint64_t number,
                         uint64_t mask);
  void check_columns(const Touch& touch, const UnitWrite* writes, uint64_t number, uint64_t mask);
  /// Whether the access is ordered behind an earlier one, fences included. False may also mean that
  /// relation_of() has to tell.
  bool plainly_ordered(const Touch& touch, uint32_t epoch, uint32_t source) const;
  [[gnu::cold]] void check_order(const Touch& touch, const Record& first, uint64_t granule);
  bool atomics_conflict(const Touch& touch, uint32_t source) const;
  Relation relation_of(uint32_t epoch, uint32_t source, const RaceSite& second,
                       RaceSpace space) const;
  bool knows_own(const RaceSite& site, Who whose, uint32_t epoch) const;
  bool knows_fence(const RaceSite& site, uint32_t agent, Who whose, uint32_t epoch,
                   RaceSpace space) const;
  /// Of the first access the mask is not looked at.
  void found(Relation relation, const Record& first, const RaceSite& second,
             const RaceRange& place);
  /// What the agent's release, or the arrival of each of its warps, makes known.
  void publish(VectorClock& to, uint32_t agent, bool each_warp);
  Word& word_of(const RaceRange& range, uint32_t& number);
  void acquire(uint32_t agent, const Word& word, Scope scope);
  void log(SyncKind kind, uint32_t agent, uint32_t object, Step step, Scope scope = Scope::Cta,
           uint8_t detail = 0);
  Barrier& barrier(uint32_t cta, uint32_t number) {
    return barriers_[size_t{cta} * topology_.mbarriers + number];
  }

  RaceTopology topology_;
  Sink sink_;
  ClockSpace space_;
  std::vector<AgentState> agents_;
  std::vector<Barrier> barriers_;   ///< [cta][mbarrier]
  std::vector<BarrierUse> uses_;    ///< [cta][agent][arrives, waits][mbarrier]
  std::vector<bool> used_;          ///< [cta]: some of its uses are remembered
  std::vector<VectorClock> named_;  ///< [cta][named barrier]: what this round's arrivals know
  std::vector<Operation> operations_;
  /// Of each operation: the agent's epoch, or for a load the mbarrier's phases; 0: pending.
  std::vector<uint32_t> done_;
  std::unordered_map<uint64_t, uint32_t> word_numbers_;
  std::deque<Word> words_;
  SourceTable sources_;
  RecordPool pool_;
  std::vector<uint64_t> piece_begins_;
  std::vector<ShadowArea> shared_;   ///< [cta][piece]
  std::vector<ShadowArea> regions_;  ///< [rank][region]
  SyncLog log_;
  std::set<uint64_t> found_;  ///< kinds and steps of findings, each told once
  bool chain_ended_ = false;  ///< the last plain store hit a word that was added to
};

[[gnu::always_inline]] inline bool RaceDetector::plainly_ordered(const Touch& touch, uint32_t epoch,
                                                                 uint32_t source) const {
  const SourceTable::Place place = sources_.place_of(source);
  const ClockPlace agent = sources_.source_agent(source).clock;
  const bool async = is_async(place.kind);
  if (async) {
    epoch = done_[epoch];
    if (epoch == 0) return false;
  } else if (touch.async) {
    if (SourceTable::same_agent(source, touch.source)) return false;
    const uint32_t fence = agent.place + fence_place(place.who, touch.space);
    if (touch.known.at(agent.row, fence) < epoch) return false;
  }
  if (SourceTable::same_agent(source, touch.source) && place.load == 0)
    return (place.who.warps() == touch.site.who.warps() && place.who.one_warp()) ||
           epoch <= touch.agent->together ||
           epoch <= touch.known.at(agent.row, agent.place + kOrderAgent);
  return touch.known.at(agent.row, (place.load != 0 ? 0 : agent.place) + place.clock) >= epoch;
}

/// Plain accesses of one kind and step by an agent's warps, prepared once for many of them.
/// Nothing may synchronise as long as it is used.
class RaceDetector::WarpAccesses {
 public:
  WarpAccesses(RaceDetector& detector, uint32_t agent, AccessKind kind, Step step, RaceSpace space);
  /// By lanes of the agent's warp `warp`, not by its first lane alone. As access() and
  /// plain_store() do.
  void touch(uint32_t warp, const RaceRange& range);

 private:
  RaceDetector& detector_;
  Touch touch_;
  std::array<uint32_t, 4> sources_{};  ///< by warp; 0: not yet looked up
};

}  // namespace moetwin
