// Properties of simulated runs that need no reference: what y must not depend on, and determinism.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "model/compare.h"
#include "model/data.h"
#include "model/digest.h"
#include "model/naive.h"
#include "model/shared_weights.h"

using namespace moetwin;

namespace {

constexpr const char* kBase =
    R"({"shape":{"ranks":2,"experts":8,"topk":3,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":48},"tokens":[48,29],
        "routing":{"kind":"zipf","seed":3,"masked":0.1,"duplicates":true,"weights":"raw"},
        "data":{"kind":"outlier","seed":2},"kernel":{"clamp":10}})";

Case base_case() { return parse_case(kBase, ""); }

RunResult run(const Case& c, uint32_t threads = 1, const std::string& schedule = "") {
  RunOptions options;
  options.threads = threads;
  options.schedule = schedule;
  RunResult result = simulate(c, options);
  for (const Finding& f : result.findings)
    INFO(finding_class_name(f.kind), " ", step_name(f.step), ": ", f.text);
  REQUIRE(result.findings.empty());
  REQUIRE(result.launches.size() == c.launches.size());
  return result;
}

StageDigests digests(const Case& c, const std::string& schedule = "") {
  return digest_stages(run(c, 1, schedule).launches.back());
}

}  // namespace

TEST_CASE("simulation: every stage equals the naive path") {
  const Case c = base_case();
  WeightCache cache;
  const LayerResult naive = run_naive(make_problem(c, 0, cache));
  const RunResult sim = run(c);
  const auto difference = first_difference(sim.launches[0], naive);
  if (difference) FAIL(describe(*difference, "sim", "naive"));
  CHECK(naive.rows.size() > 100);
}

TEST_CASE("simulation: no stage depends on the schedule") {
  const StageDigests expected = digests(base_case());
  for (const char* schedule :
       {"random:1", "random:2", "random:3", "pct:1:3", "pct:2:5", "timed", "slow:dispatch@0",
        "slow:load_a@1", "slow:load_b@0", "slow:math@0", "slow:math@1", "replay:step:7"})
    CHECK_MESSAGE(digests(base_case(), schedule) == expected, schedule);
}

TEST_CASE("simulation: no stage depends on the kernel's shape") {
  const StageDigests expected = digests(base_case());
  const auto check = [&](const char* what, auto change) {
    Case c = base_case();
    change(c.kernel);
    CHECK_MESSAGE(digests(c) == expected, what);
    CHECK_MESSAGE(digests(c, "random:9") == expected, what);
  };
  for (const uint32_t sms : {1u, 2u, 3u, 8u})
    check("sms_per_rank", [&](KernelOptions& k) { k.sms_per_rank = sms; });
  check("block_m", [](KernelOptions& k) { k.block_m = 128; });
  for (const uint32_t stages : {1u, 2u, 5u, 6u})
    check("stages", [&](KernelOptions& k) { k.stages = stages; });
  for (const uint32_t blocks : {5u, 9u, 40u})
    check("ring_blocks", [&](KernelOptions& k) { k.ring_blocks = blocks; });
  for (const uint32_t wave : {0u, 1u, 3u})
    check("wave", [&](KernelOptions& k) {
      k.scheduler = SchedulerPolicy::Wave;
      k.experts_per_wave = wave;
    });
}

TEST_CASE("simulation: no stage depends on capacity, poison, landing or padding") {
  const StageDigests expected = digests(base_case());
  const auto check = [&](const char* what, auto change) {
    Case c = base_case();
    change(c);
    CHECK_MESSAGE(digests(c) == expected, what);
    CHECK_MESSAGE(digests(c, "random:4") == expected, what);
  };
  check("capacity", [](Case& c) {
    c.shape.max_tokens_per_rank = 20000;
    c.launches[0].shape.max_tokens_per_rank = 20000;
  });
  for (const uint8_t poison : {0, 0x38, 0x7F, 0x80})
    check("poison", [&](Case& c) { c.world.poison = poison; });
  for (const Landing landing : {Landing::Late, Landing::Early, Landing::Random})
    check("landing", [&](Case& c) { c.world.landing = landing; });
  check("padding", [](Case& c) { c.world.padding = Padding::Compute; });
  check("late rank", [](Case& c) {
    c.world.late_rank = 1;
    c.world.late_steps = 500;
  });
}

TEST_CASE("simulation: a launch does not depend on the launches before it on the same workspace") {
  Case three = base_case();
  set_launches(three, 3);
  const RunResult together = run(three, 1, "random:2");
  for (size_t i = 0; i < 3; ++i) {
    Case alone = base_case();
    alone.launches = {three.launches[i]};
    CHECK(digest_stages(run(alone).launches[0]) == digest_stages(together.launches[i]));
  }
}

TEST_CASE("simulation: a launch may change the shape on the same workspace") {
  const char* text =
      R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
          "max_tokens_per_rank":64},
          "launches":[{}, {"shape":{"max_tokens_per_rank":32,"hidden":512},"tokens":[32,7]}, {}]})";
  const Case c = parse_case(text, "");
  const RunResult sim = run(c, 1, "random:1");
  WeightCache cache;
  for (size_t i = 0; i < 3; ++i)
    CHECK(!first_difference(sim.launches[i], run_naive(make_problem(c, i, cache))));
}

TEST_CASE("simulation: digests are the same with 1, 2 and 4 threads and twice in a row") {
  for (const char* schedule : {"fifo", "random:5", "pct:3:4", "slow:load_b@1", "timed"}) {
    const RunResult one = run(base_case(), 1, schedule);
    for (const uint32_t threads : {1u, 2u, 4u}) {
      const RunResult again = run(base_case(), threads, schedule);
      CHECK(again.schedule_digest == one.schedule_digest);
      CHECK(again.state_digest == one.state_digest);
    }
  }
}

TEST_CASE("simulation: different seeds are different schedules of the same state") {
  const RunResult a = run(base_case(), 1, "random:1");
  const RunResult b = run(base_case(), 1, "random:2");
  CHECK(a.schedule_digest != b.schedule_digest);
  CHECK(a.state_digest == b.state_digest);
}

TEST_CASE("simulation: the schedule string of a run repeats it") {
  for (const char* schedule : {"fifo", "random:5", "pct:3:4", "slow:math@0", "timed"}) {
    const RunResult first = run(base_case(), 1, schedule);
    const RunResult again = run(base_case(), 1, first.schedule_string);
    CHECK(again.schedule_digest == first.schedule_digest);
  }
}

TEST_CASE("simulation: a recorded run is repeated by its replay string, without the policy") {
  for (const char* schedule : {"random:6", "pct:2:3", "slow:dispatch@1"}) {
    RunOptions options;
    options.threads = 1;
    options.schedule = schedule;
    options.record = true;
    const RunResult recorded = simulate(base_case(), options);
    REQUIRE(recorded.findings.empty());
    REQUIRE(recorded.schedule_string.rfind("replay:", 0) == 0);
    const RunResult again = run(base_case(), 1, recorded.schedule_string);
    CHECK(again.schedule_digest == recorded.schedule_digest);
    CHECK(again.state_digest == recorded.state_digest);
  }
}

TEST_CASE("simulation: a replay that names an agent which cannot run is refused") {
  CHECK_THROWS_AS(run(base_case(), 1, "replay:fifo;1=zz"), InputError);
}

TEST_CASE("simulation: ranks without tokens, and no tokens at all, finish") {
  for (const auto& tokens : std::vector<std::vector<uint32_t>>{{0, 5}, {5, 0}, {0, 0}}) {
    Case c = base_case();
    c.tokens = tokens;
    c.launches[0].tokens = tokens;
    const RunResult sim = run(c, 1, "random:1");
    WeightCache cache;
    CHECK(!first_difference(sim.launches[0], run_naive(make_problem(c, 0, cache))));
  }
}

TEST_CASE(
    "simulation: without tile arithmetic the protocol checks its tags and nothing is left over") {
  for (const char* kernel :
       {R"({})", R"({"block_m":128})", R"({"scheduler":"wave","experts_per_wave":2})",
        R"({"sms_per_rank":1,"stages":1})"}) {
    std::string text = kBase;
    text.replace(text.find(R"("kernel":{"clamp":10})"), 21, std::string(R"("kernel":)") + kernel);
    const Case c = parse_case(text, "");
    RunOptions options;
    options.math = false;
    const RunResult result = simulate(c, options);
    CHECK(result.findings.empty());
    WeightCache cache;
    const Problem problem = make_problem(c, 0, cache);
    uint64_t rows = 0;
    for (const RankInput& rank : problem.ranks)
      for (const int32_t expert : rank.topk_idx) rows += expert != kMaskedExpert;
    CHECK(result.counts.rows_pulled == rows);
    CHECK(result.counts.rows_combined == 48 + 29);
    CHECK(result.counts.invariants_checked > rows);
    CHECK(result.counts.tiles > 0);
  }
}

TEST_CASE("simulation: weights that are small are made once for all launches") {
  class Counted : public SharedWeights {
   public:
    Counted(const DataSpec& data, const Shape& shape)
        : SharedWeights(shape.experts), made_(shape.experts), from_(make_weights(data, shape)) {}
    uint32_t made(uint32_t expert) const { return made_[expert]; }

   private:
    std::shared_ptr<const ExpertWeights> make(uint32_t expert) const override {
      ++made_[expert];
      return from_->expert(expert);
    }
    mutable std::vector<uint32_t> made_;
    std::shared_ptr<const WeightSource> from_;
  };
  Case c = base_case();
  set_launches(c, 3);
  std::shared_ptr<const Counted> counted;
  RunOptions options;
  options.weights = [&](const DataSpec& data, const Shape& shape) {
    return counted = std::make_shared<const Counted>(data, shape);
  };
  const RunResult result = simulate(c, options);
  REQUIRE(result.launches.size() == 3);
  for (uint32_t expert = 0; expert < c.shape.experts; ++expert) CHECK(counted->made(expert) == 1);
}
