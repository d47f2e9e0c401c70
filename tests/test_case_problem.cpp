#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/check.h"
#include "model/case.h"

namespace moetwin {
namespace {

Case small_case(const std::string& rest) {
  return parse_case(R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":128,)"
                    R"("max_tokens_per_rank":8},"tokens":[5,3],"kernel":{"clamp":7},)" +
                        rest + "}",
                    "");
}

bool same_inputs(const Problem& a, const Problem& b) {
  bool same = a.ranks.size() == b.ranks.size();
  for (size_t rank = 0; same && rank < a.ranks.size(); ++rank) {
    const RankInput& left = a.ranks[rank];
    const RankInput& right = b.ranks[rank];
    same = left.num_tokens == right.num_tokens && left.x_codes == right.x_codes &&
           left.x_scales == right.x_scales && left.topk_idx == right.topk_idx &&
           left.topk_weights == right.topk_weights;
  }
  return same;
}

TEST_CASE("case: a problem has the case's sizes, clamp, routing, activations and weights") {
  const Case c =
      small_case(R"("routing":{"kind":"explicit","topk_idx":[[[0,1],[2,3],[1,1],[0,-1],[3,2]],)"
                 R"([[0,1],[2,3],[1,0]]]})");
  WeightCache cache;
  const Problem problem = make_problem(c, 0, cache);
  CHECK(problem.shape == c.shape);
  CHECK(problem.clamp == 7.0f);
  REQUIRE(problem.ranks.size() == 2);
  CHECK(problem.ranks[0].num_tokens == 5);
  CHECK(problem.ranks[1].num_tokens == 3);
  CHECK(problem.ranks[0].topk_idx == std::vector<int32_t>{0, 1, 2, 3, 1, 1, 0, -1, 3, 2});
  CHECK(problem.ranks[1].topk_weights.size() == 6);
  CHECK(problem.ranks[0].x_codes.size() == 5 * 128);
  CHECK(problem.ranks[1].x_scales.size() == 3);
  CHECK(problem.weights->expert(3)->w1_codes.size() == 256 * 128);
  CHECK_THROWS_AS(make_problem(c, 1, cache), InternalError);
}

TEST_CASE("case: launches draw anew from seed + i, and weights stay") {
  const Case c = small_case(R"("routing":{"seed":10},"data":{"seed":20},"launches":3)");
  const Case later = small_case(R"("routing":{"seed":12},"data":{"seed":22})");
  WeightCache cache;
  WeightCache later_cache;
  const Problem first = make_problem(c, 0, cache);
  const Problem third = make_problem(c, 2, cache);
  CHECK_FALSE(same_inputs(first, third));
  CHECK(same_inputs(third, make_problem(later, 0, later_cache)));
  CHECK(first.weights == third.weights);
  const Problem other = make_problem(later, 0, later_cache);
  CHECK(first.weights->expert(1)->w1_codes != other.weights->expert(1)->w1_codes);
}

TEST_CASE("case: launches share weights while their sizes agree, whatever their capacity") {
  const Case c =
      small_case(R"("launches":[{},{"shape":{"max_tokens_per_rank":9}},{"shape":{"hidden":256}},)"
                 R"({"shape":{"intermediate":256}},{"data":{"seed":5}}])");
  WeightCache cache;
  std::vector<Problem> problems;
  for (size_t i = 0; i < c.launches.size(); ++i) problems.push_back(make_problem(c, i, cache));
  CHECK(problems[0].weights == problems[1].weights);
  CHECK(problems[0].weights != problems[2].weights);
  CHECK(problems[2].weights != problems[3].weights);
  CHECK(problems[0].weights == problems[4].weights);
  CHECK(problems[2].weights->expert(0)->w1_codes.size() == 256 * 256);
  CHECK(problems[3].weights->expert(0)->w2_codes.size() == 128 * 256);
  CHECK(same_inputs(problems[0], problems[1]));
  CHECK_FALSE(same_inputs(problems[0], problems[4]));
}

}  // namespace
}  // namespace moetwin
