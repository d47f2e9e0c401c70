// The choice sequence: bounded draws that repeat by seed, by list and by string, and what cases
// become of changed ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/kernel_plan.h"
#include "fuzz/choices.h"
#include "fuzz/generator.h"
#include "fuzz/profile.h"
#include "model/case.h"

using namespace moetwin;

namespace {

uint64_t routed_slots(const Case& c) {
  uint64_t slots = 0;
  for (const LaunchSpec& launch : c.launches)
    for (const uint32_t tokens : launch.tokens) slots += uint64_t{tokens} * launch.shape.topk;
  return slots;
}

bool has_plans(const Case& c) {
  return std::none_of(c.launches.begin(), c.launches.end(), [&](const LaunchSpec& launch) {
    return static_cast<bool>(make_plan(launch.shape, c.kernel).error);
  });
}

}  // namespace

TEST_CASE("choices: a case follows from its seed, its draws and its string alike") {
  for (uint64_t index = 0; index < 300; ++index) {
    CAPTURE(index);
    Choices by_seed(7, index);
    const Case c = draw_case(by_seed, wide_profile());
    Choices by_draws(by_seed.drawn());
    CHECK(draw_case(by_draws, wide_profile()) == c);
    Choices by_string = parse_choices("--repeat", draws_to_string(by_seed.drawn()));
    CHECK(draw_case(by_string, wide_profile()) == c);
    Choices by_seed_string = parse_choices("--repeat", seed_to_string(7, index));
    CHECK(draw_case(by_seed_string, wide_profile()) == c);
    CHECK(by_string.drawn() == by_seed.drawn());
  }
}

TEST_CASE("choices: draws of zero give the first choice of everything") {
  Choices zeros((std::vector<uint64_t>()));
  const Case c = draw_case(zeros, small_profile());
  CHECK(c.shape.ranks == 1);
  CHECK(c.shape.experts == 1);
  CHECK(c.tokens == std::vector<uint32_t>{1});
  CHECK(c.schedule == "fifo");
  CHECK(c.world == World{});
  CHECK(c.launches.size() == 2);
  CHECK(c.launches[0].tokens == c.launches[1].tokens);
  CHECK(c.routing.kind == RoutingKind::Uniform);
  CHECK(c.routing.masked == 0);
}

TEST_CASE("choices: each draw stays below its bound, and a percentage is kept") {
  Choices draw(3, 0);
  uint32_t hits = 0;
  for (uint32_t i = 0; i < 10000; ++i) hits += draw.chance(30) ? 1 : 0;
  CHECK(hits > 2800);
  CHECK(hits < 3200);
  Choices wild(std::vector<uint64_t>(50, UINT64_MAX));
  for (uint32_t bound = 1; bound <= 25; ++bound) CHECK(wild.below(bound) < bound);
  CHECK(wild.seed() <= static_cast<uint64_t>(INT64_MAX));
  CHECK(!Choices(1, 1).chance(0));
  CHECK(Choices(1, 1).chance(100));
}

TEST_CASE("choices: another text than the two forms is refused with the option's name") {
  for (const char* text : {"", "seed:1", "seed:x:1", "draws:1.?.2", "draw:1", "seed:1:2:3",
                           "draws:zzzzzzzzzzzzzzzzzzzzzz"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_choices("--repeat", text), doctest::Contains("--repeat: "),
                         InputError);
  }
  CHECK(parse_choices("o", "draws:1..z").given() == std::vector<uint64_t>{1, 0, 35});
  CHECK(parse_choices("o", "draws:.").given() == std::vector<uint64_t>{0, 0});
}

TEST_CASE("choices: a changed sequence still gives a valid case, and mostly another one") {
  Choices first(11, 1);
  Choices second(11, 2);
  const Case c = draw_case(first, wide_profile());
  draw_case(second, wide_profile());
  uint32_t different = 0;
  for (uint64_t i = 0; i < 500; ++i) {
    CAPTURE(i);
    const std::vector<uint64_t> draws = mutate_draws(first.drawn(), second.drawn(), 5, i);
    CHECK(draws == mutate_draws(first.drawn(), second.drawn(), 5, i));
    Choices changed(draws, 5, i);
    const Case other = draw_case(changed, wide_profile());
    REQUIRE(has_plans(other));
    REQUIRE(parse_case(case_to_json(other), "") == other);
    different += other == c ? 0 : 1;
  }
  CHECK(different > 350);
}

TEST_CASE("profile: the small one keeps its limits and brings 40 routed rows a case") {
  uint64_t slots = 0;
  constexpr uint64_t kCases = 2000;
  uint32_t edges = 0;
  uint32_t other_shapes = 0;
  for (uint64_t index = 0; index < kCases; ++index) {
    Choices draw(1, index);
    const Case c = draw_case(draw, small_profile());
    REQUIRE(has_plans(c));
    REQUIRE(c.shape.ranks <= 4);
    REQUIRE(c.shape.experts <= 16);
    for (const LaunchSpec& launch : c.launches) {
      REQUIRE((launch.shape.hidden == 128 || launch.shape.hidden == 256));
      REQUIRE((launch.shape.intermediate == 128 || launch.shape.intermediate == 256));
      other_shapes += launch.shape.max_tokens_per_rank != c.shape.max_tokens_per_rank ? 1 : 0;
    }
    const uint32_t of_warp = std::max(1u, 32 / c.shape.topk);
    for (const uint32_t tokens : c.tokens) edges += tokens == of_warp + 1 ? 1 : 0;
    slots += routed_slots(c);
  }
  CHECK(slots / kCases >= 45);  // some are masked
  CHECK(edges > 100);
  CHECK(other_shapes > 10);
}

TEST_CASE("profile: a swarm switches features off, and never all of a list") {
  uint32_t without_uniform = 0;
  for (uint64_t index = 0; index < 500; ++index) {
    Choices draw(2, index);
    const Profile profile = draw_profile(draw, wide_profile());
    const auto sum = [](const auto& weights) {
      return std::accumulate(std::begin(weights), std::end(weights), 0u);
    };
    REQUIRE(sum(profile.themes) > 0);
    REQUIRE(sum(profile.routings) > 0);
    REQUIRE(sum(profile.data) > 0);
    REQUIRE(sum(profile.schedules) > 0);
    without_uniform += profile.routings[0] == 0 ? 1 : 0;
  }
  CHECK(without_uniform > 50);
  CHECK(without_uniform < 400);
}
