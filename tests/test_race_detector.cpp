// The race checker by itself, where the role programs seldom lead: bytes of mbarriers that are
// overwritten, reads told again, granules with many records, writes remembered unit by unit.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "cpu_sim/race_detector.h"
#include "model/counter_random.h"

using namespace moetwin;

namespace {

constexpr uint32_t kOne = 0;
constexpr uint32_t kOther = 1;
constexpr uint64_t kBarriers = 1024;
constexpr uint64_t kRegionBytes = 1024;

/// One rank of one CTA with two warps and two mbarriers.
class Detector {
 public:
  explicit Detector(ShadowShape region = {4, 1})
      : detector(topology(region), [this](const RaceFinding& f) { findings.push_back(f); }) {
    detector.start_launch(0);
  }

  static RaceRange bytes(uint64_t offset, uint64_t count) {
    return {RaceSpace::Shared, 0, 0, offset, count};
  }
  static RaceRange in_region(uint64_t offset, uint64_t count) {
    return {RaceSpace::Global, 0, 0, offset, count};
  }
  static RaceSite site(uint32_t agent, AccessKind kind, Step step) {
    return {agent, kind, kFirstLane, step};
  }
  /// `to` learns all that `from` knows.
  void hand_over(uint32_t from, uint32_t to) {
    detector.mbarrier_arrive(from, 1, true, Step::TaskPublish);
    detector.mbarrier_phase(0, 1);
    detector.mbarrier_seen(to, 1, Step::TaskWait);
  }
  /// A bulk load that lands at once, for whoever is handed over to next.
  void load_from(uint32_t agent, Step step, const RaceRange& from) {
    detector.landed(detector.load(agent, step, &from, bytes(0, from.row_bytes), 1));
  }

  std::vector<RaceFinding> findings;
  RaceDetector detector;

 private:
  static RaceTopology topology(ShadowShape region) {
    RaceTopology t;
    t.warps = {1, 1};
    t.mbarriers = 2;
    t.mbarrier_offset = kBarriers;
    t.named_barriers = 1;
    t.shared = {{0, kBarriers, {4}}, {kBarriers, 16, {8, 1}}};
    t.regions = {{0, kRegionBytes, region}};
    return t;
  }
};

}  // namespace

TEST_CASE("race_detector: a store over an mbarrier races with its last use, not with the first") {
  Detector d;
  d.detector.mbarrier_init(kOne, 0, Step::InitBarriers);
  d.detector.mbarrier_init(kOne, 1, Step::InitBarriers);
  d.detector.mbarrier_arrive(kOne, 0, true, Step::LoadAExpect);
  d.hand_over(kOne, kOther);  // the other one knows of the first arrival
  SUBCASE("nothing since") {
    d.detector.access(Detector::site(kOther, AccessKind::Write, Step::PullLoad),
                      Detector::bytes(kBarriers, 8));
    CHECK(d.findings.empty());
  }
  SUBCASE("a second arrival since") {
    d.detector.mbarrier_arrive(kOne, 0, true, Step::LoadAExpect);
    d.detector.access(Detector::site(kOther, AccessKind::Write, Step::PullLoad),
                      Detector::bytes(kBarriers, 8));
    REQUIRE(d.findings.size() == 1);
    CHECK(d.findings[0].kind == FindingClass::Race);
    CHECK(d.findings[0].first.step == Step::LoadAExpect);
    CHECK(d.findings[0].second.step == Step::PullLoad);
  }
  SUBCASE("and a later use races with the store") {
    d.detector.access(Detector::site(kOther, AccessKind::Write, Step::PullLoad),
                      Detector::bytes(kBarriers, 8));
    d.detector.mbarrier_arrive(kOne, 0, true, Step::LoadAExpect);
    REQUIRE(d.findings.size() == 1);
    CHECK(d.findings[0].first.step == Step::PullLoad);
  }
}

TEST_CASE("race_detector: a read made again counts as the later one") {
  Detector d;
  d.detector.mbarrier_init(kOne, 1, Step::InitBarriers);
  const RaceRange word = Detector::bytes(64, 4);
  const RaceSite read = Detector::site(kOne, AccessKind::Read, Step::MathReadScales);
  d.detector.access(read, word);
  d.hand_over(kOne, kOther);
  d.detector.access(read, word);  // behind what the other one knows
  CHECK(d.findings.empty());
  d.detector.access(Detector::site(kOther, AccessKind::Write, Step::PullScales), word);
  REQUIRE(d.findings.size() == 1);
  CHECK(d.findings[0].first.step == Step::MathReadScales);
}

TEST_CASE("race_detector: a wider read does not renew what only part of it had read") {
  Detector d;
  d.detector.mbarrier_init(kOne, 1, Step::InitBarriers);
  const RaceSite read = Detector::site(kOne, AccessKind::Read, Step::MathReadScales);
  d.detector.access(Detector::site(kOther, AccessKind::Write, Step::PullScales),
                    Detector::bytes(68, 4));
  d.detector.access(read, Detector::bytes(64, 4));
  CHECK(d.findings.empty());
  d.detector.access(read, Detector::bytes(64, 8));
  REQUIRE(d.findings.size() == 1);
  CHECK(d.findings[0].second.step == Step::MathReadScales);
  CHECK(d.findings[0].place.offset == 68);
}

TEST_CASE("race_detector: of many records in one granule each is found") {
  Detector d;
  // More writers' epochs than fit inside a granule, each a word of its own.
  for (uint32_t i = 0; i < 40; ++i) {
    d.detector.access(Detector::site(kOne, AccessKind::Write, static_cast<Step>(1 + i)),
                      Detector::bytes(4 * i, 4));
    d.detector.agent_together(kOne, Step::None);
  }
  for (uint32_t i = 0; i < 40; ++i)
    d.detector.access(Detector::site(kOther, AccessKind::Read, Step::CombineSum),
                      Detector::bytes(4 * i, 4));
  REQUIRE(d.findings.size() == 40);
  for (uint32_t i = 0; i < 40; ++i) CHECK(d.findings[i].first.step == static_cast<Step>(1 + i));
}

TEST_CASE("race_detector: writes remembered unit by unit are found as records would be") {
  constexpr uint32_t kAccesses = 20000;
  Detector records({4, 16});
  Detector units({4, 16, 0, true});
  for (Detector* d : {&records, &units}) d->detector.mbarrier_init(kOne, 1, Step::InitBarriers);
  const auto pairs = [](std::vector<RaceFinding>& findings) {
    std::vector<std::array<uint64_t, 5>> pairs;
    for (const RaceFinding& f : findings)
      pairs.push_back({static_cast<uint64_t>(f.kind), static_cast<uint64_t>(f.first.kind),
                       static_cast<uint64_t>(f.first.step), static_cast<uint64_t>(f.second.kind),
                       static_cast<uint64_t>(f.second.step)});
    findings.clear();
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  };
  size_t found = 0;
  for (uint64_t i = 0; i < kAccesses; ++i) {
    const uint64_t random = detail::mix64(i);
    const auto agent = static_cast<uint32_t>(random & 1);
    const auto step = static_cast<Step>(1 + (random >> 8) % (kNumSteps - 1));
    const uint64_t offset = (random >> 16) % (kRegionBytes / 4) * 4;
    const uint64_t bytes = std::min(kRegionBytes - offset, 4 + (random >> 32) % 24 * 4);
    const uint64_t what = random >> 48 & 15;
    for (Detector* d : {&records, &units}) {
      if (what < 4)
        d->detector.access(Detector::site(agent, AccessKind::Read, step),
                           Detector::in_region(offset, bytes));
      else if (what < 9)
        d->detector.plain_store(Detector::site(agent, AccessKind::Write, step),
                                Detector::in_region(offset, bytes));
      else if (what < 11)
        d->load_from(agent, step, Detector::in_region(offset, bytes));
      else if (what == 11)
        d->detector.fence(agent, FenceSpace::Both, false, step);
      else if (what == 12)
        d->detector.atomic_add(agent, kFirstLane, Order::Relaxed, Scope::Gpu, step,
                               Detector::in_region(offset, 4));
      else
        d->hand_over(agent, 1 - agent);
    }
    const auto of_records = pairs(records.findings);
    REQUIRE(of_records == pairs(units.findings));
    found += of_records.size();
  }
  CHECK(found > 1000);
}
