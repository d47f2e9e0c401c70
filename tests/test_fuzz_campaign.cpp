// Campaigns: what they find does not depend on how they are run, survives interruption, and lies on
// disk as cases that repeat it.
#include <doctest/doctest.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/check.h"
#include "fuzz/campaign.h"
#include "fuzz/campaign_files.h"
#include "fuzz/choices.h"
#include "fuzz/generation.h"
#include "fuzz/generator.h"
#include "fuzz/kept_weights.h"
#include "model/case.h"
#include "model/data.h"
#include "tests/command_line_program.h"

using namespace moetwin;

namespace {

/// Cheap cases with findings to be found.
CampaignOptions planted_options() {
  CampaignOptions options;
  options.seed = 5;
  options.cases = 2 * kGeneration;
  options.plant = "F25c";
  options.math = false;
  options.relations = 0;
  options.check = 0;
  return options;
}

CampaignState run(const CampaignOptions& options) {
  SinglePeer peer;
  CampaignState state;
  run_campaign(options, peer, state, {});
  return state;
}

/// Everything but the time it took.
void check_same(const CampaignState& x, const CampaignState& y) {
  CHECK(x.next == y.next);
  CHECK(x.rows == y.rows);
  CHECK(x.checked == y.checked);
  CHECK(x.related == y.related);
  CHECK(x.signals == y.signals);
  CHECK(x.corpus == y.corpus);
  REQUIRE(x.findings.size() == y.findings.size());
  for (const auto& [cause, finding] : x.findings) {
    REQUIRE(y.findings.count(cause) == 1);
    const CampaignFinding& other = y.findings.at(cause);
    CHECK(finding.index == other.index);
    CHECK(finding.times == other.times);
    CHECK(finding.draws == other.draws);
  }
}

/// Two campaigns in one process that wait for each other as processes would.
class PairPeers : public Peers {
 public:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::string> given = std::vector<std::string>(2);
    uint32_t arrived = 0;
    uint64_t round = 0;
    std::vector<std::string> all;
  };
  PairPeers(Shared& shared, uint32_t rank) : shared_(shared), rank_(rank) {}
  uint32_t rank() const override { return rank_; }
  uint32_t count() const override { return 2; }
  std::vector<std::string> exchange(const std::string& mine) override {
    std::unique_lock<std::mutex> lock(shared_.mutex);
    shared_.given[rank_] = mine;
    const uint64_t round = shared_.round;
    if (++shared_.arrived == 2) {
      shared_.all = shared_.given;
      shared_.arrived = 0;
      ++shared_.round;
      shared_.changed.notify_all();
    }
    shared_.changed.wait(lock, [&] { return shared_.round != round; });
    return shared_.all;
  }

 private:
  Shared& shared_;
  uint32_t rank_;
};

}  // namespace

TEST_CASE("campaign: jobs, peers and interruptions change nothing it finds") {
  CampaignOptions options = planted_options();
  const CampaignState once = run(options);
  CHECK(once.next == options.cases);
  CHECK(!once.findings.empty());
  CHECK(once.corpus.size() > 10);

  options.jobs = 2;
  check_same(run(options), once);

  options.jobs = 1;
  options.cases = kGeneration;
  CampaignState resumed = run(options);
  options.cases = 2 * kGeneration;
  SinglePeer peer;
  run_campaign(options, peer, resumed, {});
  check_same(resumed, once);

  PairPeers::Shared shared;
  std::vector<CampaignState> states(2);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      PairPeers peers(shared, rank);
      run_campaign(options, peers, states[rank], {});
    });
  for (std::thread& thread : threads) thread.join();
  check_same(states[0], once);
  check_same(states[1], once);
}

TEST_CASE("campaign: another seed tries other cases, and feedback changes them") {
  CampaignOptions options = planted_options();
  options.plant.clear();
  options.cases = kGeneration + 64;
  const CampaignState one = run(options);
  options.seed = 6;
  CHECK(run(options).rows != one.rows);
  options.seed = 5;
  options.feedback = false;
  const CampaignState without = run(options);
  CHECK(without.rows != one.rows);
  CHECK(one.findings.empty());
  for (uint64_t index = 0; index < 64; ++index) {
    Choices draw(options.seed, index);
    CHECK(plan_case(options, without, index).c == draw_case(draw, small_profile()));
  }
}

TEST_CASE("campaign: findings lie on disk as soon as they are known, and repeat the verdict") {
  const ProgramDirectory dir;
  CampaignOptions options = planted_options();
  options.cases = kGeneration;
  options.out = dir.path("found");
  begin_campaign_directory(options.out);
  const CampaignState state = run(options);
  REQUIRE(!state.findings.empty());
  for (const auto& [cause, finding] : state.findings) {
    const std::string text = cause_text(cause);
    CAPTURE(text);
    const Case c = load_case(options.out + "/findings/" + finding.file + ".json");
    CHECK(c.plant == options.plant);
    JudgeOptions judge;
    judge.math = false;
    judge.check = finding.checked;
    CHECK(judge_case(c, judge).cause == cause);
    Choices draw = parse_choices("draws", finding.draws);
    Case drawn = draw_case(draw, small_profile());
    drawn.plant = options.plant;
    CHECK(drawn == c);
    CHECK(std::filesystem::exists(options.out + "/findings/" + finding.file + ".txt"));
  }
  CampaignOptions read;
  const CampaignState loaded = load_campaign(options.out, read);
  check_same(loaded, state);
  CHECK(read.seed == options.seed);
  CHECK(read.plant == options.plant);
  CHECK(read.math == options.math);
  CHECK_THROWS_WITH_AS(begin_campaign_directory(options.out), doctest::Contains("--resume"),
                       InputError);
  CHECK_THROWS_WITH_AS(load_campaign(dir.path("none"), read), doctest::Contains("no campaign"),
                       InputError);
}

TEST_CASE("campaign: faults that the generator does not know are found again") {
  const struct {
    const char* plant;
    const char* kind;
    const char* site;
  } known[] = {
      {"F02a", "proxy", "Linear1Store"},
      {"F04", "proxy", "LoadAScales"},
      {"F33f", "race", "CleanupClear"},
  };
  for (const auto& one : known) {
    CAPTURE(one.plant);
    CampaignOptions options = planted_options();
    options.plant = one.plant;
    options.check = 1;
    options.cases = 96;
    bool found = false;
    for (const auto& entry : run(options).findings)
      found = found || (entry.first.kind == one.kind && entry.first.site == one.site);
    CHECK(found);
  }
}

TEST_CASE("campaign: the yield of a generation survives its way to a peer") {
  GenerationYield yield;
  yield.rows = 12;
  yield.checked = 3;
  yield.stop = true;
  Signals signals;
  signals.set(7);
  signals.set(kNumSignals - 1);
  yield.reached.push_back({9, signals, {1, 0, 35, UINT64_MAX}});
  CampaignFinding finding;
  finding.cause = {"race", "PullStore", "dispatch"};
  finding.index = 9;
  finding.times = 1;
  finding.text = "a \"quoted\"\nline";
  yield.findings.push_back(finding);
  const GenerationYield back = yield_from_text(yield_to_text(yield));
  CHECK(back.rows == 12);
  CHECK(back.checked == 3);
  CHECK(back.stop);
  REQUIRE(back.reached.size() == 1);
  CHECK(back.reached[0].signals == signals);
  CHECK(back.reached[0].draws == yield.reached[0].draws);
  REQUIRE(back.findings.size() == 1);
  CHECK(back.findings[0].cause == finding.cause);
  CHECK(back.findings[0].text == finding.text);
  CHECK_THROWS_AS(yield_from_text("{}"), InputError);
}

TEST_CASE("kept weights: the bits of make_weights, for every kind, and within their bytes") {
  const KeptWeights kept(300'000);
  Shape shape;
  shape.ranks = 2;
  shape.experts = 4;
  shape.topk = 1;
  shape.hidden = 256;
  shape.intermediate = 128;
  shape.max_tokens_per_rank = 1;
  for (const DataKind kind : {DataKind::Normal, DataKind::Outlier, DataKind::SameSign,
                              DataKind::HeavyTail, DataKind::Ties, DataKind::Extreme}) {
    DataSpec spec;
    spec.kind = kind;
    spec.seed = 3;
    spec.nan = kind == DataKind::Extreme;
    const auto made = make_weights(spec, shape);
    for (int round = 0; round < 2; ++round) {
      const auto source = kept.maker()(spec, shape);
      for (uint32_t expert = 0; expert < shape.experts; ++expert) {
        const auto x = source->expert(expert);
        const auto y = made->expert(expert);
        CHECK(x->w1_codes == y->w1_codes);
        CHECK(x->w1_scales == y->w1_scales);
        CHECK(x->w2_codes == y->w2_codes);
        CHECK(x->w2_scales == y->w2_scales);
      }
    }
    CHECK(kept.bytes() <= 300'000);
    CHECK(kept.bytes() > 90'000);
  }
}
