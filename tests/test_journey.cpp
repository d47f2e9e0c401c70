#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/slot_table.h"
#include "cpu_sim/journey.h"
#include "cpu_sim/simulate.h"
#include "fuzz/plants.h"
#include "model/case.h"
#include "model/checked_plan.h"
#include "model/timeline.h"

namespace moetwin {
namespace {

/// Blocks of several laps, a masked share, a last block that is partly filled.
Case laps(const std::string& scheduler) {
  return parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":3,"hidden":256,"intermediate":128,
    "max_tokens_per_rank":150},"tokens":[150,61],
    "routing":{"kind":"zipf","alpha":1,"masked":0.2,"seed":5},"launches":2,
    "kernel":{"sms_per_rank":2,"scheduler":")" +
                        scheduler + R"("}})",
                    "");
}

/// Every GEMM dealt out slice by slice.
Case slices() {
  Case c = laps("wave");
  c.kernel.block_n = 256;
  c.kernel.sms_per_rank = 8;
  c.kernel.experts_per_wave = 1;
  return c;
}

KernelArgs args_of(const Case& c, size_t launch, bool math) {
  const Shape& shape = c.launches[launch].shape;
  const KernelPlan plan = checked_plan(shape, c.kernel, false, math);
  return {shape, plan, make_layout(shape, plan), c.clamp};
}

struct Followed {
  RunResult run;
  std::vector<SlotJourney> journeys;
  Timeline timeline;
};

Followed follow(const Case& c, const std::string& schedule, const JourneyFilter& filter = {},
                const Mutant& mutant = {}, bool math = false) {
  const size_t last = c.launches.size() - 1;
  JourneyRecorder recorder(make_routed_problem(c, last), args_of(c, last, math), last, filter);
  Followed followed;
  Probes probes;
  probes.observer = &recorder;
  probes.data = &recorder;
  probes.timeline = &followed.timeline;
  RunOptions options;
  options.schedule = schedule;
  options.math = math;
  followed.run = simulate(c, options, mutant, probes);
  followed.journeys = recorder.journeys();
  return followed;
}

/// When each tile of the last launch was claimed first, straight from the task queues.
struct FirstClaims : DataObserver {
  using Tile = std::tuple<uint32_t, TileKind, uint32_t, uint32_t>;  // rank, kind, block, n
  const Case& c;
  const KernelPlan plan;
  std::map<Tile, uint64_t> event;
  uint32_t claims = 0;

  explicit FirstClaims(const Case& of) : c(of), plan(args_of(of, 0, false).plan) {}
  void on_data(const DataEvent& seen) override {
    if (seen.step != Step::TaskPublish || seen.at.launch + 1 != c.launches.size()) return;
    TaskEntry task{};
    std::memcpy(&task, seen.value, sizeof task);
    if (task.kind == TileKind::None) return;
    ++claims;
    const uint32_t rank = agent_place(plan, c.shape.ranks, seen.agent).rank;
    event.try_emplace({rank, task.kind, task.block, task.n}, seen.at.event);
  }
};

/// Every step of a journey in the order of the protocol.
std::vector<Sighting> steps_of(const SlotJourney& j) {
  std::vector<Sighting> steps = {j.counted, j.claimed, j.written, j.found};
  if (j.place.ring.lap != 0) steps.push_back(j.ring_free);
  steps.insert(steps.end(), {j.recorded, j.stored, j.published});
  Sighting first;
  Sighting last;
  for (const TileJourney& tile : j.linear1)
    if (tile.done.seen && (!last.seen || tile.done.event > last.event)) last = tile.done;
  steps.push_back(last);
  for (const TileJourney& tile : j.linear2)
    if (tile.done.seen && (!first.seen || tile.done.event < first.event)) first = tile.done;
  steps.insert(steps.end(), {first, j.loaded, j.summed});
  return steps;
}

std::string name_of(const AgentPlace& agent) {
  return std::to_string(agent.rank) + " " + std::to_string(agent.sm) + " " + role_name(agent.role) +
         " " + std::to_string(agent.number);
}

}  // namespace

TEST_CASE("journey: every routed slot is followed from its count to y, in the protocol's order") {
  for (const Case& c : {laps("ring"), laps("wave"), slices()})
    for (const char* schedule : {"fifo", "random:3", "slow:math@1", "timed"}) {
      CAPTURE(c.kernel.block_n);
      CAPTURE(schedule);
      const Followed followed = follow(c, schedule);
      REQUIRE(!followed.run.failed());
      const Problem problem = make_routed_problem(c, 1);
      size_t routed = 0;
      for (const RankInput& input : problem.ranks)
        for (const int32_t expert : input.topk_idx) routed += expert != kMaskedExpert;
      REQUIRE(followed.journeys.size() == routed);
      for (const SlotJourney& j : followed.journeys) {
        const auto flat = flat_route(j.token, j.k, 3);
        CHECK(problem.ranks[j.rank].topk_idx[flat] == static_cast<int32_t>(j.expert));
        CHECK(problem.ranks[j.rank].topk_weights[flat] == j.weight);
        uint64_t before = 0;
        for (const Sighting& step : steps_of(j)) {
          REQUIRE(step.seen);
          CHECK(step.event >= before);
          before = step.event;
        }
        CHECK(j.counted.agent.rank == j.rank);
        CHECK(j.claimed.agent.sm == j.counted.agent.sm);
        CHECK(j.slot >= j.first_slot);
        CHECK(j.slot < j.first_slot + j.claimed_slots);
        CHECK(j.published.agent.rank == j.expert / 2);
        CHECK(j.published.agent.role == Role::Dispatch);
        CHECK(j.summed.agent.rank == j.rank);
        for (const TileJourney& tile : j.linear1) {
          CHECK(tile.claimed.event < tile.begun.event);
          CHECK(tile.begun.event < tile.done.event);
        }
        for (const TileJourney& tile : j.linear2) {
          CHECK(tile.claimed.event < tile.begun.event);
          CHECK(tile.begun.event < tile.done.event);
        }
      }
    }
}

TEST_CASE("journey: slots and pool rows are those of the round-robin rule, each once") {
  const Followed followed = follow(laps("ring"), "random:8");
  REQUIRE(!followed.run.failed());
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> counts;
  for (const SlotJourney& j : followed.journeys) ++counts[{j.expert, j.rank}];
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> slots;
  std::set<std::pair<uint32_t, uint32_t>> rows;
  uint32_t later_laps = 0;
  for (const SlotJourney& j : followed.journeys) {
    CHECK(slots.insert({j.expert, j.rank, j.slot}).second);
    CHECK(j.slot < counts[{j.expert, j.rank}]);
    CHECK(rows.insert({j.expert / 2, j.place.row}).second);
    CHECK(j.recorded_row == j.place.row);
    CHECK(j.x_full > j.place.ring.lap * 64);
    CHECK(j.x_full <= (j.place.ring.lap + 1) * 64);
    CHECK(j.place.block == j.place.row / 64);
    later_laps += j.place.ring.lap != 0;
    // The first expert of each rank begins at row 0.
    if (j.expert % 2 != 0) continue;
    const SlotSource source = round_robin_source(2, j.place.row, [&](uint32_t rank) {
      return counts[{j.expert, rank}];
    });
    CHECK(source.rank == j.rank);
    CHECK(source.slot == j.slot);
  }
  CHECK(later_laps > 0);
}

TEST_CASE("journey: the tiles of all rows are the tiles that the timeline shows, agent by agent") {
  for (const char* scheduler : {"ring", "wave"}) {
    CAPTURE(scheduler);
    const Followed followed = follow(laps(scheduler), "random:2");
    std::map<std::string, uint64_t> published;
    for (const TraceEvent& e : followed.timeline.events) {
      const AgentOfCta agent = agent_at(e.place);
      if (e.kind == TraceKind::Launch) published.clear();  // ranks start together here
      if (e.kind == TraceKind::Arrive && e.step == Step::Linear1Publish)
        ++published[name_of({e.rank, e.sm, agent.role, agent.number, false})];
    }
    std::map<std::string, std::set<std::tuple<uint32_t, uint32_t, size_t>>> worked;
    for (const SlotJourney& j : followed.journeys)
      for (size_t n = 0; n < j.linear1.size(); ++n)
        worked[name_of(j.linear1[n].done.agent)].insert({j.expert / 2, j.place.block, n});
    CHECK(worked.size() == published.size());
    for (const auto& [agent, tiles] : worked) CHECK(tiles.size() == published[agent]);
  }
}

TEST_CASE("journey: a tile that is dealt out slice by slice counts from its first claim") {
  const Case c = slices();
  FirstClaims first(c);
  Probes probes;
  probes.data = &first;
  RunOptions options;
  options.schedule = "random:3";
  options.math = false;
  simulate(c, options, {}, probes);
  CHECK(first.claims == 2 * first.event.size());
  for (const SlotJourney& j : follow(c, "random:3").journeys) {
    const uint32_t rank = j.expert / 2;
    for (uint32_t n = 0; n < j.linear1.size(); ++n)
      CHECK(j.linear1[n].claimed.event ==
            first.event.at({rank, TileKind::Linear1, j.place.block, n}));
    for (uint32_t n = 0; n < j.linear2.size(); ++n)
      CHECK(j.linear2[n].claimed.event ==
            first.event.at({rank, TileKind::Linear2, j.place.block, n}));
  }
}

TEST_CASE("journey: following changes neither schedule nor state") {
  const Case c = laps("ring");
  for (const bool math : {false, true}) {
    CAPTURE(math);
    RunOptions options;
    options.schedule = "random:11";
    options.math = math;
    options.full_k_loop = !math;
    const RunResult plain = simulate(c, options);
    const Followed followed = follow(c, "random:11", {}, {}, math);
    CHECK(followed.run.schedule_digest == plain.schedule_digest);
    CHECK(followed.run.state_digest == plain.state_digest);
  }
}

TEST_CASE("journey: a filter by rows and blocks takes each slot once") {
  const Case c = laps("ring");
  const size_t all = follow(c, "fifo").journeys.size();
  size_t found = 0;
  for (uint32_t rank = 0; rank < 2; ++rank)
    for (uint32_t block = 0; block < 8; ++block) {
      JourneyFilter filter;
      filter.pool_rank = rank;
      filter.block = block;
      for (const SlotJourney& j : follow(c, "fifo", filter).journeys) {
        CHECK(j.expert / 2 == rank);
        CHECK(j.place.block == block);
        ++found;
      }
    }
  CHECK(found == all);
  JourneyFilter one;
  one.pool_rank = 1;
  one.row = 65;
  REQUIRE(follow(c, "fifo", one).journeys.size() == 1);
  CHECK(follow(c, "fifo", one).journeys.front().place.row == 65);
}

TEST_CASE("journey: where a run hangs, the journey ends") {
  Case c = laps("ring");
  set_launches(c, 1);
  const Followed followed = follow(c, "fifo", {}, {MutantKind::Drop, Step::PullPublishRow});
  REQUIRE(followed.run.failed());
  size_t stuck = 0;
  for (const SlotJourney& j : followed.journeys) {
    CHECK(!j.published.seen);
    CHECK(!j.summed.seen);
    stuck += j.recorded.seen;
  }
  CHECK(stuck > 0);
}

TEST_CASE("journey: a record that is written to the ring row in place of the logical one shows") {
  const Plant* plant = find_plant("F23");
  REQUIRE(plant != nullptr);
  Case c = parse_case(plant->text, "");
  const size_t last = c.launches.size() - 1;
  JourneyRecorder recorder(make_routed_problem(c, last), args_of(c, last, false), last, {});
  Probes probes;
  probes.observer = &recorder;
  probes.data = &recorder;
  RunOptions options;
  options.math = false;
  c.plant = "F23";
  simulate_case(c, options, probes);
  uint32_t elsewhere = 0;
  for (const SlotJourney& j : recorder.journeys()) {
    if (!j.recorded.seen) continue;
    CHECK((j.recorded_row == j.place.row) == (j.place.ring.lap == 0));
    elsewhere += j.recorded_row != j.place.row;
  }
  CHECK(elsewhere > 0);
}

}  // namespace moetwin
