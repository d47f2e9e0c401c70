// Every scheduling policy, digests, records and replays, on a toy machine of agents that step,
// block and wait for landings.
#include <doctest/doctest.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "cpu_sim/scheduler.h"

using namespace moetwin;

namespace {

constexpr std::array<std::string_view, 3> kRoles = {"dispatch", "load_a", "math"};
constexpr uint32_t kRanks = 3;
constexpr uint32_t kWorkers = 18;  // agent a < 18: role a % 3, rank a / 3 % 3; two of each

/// What a choice was made of.
struct Choice {
  uint32_t agent = 0;
  std::vector<uint32_t> others;  // runnable and not chosen
  uint64_t time = 0;
};

struct ToyRun {
  std::vector<Choice> choices;
  std::vector<uint64_t> draws;
  std::string digest;
  std::string recorded;
  std::string schedule_string;
  size_t unused = 0;

  std::vector<uint32_t> order() const {
    std::vector<uint32_t> agents;
    for (const Choice& choice : choices) agents.push_back(choice.agent);
    return agents;
  }
};

/// Workers do `steps` visible operations each; at every third one a worker issues a landing (agent
/// kWorkers + worker) and blocks until it has landed.
class Toy {
 public:
  Toy(const Schedule& schedule, RunSettings settings, int steps = 20)
      : landing_(settings.landing), steps_(steps) {
    settings.roles = kRoles;
    settings.record = true;
    scheduler_.start(schedule, settings);
    for (uint32_t a = 0; a < 2 * kWorkers; ++a)
      scheduler_.add_agent({a % 3, a % kWorkers / 3 % kRanks, a >= kWorkers});
    done_.resize(kWorkers);
    clock_.resize(2 * kWorkers);
  }

  ToyRun run() {
    for (uint32_t a = 0; a < kWorkers; ++a) make_runnable(a);
    while (!scheduler_.empty()) {
      const uint32_t agent = scheduler_.next();
      note(agent);
      if (agent >= kWorkers)
        make_runnable(agent - kWorkers);
      else
        work(agent);
    }
    run_.digest = scheduler_.digest();
    run_.recorded = to_string(scheduler_.recorded());
    run_.schedule_string = scheduler_.schedule_string();
    run_.unused = scheduler_.unused_deviations();
    CHECK(scheduler_.choices() == run_.choices.size());
    return run_;
  }

 private:
  void make_runnable(uint32_t agent) {
    runnable_.insert(agent);
    scheduler_.runnable(agent, clock_[agent]);
  }

  void note(uint32_t agent) {
    runnable_.erase(agent);
    run_.choices.push_back({agent, {runnable_.begin(), runnable_.end()}, clock_[agent]});
    CHECK(runnable_.size() == scheduler_.num_runnable());
  }

  void work(uint32_t agent) {
    for (;;) {
      if (done_[agent] == steps_) return;
      const int step = done_[agent]++;
      clock_[agent] += 1 + agent % 3;
      if (scheduler_.shuffles_lanes()) run_.draws.push_back(scheduler_.random(agent));
      if (step % 3 == 2 && landing_ != LandingOrder::Early) {
        clock_[kWorkers + agent] = clock_[agent] + 7;
        clock_[agent] += 7;
        make_runnable(kWorkers + agent);
        return;
      }
      if (!scheduler_.preempts()) continue;
      if (!scheduler_.continues(agent, clock_[agent])) {
        runnable_.insert(agent);
        return;
      }
      note(agent);
    }
  }

  LandingOrder landing_;
  int steps_;
  Scheduler scheduler_;
  std::vector<int> done_;
  std::vector<uint64_t> clock_;
  std::set<uint32_t> runnable_;
  ToyRun run_;
};

ToyRun run_toy(const std::string& schedule, LandingOrder landing = LandingOrder::Late) {
  RunSettings settings;
  settings.landing = landing;
  settings.expected_choices = 300;
  return Toy(parse_schedule(schedule, kRoles), settings).run();
}

const std::vector<std::string> kPolicies = {
    "fifo",    "random:1",    "random:2",        "pct:1:0",
    "pct:1:3", "pct:9:5",     "slow:dispatch@1", "slow:math@2",
    "timed",   "replay:step", "replay:step:7"};

}  // namespace

TEST_CASE("scheduler: fifo runs each agent until it blocks, and landings after all others") {
  std::vector<uint32_t> expected;
  const auto block = [&expected](uint32_t first) {
    for (uint32_t a = 0; a < kWorkers; ++a) expected.push_back(first + a);
  };
  block(0);
  for (int round = 0; round < 6; ++round) {
    for (uint32_t a = 0; a < kWorkers; ++a) {
      expected.push_back(kWorkers + a);
      expected.push_back(a);
    }
  }
  std::vector<uint32_t> order = run_toy("fifo").order();
  CHECK(order.size() == expected.size());
  CHECK(std::vector<uint32_t>(order.begin(), order.begin() + 18) ==
        std::vector<uint32_t>(expected.begin(), expected.begin() + 18));
  // The first landing lands when every worker is blocked, and its worker goes next.
  CHECK(order == expected);
  order = run_toy("fifo", LandingOrder::Random).order();
  expected.clear();
  for (int round = 0; round < 7; ++round) {
    block(0);
    if (round < 6) block(kWorkers);
  }
  CHECK(order == expected);
}

TEST_CASE("scheduler: the same schedule makes the same choices and draws, another seed others") {
  std::set<std::string> digests;
  for (const std::string& policy : kPolicies)
    for (const LandingOrder landing : {LandingOrder::Late, LandingOrder::Random}) {
      INFO("schedule: " << policy);
      const ToyRun first = run_toy(policy, landing);
      const ToyRun second = run_toy(policy, landing);
      CHECK(first.order() == second.order());
      CHECK(first.draws == second.draws);
      CHECK(first.digest == second.digest);
      CHECK(first.schedule_string == policy);
      digests.insert(first.digest);
    }
  // step and step:7 differ in draws alone, and timed lands at its time whatever the landing order.
  CHECK(digests.size() == 2 * kPolicies.size() - 3);
}

TEST_CASE("scheduler: the digest is XXH3 over the agents in the order chosen") {
  const ToyRun run = run_toy("random:5");
  const std::vector<uint32_t> order = run.order();
  REQUIRE(order.size() > 300);
  const XXH128_hash_t hash = XXH3_128bits(order.data(), order.size() * sizeof(uint32_t));
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  CHECK(run.digest == text);
}

TEST_CASE("scheduler: the record of any run, read back from its text, repeats the run") {
  std::vector<std::string> policies = kPolicies;
  for (int seed = 10; seed < 40; ++seed) policies.push_back("random:" + std::to_string(seed));
  policies.push_back("replay:random:3;=4;5=0");
  policies.push_back("replay:fifo;=4;4=7;=9");
  for (const std::string& policy : policies)
    for (const LandingOrder landing :
         {LandingOrder::Late, LandingOrder::Random, LandingOrder::Early}) {
      INFO("schedule: " << policy);
      const ToyRun run = run_toy(policy, landing);
      INFO("replay: " << run.recorded);
      CHECK(run.unused == 0);
      const ToyRun again = run_toy(run.recorded, landing);
      CHECK(again.order() == run.order());
      CHECK(again.draws == run.draws);
      CHECK(again.digest == run.digest);
      CHECK(again.recorded == run.recorded);
      CHECK(again.unused == 0);
    }
  CHECK(run_toy("fifo").recorded == "replay:fifo");
  CHECK(run_toy("replay:step:7").recorded == "replay:step:7");
}

TEST_CASE("scheduler: a deviation changes its own choice and nothing before it") {
  const std::vector<uint32_t> plain = run_toy("random:3").order();
  const ToyRun run = run_toy("random:3");
  for (const uint32_t choice : {0u, 1u, 17u, 100u}) {
    REQUIRE_FALSE(run.choices[choice].others.empty());
    const uint32_t other = run.choices[choice].others.back();
    Schedule schedule = parse_schedule("replay:random:3");
    schedule.deviations = {{choice, other}};
    const std::vector<uint32_t> order = run_toy(to_string(schedule)).order();
    CHECK(std::equal(order.begin(), order.begin() + choice, plain.begin()));
    CHECK(order[choice] == other);
  }
}

TEST_CASE("scheduler: a replay that names an agent that cannot run says where") {
  const auto message = [](const std::string& schedule) -> std::string {
    try {
      run_toy(schedule);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing";
  };
  for (const char* base : {"fifo", "step", "random:1", "timed", "pct:1:1"}) {
    const std::string text = std::string("replay:") + base;
    CHECK(message(text + ";5=z") ==
          "schedule: this replay does not fit this case: choice 4 names agent 35, which cannot "
          "run there");
    CHECK(message(text + ";=zzz").find("choice 0 names agent 46655") != std::string::npos);
  }
  CHECK(run_toy("replay:fifo;zzz=0").unused == 1);
}

TEST_CASE("scheduler: the held role of a rank runs only when nothing else can") {
  for (const LandingOrder landing : {LandingOrder::Late, LandingOrder::Random}) {
    for (uint32_t role = 0; role < 3; ++role)
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        const ToyRun run =
            run_toy("slow:" + std::string(kRoles[role]) + "@" + std::to_string(rank), landing);
        const auto held = [&](uint32_t agent) {
          return agent < kWorkers && agent % 3 == role && agent / 3 % kRanks == rank;
        };
        size_t held_choices = 0;
        for (const Choice& choice : run.choices) {
          if (!held(choice.agent)) continue;
          ++held_choices;
          CHECK(std::all_of(choice.others.begin(), choice.others.end(), held));
        }
        CHECK(held_choices >= 40);
      }
  }
  CHECK_THROWS_AS(Scheduler().start(parse_schedule("slow:math@0"), {}), InputError);
}

TEST_CASE("scheduler: a late landing waits for every agent that is not held") {
  for (const std::string policy : {"fifo", "random:4", "pct:4:4", "slow:math@0"}) {
    INFO("schedule: " << policy);
    size_t landings = 0;
    for (const Choice& choice : run_toy(policy).choices) {
      if (choice.agent < kWorkers) continue;
      ++landings;
      for (const uint32_t other : choice.others)
        CHECK((other >= kWorkers || (policy[0] == 's' && other % 9 == 2)));
    }
    CHECK(landings == 6 * kWorkers);
  }
}

TEST_CASE("scheduler: timed goes through virtual time forwards, landings included") {
  uint64_t now = 0;
  for (const Choice& choice : run_toy("timed").choices) {
    CHECK(choice.time >= now);
    now = choice.time;
  }
  CHECK(now > 40);
}

TEST_CASE("scheduler: pct keeps one order of role and rank between its changes") {
  // How often a group goes before one that it has been behind.
  const auto reversals = [](const std::string& policy) {
    std::set<std::pair<uint32_t, uint32_t>> before;
    size_t count = 0;
    for (const Choice& choice : run_toy(policy, LandingOrder::Early).choices) {
      for (const uint32_t other : choice.others) {
        if (other % 9 == choice.agent % 9) continue;
        const std::pair<uint32_t, uint32_t> pair{choice.agent % 9, other % 9};
        count += before.erase({pair.second, pair.first});
        before.insert(pair);
      }
    }
    return count;
  };
  std::set<uint32_t> firsts;
  for (int seed = 0; seed < 20; ++seed) {
    const std::string policy = "pct:" + std::to_string(seed) + ":";
    CHECK(reversals(policy + "0") == 0);
    firsts.insert(run_toy(policy + "0").choices.front().agent % 9);
    // A change moves one group behind the eight others.
    CHECK(reversals(policy + "1") <= 8);
    CHECK(reversals(policy + "4") > 0);
  }
  CHECK(firsts.size() > 4);
}

TEST_CASE("scheduler: one more draw of an agent shifts nobody else's") {
  Scheduler scheduler;
  const auto draw = [&](int extra) {
    scheduler.start(parse_schedule("random:8"), {});
    for (int a = 0; a < 2; ++a) scheduler.add_agent({});
    for (int i = 0; i < extra; ++i) scheduler.random(0);
    return std::vector<uint64_t>{scheduler.random(1), scheduler.random(1), scheduler.random(1)};
  };
  const std::vector<uint64_t> numbers = draw(0);
  CHECK(draw(5) == numbers);
  CHECK(numbers[0] != numbers[1]);
}

TEST_CASE("scheduler: random lets each runnable agent go next equally often") {
  constexpr uint32_t kMean = 250;
  Scheduler scheduler;
  for (const uint32_t agents : {2u, 8u}) {
    scheduler.start(parse_schedule("random:2"), {});
    for (uint32_t a = 0; a < agents; ++a) scheduler.runnable(scheduler.add_agent({}));
    uint32_t counts[8][8] = {};
    uint32_t running = scheduler.next();
    for (uint32_t i = 0; i < kMean * agents * agents; ++i) {
      const uint32_t last = running;
      if (!scheduler.continues(running)) running = scheduler.next();
      ++counts[last][running];
    }
    // Waiting times are only close to exponential, and 90 is five standard deviations and more.
    for (uint32_t last = 0; last < agents; ++last)
      for (uint32_t next = 0; next < agents; ++next) {
        INFO("agents: " << agents << ", from " << last << " to " << next);
        CHECK(counts[last][next] > kMean - 90);
        CHECK(counts[last][next] < kMean + 90);
      }
  }
}

TEST_CASE("scheduler: a deviation may name the agent that goes on, and the next one still counts") {
  const ToyRun run = run_toy("random:3");
  const std::vector<uint32_t> plain = run.order();
  uint32_t same = 1;
  while (plain[same] != plain[same - 1]) ++same;
  const uint32_t other = run.choices[same + 2].others.front();
  Schedule schedule = parse_schedule("replay:random:3");
  schedule.deviations = {{same, plain[same]}, {same + 2, other}};
  const ToyRun changed = run_toy(to_string(schedule));
  CHECK(changed.unused == 0);
  CHECK(changed.order()[same + 2] == other);
}

TEST_CASE("scheduler: under timed, agents of one time go by number") {
  Scheduler scheduler;
  scheduler.start(parse_schedule("timed"), {});
  for (int a = 0; a < 3; ++a) scheduler.add_agent({});
  for (uint32_t a : {2u, 1u, 0u}) scheduler.runnable(a, 5);
  CHECK(scheduler.next() == 0);
  CHECK(scheduler.continues(0, 5));
  CHECK_FALSE(scheduler.continues(0, 6));
  CHECK(scheduler.next() == 1);
  CHECK(scheduler.next() == 2);
  CHECK_FALSE(scheduler.continues(2, 6));
  CHECK(scheduler.next() == 0);
}

TEST_CASE("scheduler: a pct change also moves the agents of its group that wait") {
  Scheduler scheduler;
  RunSettings settings;
  settings.expected_choices = 1;
  uint32_t tried = 0;
  for (int seed = 0; seed < 20; ++seed) {
    scheduler.start(parse_schedule("pct:" + std::to_string(seed) + ":1"), settings);
    for (uint32_t role : {0u, 0u, 1u}) scheduler.runnable(scheduler.add_agent({role, 0, false}));
    const uint32_t first = scheduler.next();
    if (first == 2) continue;
    ++tried;
    CHECK_FALSE(scheduler.continues(first));
    CHECK(scheduler.next() == 2);
    CHECK(scheduler.continues(2));
  }
  CHECK(tried > 3);
}
