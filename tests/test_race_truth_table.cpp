// A producer-consumer kernel in which every fence, barrier, order and scope is a boolean: the
// verdict of the race checker must be an expression over them, for all combinations.
//
//   producer (rank 0)   its warps write a tile, [fence], [meet]; the first lane stores it in bulk,
//                       [waits until it is written], adds to the flag [release] [sys]
//   loader (rank 1)     waits for the flag [acquire] [sys], loads the tile into its stage
//   reader (rank 1)     [waits for the stage], reads it, [fence], [arrives: the stage is free]
//   loader              [waits for the free stage], loads it again
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "cpu_sim/race_detector.h"

using namespace moetwin;

namespace {

struct Knobs {
  bool fence;        ///< the producer's lanes fence their writes
  bool fence_first;  ///< ... before they meet, not behind it
  bool together;     ///< the producer's warps meet before the first lane stores
  bool written;      ///< the store is waited for before the flag is raised
  bool release;
  bool release_sys;
  bool acquire;
  bool acquire_sys;
  bool full;  ///< the reader waits for the stage
  bool reader_fence;
  bool fence_behind;  ///< the reader's fence stands behind its arrive
  bool empty_arrive;
  bool empty_wait;
};
constexpr uint32_t kKnobs = 13;

Knobs knobs_of(uint32_t bits) {
  uint32_t i = 0;
  const auto next = [&] { return (bits >> i++ & 1) != 0; };
  Knobs k{};
  for (bool* knob :
       {&k.fence, &k.fence_first, &k.together, &k.written, &k.release, &k.release_sys, &k.acquire,
        &k.acquire_sys, &k.full, &k.reader_fence, &k.fence_behind, &k.empty_arrive, &k.empty_wait})
    *knob = next();
  return k;
}

constexpr uint32_t kFull = 0;
constexpr uint32_t kEmpty = 1;
constexpr uint64_t kTile = 1024;

/// Two ranks of one CTA; its agents: a warpgroup and two warps.
RaceTopology topology() {
  RaceTopology t;
  t.ranks = 2;
  t.warps = {4, 1, 1};
  t.mbarriers = 2;
  t.named_barriers = 1;
  t.mbarrier_offset = 2048;
  t.shared = {{0, 2048, {16}}, {2048, 64, {8, 1}}};
  t.regions = {{0, 4096, {16, 16}}, {0, 64, {4, 1}}};
  return t;
}

/// Findings by the step of their second side; a race hides the others there.
using Verdict = std::map<Step, FindingClass>;

class Kernel {
 public:
  Kernel() : detector_(topology(), [this](const RaceFinding& f) { found(f); }) {
    detector_.start_launch(0);
    detector_.start_launch(1);
  }

  Verdict run(const Knobs& k) {
    produce(k);
    load(k, Step::PullLoad);
    read(k);
    if (k.empty_wait && k.empty_arrive)
      detector_.mbarrier_seen(kLoader, kEmpty, Step::LoadAWaitsForStage);
    load_stage(Step::LoadATile);
    return verdict_;
  }

 private:
  static constexpr uint32_t kProducer = 0;
  static constexpr uint32_t kLoader = 4;
  static constexpr uint32_t kReader = 5;

  static RaceRange shared(uint32_t cta) { return {RaceSpace::Shared, cta, 0, 0, kTile}; }
  static RaceRange tile() { return {RaceSpace::Global, 1, 0, 0, kTile}; }
  static RaceRange flag() { return {RaceSpace::Global, 1, 1, 0, 4}; }

  void found(const RaceFinding& finding) {
    const auto [place, first] = verdict_.try_emplace(finding.second.step, finding.kind);
    if (!first && finding.kind == FindingClass::Race) place->second = finding.kind;
  }

  void produce(const Knobs& k) {
    for (uint32_t warp = 0; warp < 4; ++warp)
      detector_.access({kProducer, AccessKind::Write, warp_of(warp), Step::Linear1Epilogue},
                       {RaceSpace::Shared, 0, 0, warp * kTile / 4, kTile / 4});
    if (k.fence && k.fence_first)
      detector_.fence(kProducer, FenceSpace::Both, false, Step::Linear1Fence);
    if (k.together) detector_.agent_together(kProducer, Step::Linear1Together);
    if (k.fence && !k.fence_first)
      detector_.fence(kProducer, FenceSpace::Both, false, Step::Linear1Fence);
    detector_.store(kProducer, Step::Linear1Store, shared(0), tile());
    detector_.commit(kProducer);
    if (k.written) detector_.stores_waited(kProducer, BulkDone::Written);
    detector_.atomic_add(kProducer, kFirstLane, k.release ? Order::Release : Order::Relaxed,
                         k.release_sys ? Scope::Sys : Scope::Gpu, Step::Linear1Publish, flag());
  }

  void load(const Knobs& k, Step step) {
    detector_.word_wait(kLoader, all_warps(1), k.acquire ? Order::Acquire : Order::Relaxed,
                        k.acquire_sys ? Scope::Sys : Scope::Gpu, Step::LoadAWaitsForRows, flag());
    load_stage(step);
  }

  void load_stage(Step step) {
    detector_.mbarrier_arrive(kLoader, kFull, false, Step::LoadAExpect);
    const RaceRange from = tile();
    detector_.landed(detector_.load(kLoader, step, &from, shared(1), kFull));
    detector_.mbarrier_phase(1, kFull);
  }

  void read(const Knobs& k) {
    if (k.full) detector_.mbarrier_seen(kReader, kFull, Step::MathWaitsForStage);
    detector_.access({kReader, AccessKind::Read, all_warps(1), Step::MathReadScales}, shared(1));
    const auto fence = [&] {
      if (k.reader_fence) detector_.fence(kReader, FenceSpace::Shared, false, Step::MathFence);
    };
    if (!k.fence_behind) fence();
    if (k.empty_arrive) {
      detector_.mbarrier_arrive(kReader, kEmpty, true, Step::MathReleaseStage);
      detector_.mbarrier_phase(1, kEmpty);
    }
    if (k.fence_behind) fence();
  }

  Verdict verdict_;
  RaceDetector detector_;
};

Verdict expected(const Knobs& k) {
  Verdict v;
  if (!k.together)
    v[Step::Linear1Store] = FindingClass::Race;
  else if (!k.fence || !k.fence_first)
    v[Step::Linear1Store] = FindingClass::Proxy;
  if (!k.release_sys || !k.acquire_sys) v[Step::LoadAWaitsForRows] = FindingClass::Scope;
  if (!k.written || !k.release || !k.acquire)
    v[Step::PullLoad] = FindingClass::Race;
  else if (!k.release_sys || !k.acquire_sys)
    v[Step::PullLoad] = FindingClass::Scope;
  if (!k.full) v[Step::MathReadScales] = FindingClass::Race;
  // Only the reader's arrive tells the loader anything, of its read as of the first load's end.
  const bool freed = k.empty_arrive && k.empty_wait;
  if (!freed || !k.full)
    v[Step::LoadATile] = FindingClass::Race;
  else if (!k.reader_fence || k.fence_behind)
    v[Step::LoadATile] = FindingClass::Proxy;
  return v;
}

std::string words(const Verdict& verdict) {
  std::string text;
  for (const auto& [step, kind] : verdict)
    text += std::string(" ") + finding_class_name(kind) + " at " + step_name(step) + ";";
  return text.empty() ? " nothing" : text;
}

}  // namespace

TEST_CASE("race_truth_table: each fence, barrier, order and scope counts exactly where it stands") {
  uint32_t clean = 0;
  for (uint32_t bits = 0; bits < 1u << kKnobs; ++bits) {
    const Knobs k = knobs_of(bits);
    Verdict got = Kernel().run(k);
    Verdict want = expected(k);
    // The stage's second load reads the tile too: its verdict there is the first load's, told once.
    if (want.count(Step::PullLoad) != 0) {
      want.erase(Step::LoadATile);
      got.erase(Step::LoadATile);
    }
    clean += want.empty();
    if (got != want) FAIL("combination ", bits, ": found", words(got), " expected", words(want));
  }
  CHECK(clean == 1);
}
