// Schedules as text and files, counter-based numbers, and the run queue beside a sorted set.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/check.h"
#include "cpu_sim/run_queue.h"
#include "cpu_sim/schedule.h"

using namespace moetwin;

namespace {

constexpr std::array<std::string_view, 3> kRoles = {"dispatch", "load_a", "math"};

std::string what_is_wrong(const std::string& text) {
  try {
    parse_schedule(text, kRoles);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing";
}

/// Pushes, pops and removes at random, beside a set.
void compare_with_set(RunQueue::Order order, uint32_t seed) {
  RunQueue queue;
  std::set<std::pair<uint64_t, uint32_t>> model;
  std::map<uint32_t, uint64_t> key_of;
  std::mt19937 random(seed);
  constexpr uint32_t kAgents = 40;
  for (int run = 0; run < 3; ++run) {
    queue.start(order);
    queue.reserve_agents(kAgents);
    model.clear();
    key_of.clear();
    uint64_t pushes = 0;
    for (int step = 0; step < 4000; ++step) {
      const uint32_t agent = random() % kAgents;
      const uint32_t action = random() % 8;
      REQUIRE(queue.contains(agent) == (key_of.count(agent) != 0));
      if (action < 4 && !queue.contains(agent)) {
        const uint64_t value = order == RunQueue::Order::Arrival ? pushes++ : random() % 16;
        const uint64_t key = band_key(static_cast<KeyBand>(random() % kKeyBands), value);
        queue.push(agent, key);
        model.insert({key, agent});
        key_of[agent] = key;
      } else if (action < 7 && !model.empty()) {
        REQUIRE(queue.min().agent == model.begin()->second);
        const RunQueue::Entry first = queue.pop_min();
        REQUIRE(first.agent == model.begin()->second);
        REQUIRE(first.key == model.begin()->first);
        model.erase(model.begin());
        key_of.erase(first.agent);
      } else if (action == 7) {
        const bool queued = key_of.count(agent) != 0;
        REQUIRE(queue.remove(agent) == queued);
        if (queued) model.erase({key_of[agent], agent});
        key_of.erase(agent);
      }
      REQUIRE(queue.size() == model.size());
      REQUIRE(queue.empty() == model.empty());
    }
  }
}

}  // namespace

TEST_CASE("run_queue: both forms pop in the order of a sorted set") {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    compare_with_set(RunQueue::Order::Arrival, seed);
    compare_with_set(RunQueue::Order::Key, seed);
  }
}

TEST_CASE("run_queue: new keys move the agents that are queued") {
  RunQueue queue;
  queue.start(RunQueue::Order::Key);
  queue.reserve_agents(100);
  for (uint32_t agent = 0; agent < 100; ++agent) queue.push(agent, agent);
  queue.rekey([](uint32_t agent, uint64_t) { return uint64_t{agent * 37 % 100}; });
  for (uint64_t key = 0; key < 100; ++key) {
    const RunQueue::Entry first = queue.pop_min();
    CHECK(first.key == key);
    CHECK(first.agent * 37 % 100 == key);
  }
}

TEST_CASE("run_queue: an agent queued twice, and an arrival key that does not grow, are refused") {
  RunQueue queue;
  queue.start(RunQueue::Order::Arrival);
  queue.reserve_agents(3);
  queue.push(1, 5);
  CHECK_THROWS_AS(queue.push(1, 6), InternalError);
  CHECK_THROWS_AS(queue.push(2, 5), InternalError);
  CHECK_THROWS_AS(queue.push(3, 7), InternalError);
  queue.pop_min();
  CHECK_THROWS_AS(queue.pop_min(), InternalError);
}

TEST_CASE("schedule: counter-based numbers are the same on every machine") {
  CHECK(counter_random(0, 0, 0) == 0xb49ab477bb8685e2ull);
  CHECK(counter_random(1, 2, 3) == 0xf804efcadf3ee9dfull);
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (uint64_t stream = 0; stream < 20; ++stream)
      for (uint64_t n = 0; n < 20; ++n) seen.insert(counter_random(seed, stream, n));
  CHECK(seen.size() == 8000);
}

TEST_CASE("schedule: each text is printed as it was read") {
  for (const char* text :
       {"fifo", "timed", "random:0", "random:9223372036854775807", "pct:3:0", "pct:3:1000",
        "slow:load_a@0", "slow:math@127", "replay:fifo", "replay:step", "replay:step:4;=0",
        "replay:random:3;2=h;=1z141z3;zz=3", "replay:slow:math@1;10=a", "replay:pct:1:2;=2"})
    CHECK(to_string(parse_schedule(text, kRoles)) == text);
  const Schedule schedule = parse_schedule("replay:step:4;=5;=6;a=10;=1z141z3");
  CHECK(schedule.policy == SchedulePolicy::Step);
  CHECK(schedule.seed == 4);
  CHECK(schedule.deviations == std::vector<Deviation>{{0, 5}, {1, 6}, {11, 36}, {12, UINT32_MAX}});
}

TEST_CASE("schedule: every wrong text is refused in one line that says what was wanted") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the policy is none of"},
      {"lifo", "the policy is none of"},
      {"Fifo", "the policy is none of"},
      {"step", "the policy is none of"},
      {"fifo ", "the policy is none of"},
      {"fifo:", "nothing after its name"},
      {"timed:1", "nothing after its name"},
      {"random", "SEED"},
      {"random:", "SEED"},
      {"random:-1", "SEED"},
      {"random:+1", "SEED"},
      {"random: 1", "SEED"},
      {"random:1 ", "SEED"},
      {"random:01", "SEED"},
      {"random:1.0", "SEED"},
      {"random:0x1", "SEED"},
      {"random:9223372036854775808", "SEED"},
      {"random:99999999999999999999999", "SEED"},
      {"random:1:2", "SEED"},
      {"pct:1", "pct:SEED:DEPTH"},
      {"pct:1:", "DEPTH"},
      {"pct:1:1001", "DEPTH"},
      {"pct:x:1", "SEED"},
      {"slow:", "slow:ROLE@RANK"},
      {"slow:math", "slow:ROLE@RANK"},
      {"slow:@1", "slow:ROLE@RANK"},
      {"slow:nobody@1", "none of dispatch, load_a, math"},
      {"slow:math@128", "RANK"},
      {"slow:math@", "RANK"},
      {"replay:", "base of a replay"},
      {"replay:replay:fifo", "base of a replay"},
      {"replay:fifo;", "DELTA=AGENT"},
      {"replay:fifo;3", "DELTA=AGENT"},
      {"replay:fifo;0=1", "DELTA"},
      {"replay:fifo;-1=1", "DELTA"},
      {"replay:fifo;1=", "AGENT"},
      {"replay:fifo;1=A", "AGENT"},
      {"replay:fifo;1=1z141z4", "AGENT"},
      {"replay:fifo;1y2p0ij32e8e7=1;1=1", "DELTA"},
      {"replay:@", "no such file"},
      {"replay:@/nowhere/at/all", "no such file"},
      {"replay:@/", "is not a regular file"},
      {"two\nlines", "the policy is none of"},
      {std::string(70000, 'x'), "longer than 65536 bytes"},
  };
  for (const auto& wrong : cases) {
    const std::string message = what_is_wrong(wrong.first);
    INFO("text: " << wrong.first.substr(0, 80) << "; message: " << message);
    CHECK(message.rfind("schedule: ", 0) == 0);
    CHECK(message.find(wrong.second) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.size() < 300);
  }
}

TEST_CASE("schedule: a long replay goes through a file and comes back equal") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("moetwin_schedule_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = (folder / "long.replay").string();
  Schedule schedule = parse_schedule("replay:step:5");
  for (uint64_t i = 0; i < 40000; ++i)
    schedule.deviations.push_back({i * 3, static_cast<uint32_t>(i % 9001)});
  CHECK(save_schedule(schedule, path) == "replay:@" + path);
  Schedule back = parse_schedule("replay:@long.replay", kRoles, folder.string());
  CHECK(to_string(back) == "replay:@long.replay");
  back.file.clear();
  CHECK(back == schedule);
  CHECK(what_is_wrong(to_string(back)).find("longer than") != std::string::npos);

  schedule.deviations.resize(3);
  CHECK(save_schedule(schedule, path) == to_string(schedule));
  CHECK_THROWS_AS(save_schedule(back, (folder / "none" / "x").string()), InputError);
  fs::resize_file(path, kMaxScheduleFileBytes + 1);
  CHECK(what_is_wrong("replay:@" + path).find("the limit is 67108864") != std::string::npos);
  fs::remove_all(folder);
}
