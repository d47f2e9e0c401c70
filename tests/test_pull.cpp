// Which dispatch warp pulls what: whole rows, or, where every SM has one row at most, the chunks of
// a row in turn with the other warp of its SM.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "cpu_sim/agent_numbers.h"
#include "cpu_sim/coverage.h"
#include "cpu_sim/simulate.h"
#include "cpu_sim/simulation.h"
#include "fuzz/differential.h"
#include "model/checked_plan.h"
#include "model/timeline.h"

namespace moetwin {
namespace {

constexpr uint32_t kHidden = 8448;  // 3 chunks of 2816
constexpr uint32_t kSms = 6;

/// `tokens` of them on one rank, top-2.
Case case_of(uint32_t tokens) {
  Case c;
  c.shape = {1, 4, 2, kHidden, 128, tokens};
  c.tokens = {tokens};
  c.kernel.stages = 2;
  c.kernel.sms_per_rank = kSms;
  set_launches(c, 2);
  return c;
}

/// The dispatch warps that stored each chunk of each pool row, by their numbers on the rank.
class PullObserver : public DataObserver {
 public:
  explicit PullObserver(const KernelPlan& plan) : plan_(plan) {}

  void on_data(const DataEvent& event) override {
    if (event.op != DataOp::Land || event.step != Step::PullStore || event.at.launch != 0) return;
    CHECK(address_region(event.place) == static_cast<uint32_t>(Region::PoolX));
    const uint64_t byte = address_offset(event.place);
    const auto row = static_cast<uint32_t>(byte / kHidden);
    CHECK(byte % kHidden % plan_.pull_chunk_bytes == 0);
    const auto chunk = static_cast<uint32_t>(byte % kHidden / plan_.pull_chunk_bytes);
    const uint32_t per_sm = agents_per_cta(plan_);
    CHECK(event.agent % per_sm < kDispatchWarps);
    CHECK(rows[row]
              .emplace(chunk, event.agent / per_sm * kDispatchWarps + event.agent % per_sm)
              .second);
  }

  std::map<uint32_t, std::map<uint32_t, uint32_t>> rows;

 private:
  KernelPlan plan_;
};

}  // namespace

TEST_CASE(
    "pull: warps share a row's chunks where an SM has one row at most, else take whole rows") {
  for (uint32_t tokens = 1; tokens <= 5; ++tokens) {
    CAPTURE(tokens);
    const Case c = case_of(tokens);
    const KernelPlan plan = checked_plan(c.shape, c.kernel, false, true);
    REQUIRE(plan.pull_chunks == 3);
    PullObserver pulls(plan);
    CoverageObserver coverage(plan, 1);
    Timeline timeline;
    Probes probes;
    probes.data = &pulls;
    probes.observer = &coverage;
    probes.timeline = &timeline;
    RunOptions options;
    options.check = true;
    REQUIRE(simulate(c, options, {}, probes).findings.empty());
    const Judged judged = judge_case(c, {});  // against the naive path
    CHECK_MESSAGE(judged.cause.none(), judged.finding.text);
    CHECK(pulls.rows.size() == 2 * tokens);
    std::set<uint32_t> sms;
    for (const auto& [row, chunks] : pulls.rows) {
      REQUIRE(chunks.size() == 3);
      const uint32_t sm = chunks.at(0) / kDispatchWarps;
      sms.insert(sm);
      if (2 * tokens <= kSms) {
        CHECK(chunks.at(0) == sm * kDispatchWarps);
        CHECK(chunks.at(1) == sm * kDispatchWarps + 1);
        CHECK(chunks.at(2) == sm * kDispatchWarps);
      } else {
        CHECK(chunks.at(1) == chunks.at(0));
        CHECK(chunks.at(2) == chunks.at(0));
      }
    }
    CHECK(sms.size() == (2 * tokens < kSms ? 2 * tokens : kSms));
    // Whoever reads the counter of a block's rows knows that a row adds its chunks.
    CHECK(coverage.coverage().laps == 1);
    for (uint32_t lap = 2; lap < kLapSignals; ++lap)
      CHECK(!judged.signals[kNumSignals - kLapSignals + lap]);
    int64_t most = 0;
    const CounterSeries series = counter_series(timeline);
    for (const CounterPoint& point : series[0][static_cast<uint32_t>(RankCounter::PoolRing)])
      most = std::max(most, point.value);
    CHECK(most >= 1);
    CHECK(most <= c.shape.experts);  // an expert has one block at most
  }
}

}  // namespace moetwin
