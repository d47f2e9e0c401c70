#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/compare.h"
#include "model/digest.h"
#include "model/naive.h"
#include "tests/sample_problem.h"

namespace moetwin {
namespace {

using test::blank_problem;
using test::Codes;
using test::Draw;
using test::draw_problem;
using test::HandWeights;

constexpr uint8_t kOne = 0x38;    // 1
constexpr uint8_t kSmall = 0x08;  // 2^-6

/// Expert `expert` turns a row of ones into 128 in every intermediate channel before the routing
/// weight (gate 64, whose sigmoid is 1, times up 2), and its output channels into
/// `per_channel` * channel 0.
void set_plain_expert(HandWeights& weights, uint32_t expert, float per_channel) {
  ExpertWeights& of = weights.at(expert);
  for (uint64_t i = 0; i < of.w1_codes.size(); ++i) {
    of.w1_codes[i] = i < of.w1_codes.size() / 2 ? kOne : kSmall;
  }
  of.w1_scales[0] = 0.5f;
  for (uint64_t row = 0; row < 128; ++row) of.w2_codes[row * 128] = kOne;
  of.w2_scales[0] = per_channel;
}

/// Four plain experts on `ranks` ranks; H = I = 128; x is all ones.
Problem plain_problem(uint32_t ranks, uint32_t topk, const std::vector<uint32_t>& tokens,
                      const std::vector<float>& per_channel) {
  const Shape shape{ranks, 4, topk, 128, 128, 8};
  Problem problem = blank_problem(shape, tokens);
  auto weights = std::make_shared<HandWeights>(shape);
  for (uint32_t e = 0; e < per_channel.size(); ++e) set_plain_expert(*weights, e, per_channel[e]);
  problem.weights = weights;
  for (RankInput& input : problem.ranks) {
    std::fill(input.x_codes.begin(), input.x_codes.end(), kOne);
  }
  return problem;
}

float y_at(const LayerResult& result, uint64_t row, uint64_t column) {
  return decode_bf16(result.y[row * result.shape.hidden + column]);
}

TEST_CASE("naive: a row that can be computed by hand has the codes, scales and sums of NUMERICS") {
  Problem problem = plain_problem(1, 1, {1}, {3.0f});
  problem.ranks[0].topk_idx = {0};
  problem.ranks[0].topk_weights = {0.5f};
  const LayerResult result = run_naive(problem);
  // w = 64 * 1 * 2 * 0.5 = 64; 64/448 = 0.143 lies between 2^-3 and 2^-2; 64 * 4 = 256 = 0x78.
  CHECK(result.l1_scales == std::vector<float>{0.25f, 0.25f});
  CHECK(result.l1_codes == std::vector<uint8_t>(128, 0x78));
  CHECK(result.l2 == std::vector<uint16_t>(128, encode_bf16(192.0f)));
  CHECK(result.y == std::vector<uint16_t>(128, encode_bf16(192.0f)));
  REQUIRE(result.rows.size() == 1);
  CHECK(result.rows[0].expert == 0);
  CHECK(result.rows[0].weight == 0.5f);
}

TEST_CASE("naive: an activation limit cuts gate and up before they are multiplied") {
  Problem problem = plain_problem(1, 1, {1}, {1.0f});
  problem.ranks[0].topk_idx = {0};
  problem.clamp = 32.0f;
  CHECK(y_at(run_naive(problem), 0, 5) == 64.0f);  // gate 32, up 2
  problem.clamp = 1.0f;
  const float up_one = y_at(run_naive(problem), 0, 5);  // silu(1) = 0.7310586
  CHECK(std::abs(up_one - 0.7310586f) < 0.03f);
}

TEST_CASE("naive: the same expert four times in one top-k is four contributions") {
  Problem problem = plain_problem(2, 4, {1, 0}, {1.0f, 1.0f, 1.0f, 1.0f});
  problem.ranks[0].topk_idx = {3, 3, 3, 3};
  problem.ranks[0].topk_weights = {1.0f, 1.0f, 0.5f, 0.5f};
  const LayerResult result = run_naive(problem);
  CHECK(result.rows.size() == 4);
  // Expert 3 is local expert 1 of rank 1; all slots come from rank 0.
  const std::vector<std::vector<uint32_t>> slots = {{}, {}, {}, {}, {}, {}, {0, 1, 2, 3}, {}};
  CHECK(result.slots == slots);
  CHECK(y_at(result, 0, 0) == 128.0f + 128.0f + 64.0f + 64.0f);
}

TEST_CASE("naive: a masked slot is no row, and its weight may be anything") {
  Problem problem = plain_problem(1, 3, {1}, {1.0f, 2.0f});
  problem.ranks[0].topk_idx = {1, kMaskedExpert, 0};
  problem.ranks[0].topk_weights = {1.0f, std::numeric_limits<float>::quiet_NaN(), 1.0f};
  const LayerResult result = run_naive(problem);
  REQUIRE(result.rows.size() == 2);
  CHECK(result.rows[0].k == 0);
  CHECK(result.rows[1].k == 2);
  CHECK(y_at(result, 0, 0) == 256.0f + 128.0f);
}

TEST_CASE("naive: ranks without tokens take part, and a token without routed slots gives +0") {
  Problem problem = plain_problem(4, 2, {0, 2, 0, 1}, {1.0f, 1.0f, 1.0f, 1.0f});
  problem.ranks[1].topk_idx = {kMaskedExpert, kMaskedExpert, kMaskedExpert, 2};
  const LayerResult result = run_naive(problem);
  CHECK(result.tokens == std::vector<uint32_t>{0, 2, 0, 1});
  for (uint32_t column = 0; column < 128; ++column) {
    CHECK(result.y[column] == 0);
    CHECK(y_at(result, 1, column) == 128.0f);
    CHECK(result.y[2 * 128 + column] == 0);
  }
  problem.ranks[1].topk_idx.assign(4, kMaskedExpert);
  const LayerResult masked = run_naive(problem);
  CHECK(masked.rows.empty());
  CHECK(masked.y == std::vector<uint16_t>(3 * 128, 0));
  for (const Stage stage : kStages) CHECK(has_stage(masked, stage));
}

TEST_CASE("naive: no tokens anywhere is a complete, empty result") {
  const LayerResult result = run_naive(plain_problem(2, 2, {0, 0}, {1.0f}));
  CHECK(result.y.empty());
  CHECK(result.slots.size() == 8);
  CHECK(result.traffic.barriers == 3);
}

TEST_CASE("naive: combine sums in fp32 and in order of k") {
  // Contributions are 128 times these.
  Problem problem = plain_problem(1, 3, {1}, {0x1p24f, 1.0f, -0x1p24f});
  problem.ranks[0].topk_idx = {0, 1, 2};
  CHECK(y_at(run_naive(problem), 0, 0) == 0.0f);
  problem.ranks[0].topk_idx = {0, 2, 1};
  CHECK(y_at(run_naive(problem), 0, 0) == 128.0f);
  problem = plain_problem(1, 3, {1}, {1.0f, 0x1p-9f, -1.0f});
  problem.ranks[0].topk_idx = {0, 1, 2};  // a BF16 running sum would lose the second
  CHECK(y_at(run_naive(problem), 0, 0) == 0.25f);
}

TEST_CASE("naive: more rows than one block gives each row what it gets alone") {
  const Shape shape{1, 2, 1, 128, 128, 200};
  Problem problem = draw_problem(shape, {130}, 5);
  for (int32_t& expert : problem.ranks[0].topk_idx) expert = 1;
  const LayerResult together = run_naive(problem);
  for (const uint32_t token : {0u, 63u, 64u, 127u, 128u, 129u}) {
    Problem alone = blank_problem(shape, {1});
    alone.weights = problem.weights;
    const RankInput& from = problem.ranks[0];
    std::copy_n(from.x_codes.begin() + token * 128, 128, alone.ranks[0].x_codes.begin());
    alone.ranks[0].x_scales[0] = from.x_scales[token];
    alone.ranks[0].topk_idx[0] = from.topk_idx[token];
    alone.ranks[0].topk_weights[0] = from.topk_weights[token];
    const LayerResult single = run_naive(alone);
    CHECK(std::equal(single.y.begin(), single.y.end(), together.y.begin() + token * 128));
  }
}

/// The tokens of a problem, all ranks in order, laid out anew: new token i is old token order[i].
Problem rearranged(const Problem& problem, const std::vector<uint32_t>& order, const Shape& shape,
                   const std::vector<uint32_t>& tokens) {
  struct Place {
    uint32_t rank;
    uint32_t token;
  };
  std::vector<Place> places;
  for (uint32_t rank = 0; rank < problem.ranks.size(); ++rank) {
    for (uint32_t token = 0; token < problem.ranks[rank].num_tokens; ++token) {
      places.push_back({rank, token});
    }
  }
  Problem out = blank_problem(shape, tokens);
  out.weights = problem.weights;
  uint64_t next = 0;
  for (RankInput& input : out.ranks) {
    for (uint32_t token = 0; token < input.num_tokens; ++token) {
      const Place place = places[order[next++]];
      const RankInput& from = problem.ranks[place.rank];
      const auto copy = [&](const auto& source, auto& target, uint64_t width) {
        std::copy_n(source.begin() + place.token * width, width, target.begin() + token * width);
      };
      copy(from.x_codes, input.x_codes, shape.hidden);
      copy(from.x_scales, input.x_scales, shape.hidden_blocks());
      copy(from.topk_idx, input.topk_idx, shape.topk);
      copy(from.topk_weights, input.topk_weights, shape.topk);
    }
  }
  return out;
}

TEST_CASE("naive: permuting the tokens permutes y") {
  const Shape shape{2, 4, 3, 128, 128, 8};
  const Problem problem = draw_problem(shape, {5, 7}, 6);
  const LayerResult before = run_naive(problem);
  std::vector<uint32_t> order(12);
  std::iota(order.begin(), order.end(), 0);
  Draw draw(9);
  for (uint32_t i = 11; i > 0; --i) std::swap(order[i], order[draw.below(i + 1)]);
  const LayerResult after = run_naive(rearranged(problem, order, shape, {5, 7}));
  CHECK(before.y != after.y);
  for (uint32_t i = 0; i < 12; ++i) {
    CHECK(std::equal(after.y.begin() + i * 128, after.y.begin() + (i + 1) * 128,
                     before.y.begin() + order[i] * 128));
  }
}

TEST_CASE("naive: y and the expert rows do not depend on ranks, capacity or threads") {
  const Problem problem = draw_problem({1, 8, 3, 128, 128, 12}, {12}, 7);
  const LayerResult one = run_naive(problem);
  std::vector<uint32_t> order(12);
  std::iota(order.begin(), order.end(), 0);
  const std::vector<std::vector<uint32_t>> layouts = {
      {12, 0}, {5, 7}, {3, 0, 9, 0}, {1, 2, 1, 2, 1, 2, 1, 2}};
  for (const std::vector<uint32_t>& tokens : layouts) {
    const Shape shape{static_cast<uint32_t>(tokens.size()), 8, 3, 128, 128, 5000};
    const LayerResult many = run_naive(rearranged(problem, order, shape, tokens));
    CHECK(many.y == one.y);
    CHECK(many.l1_codes == one.l1_codes);
    CHECK(many.l2 == one.l2);
  }
  for (const uint32_t threads : {1u, 2u, 4u}) {
    const LayerResult again = run_naive(problem, {threads});
    CHECK(digest_stages(again) == digest_stages(one));
    CHECK(again.traffic == one.traffic);
  }
}

/// Counts how many experts are alive and how often each was made.
class CountingWeights : public WeightSource {
 public:
  CountingWeights(std::shared_ptr<const WeightSource> source, uint32_t experts)
      : source_(std::move(source)), made_(experts) {}

  std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const override {
    ++made_[expert];
    const int now = ++alive_;
    int peak = peak_.load();
    while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
    }
    return {new ExpertWeights(*source_->expert(expert)), [this](const ExpertWeights* weights) {
              --alive_;
              delete weights;
            }};
  }

  int made(uint32_t expert) const { return made_[expert]; }
  int alive() const { return alive_; }
  int peak() const { return peak_; }

 private:
  std::shared_ptr<const WeightSource> source_;
  mutable std::vector<std::atomic<int>> made_;
  mutable std::atomic<int> alive_{0};
  mutable std::atomic<int> peak_{0};
};

TEST_CASE("naive: an expert's weights are made once, if it has rows, and dropped after the last") {
  const Shape shape{2, 8, 1, 128, 128, 400};
  Problem problem = draw_problem(shape, {300, 5}, 8);
  std::set<uint32_t> used;
  for (RankInput& input : problem.ranks) {
    for (uint64_t i = 0; i < input.topk_idx.size(); ++i) {
      input.topk_idx[i] = i < 200 ? 2 : (i % 2 == 0 ? 5 : 7);
      used.insert(static_cast<uint32_t>(input.topk_idx[i]));
    }
  }
  const auto counting = std::make_shared<CountingWeights>(problem.weights, 8);
  problem.weights = counting;
  run_naive(problem, {1});
  for (uint32_t expert = 0; expert < 8; ++expert) {
    CHECK(counting->made(expert) == (used.count(expert) != 0 ? 1 : 0));
  }
  CHECK(counting->alive() == 0);
  CHECK(counting->peak() == 1);
  run_naive(problem, {2});
  CHECK(counting->alive() == 0);
  CHECK(counting->peak() <= 2);
}

TEST_CASE("naive: traffic counts what crosses ranks, and buffers hold every row twice each way") {
  Problem problem = plain_problem(2, 2, {2, 1}, {1.0f, 1.0f, 1.0f, 1.0f});
  // Experts 0, 1 live on rank 0. Crossing: two rows from rank 0 and one from rank 1; two stay.
  problem.ranks[0].topk_idx = {0, 2, 3, kMaskedExpert};
  problem.ranks[1].topk_idx = {1, 2};
  const Traffic traffic = run_naive(problem).traffic;
  const uint64_t crossing = 3;
  const uint64_t rows = 5;
  const uint64_t token_bytes = 128 + 4;
  const uint64_t count_table = 2 * 4;
  CHECK(traffic.index_bytes == crossing * 8 + 2 * count_table);
  CHECK(traffic.dispatch_bytes == crossing * token_bytes);
  CHECK(traffic.combine_bytes == crossing * 256);
  CHECK(traffic.buffer_bytes == 2 * (rows * (8 + token_bytes + 256) + 4 * count_table));
  CHECK(traffic.barriers == 3);
}

TEST_CASE("naive: an expert id outside -1..E-1 is refused by name, and a source's error arrives") {
  Problem problem = plain_problem(2, 2, {1, 1}, {1.0f});
  for (const int32_t id : {4, -2, std::numeric_limits<int32_t>::max()}) {
    problem.ranks[1].topk_idx[1] = id;
    CHECK_THROWS_AS(run_naive(problem), InputError);
  }
  class Failing : public WeightSource {
    std::shared_ptr<const ExpertWeights> expert(uint32_t) const override {
      throw InputError("weights: broken");
    }
  };
  problem.ranks[1].topk_idx[1] = 3;
  problem.weights = std::make_shared<Failing>();
  CHECK_THROWS_WITH_AS(run_naive(problem), "weights: broken", InputError);
}

}  // namespace
}  // namespace moetwin
