// What would have ordered two accesses: carries "knows of the first access" through the recorded
// synchronisation, with one thing changed at a time, and sees whether the second side comes to
// know. No clocks, so that it is also a second opinion on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu_sim/race_detector.h"

namespace moetwin {

class RaceExplainer {
 public:
  /// The second access is about to happen; `first` is in the shadow, with `epoch`.
  RaceExplainer(const RaceDetector& detector, const RaceSite& first, uint32_t epoch,
                const RaceSite& second, RaceSpace space);

  /// Whether they are ordered as things are, fences included where they are needed.
  bool ordered() const;
  bool ordered_by_wider_scopes() const;
  /// The first change that orders them; `unfenced`: ordered already, but for a proxy fence.
  Remedy remedy(bool unfenced) const;

 private:
  static constexpr size_t kNever = SIZE_MAX;

  /// How much somebody knows of the first access.
  struct Know {
    bool order = false;
    bool fence = false;
    void join(Know other) {
      order |= other.order;
      fence |= other.fence;
    }
  };
  /// What its own agent has done since the first access.
  struct Own {
    bool together = false;
    bool fenced = false;       ///< by the lanes that made it
    bool fence_warp = false;   ///< the first lane knows, by its warp
    bool fence_agent = false;  ///< by all its agent's warps
  };
  struct Released {
    uint32_t word;
    uint32_t agent;
    Scope scope;
    Know know;
    Step step;
  };
  struct World {
    std::vector<Know> agents;
    std::vector<Know> named;
    std::vector<Know> pending;
    std::vector<Know> complete;
    std::vector<Step> arrived;  ///< by mbarrier: the step of an arrival that knew
    std::vector<Released> released;
    Own own;
  };
  struct Change {
    Remedy::Kind kind = Remedy::Kind::None;
    Step step = Step::None;
    bool all_scopes = false;
    size_t start = kNever;  ///< event before which the first access stands; kNever: where it did
  };

  World run(const Change& change) const;
  void apply(World& world, const SyncEvent& event, const Change& change) const;
  void apply_own(World& world, const SyncEvent& event, const Change& change) const;
  void apply_word(World& world, const SyncEvent& event, const Change& change) const;
  void start_launch(World& world, uint32_t rank) const;
  Know publish(World& world, uint32_t agent, bool each_warp) const;
  bool ordered(const World& world) const;
  bool fenced(const World& world) const;
  bool tried(const Change& change, bool unfenced) const;

  Remedy order_remedy() const;
  Remedy fence_remedy() const;
  Remedy second_waits() const;
  /// Events of the first side's own agent from `from` on at which it makes something known.
  std::vector<size_t> publications(size_t from) const;
  std::vector<Step> steps_of(SyncKind a, SyncKind b) const;

  const RaceDetector& detector_;
  const RaceTopology& topology_;
  const SyncLog& events_;
  RaceSite first_;
  RaceSite second_;
  uint8_t space_bit_;
  bool load_;  ///< the first access ends with an mbarrier's phase
  bool needs_fence_;
  uint32_t barrier_ = 0;    ///< of a load
  uint32_t phases_ = 0;     ///< of the barrier, when it ends; 0: pending
  size_t issued_ = kNever;  ///< first own event behind the issue of an asynchronous access
  size_t start_ = kNever;   ///< first event behind the access
};

}  // namespace moetwin
