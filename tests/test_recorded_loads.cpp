// Recorded loads of experts as random cases carry them: the numbers of the recording, routing in
// proportion to them, and where the generator draws them.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "fuzz/choices.h"
#include "fuzz/generator.h"
#include "fuzz/profile.h"
#include "fuzz/recorded_loads.h"
#include "model/trace_files.h"
#include "tests/paths.h"

using namespace moetwin;

namespace {

/// Rows of each expert, masked slots left out.
std::vector<uint64_t> rows_of(const RoutingSpec& routing, uint32_t experts) {
  std::vector<uint64_t> rows(experts, 0);
  for (const auto& rank : routing.topk_idx)
    for (const auto& token : rank)
      for (const int64_t id : token)
        if (id != kMaskedExpert) ++rows[static_cast<size_t>(id)];
  return rows;
}

}  // namespace

TEST_CASE("recorded_loads: they are the recorded counts, as parts of 10,000 tokens") {
  const std::string file = test_data("expert_counts_olmoe_mixtral.csv");
  std::set<size_t> sizes;
  for (const RecordedLoads& loads : recorded_loads()) {
    CAPTURE(loads.model);
    CAPTURE(loads.domain);
    CAPTURE(loads.layer);
    const auto experts = static_cast<uint32_t>(loads.of_expert.size());
    const std::vector<uint64_t> counts =
        read_expert_counts(file, {loads.model, loads.domain, loads.layer}, experts);
    const uint64_t topk = experts == 8 ? 2 : 8;
    const uint64_t tokens = std::accumulate(counts.begin(), counts.end(), uint64_t{0}) / topk;
    for (uint32_t e = 0; e < experts; ++e) {
      CAPTURE(e);
      const uint64_t rounded = (counts[e] * kLoadUnit + tokens / 2) / tokens;
      CHECK(loads.of_expert[e] == std::max<uint64_t>(rounded, 1));
    }
    sizes.insert(experts);
  }
  CHECK(sizes == std::set<size_t>{8, 64});
}

TEST_CASE("recorded_loads: routing follows the loads from the chosen expert on") {
  const RecordedLoads& loads = recorded_loads()[0];
  constexpr uint32_t kFirst = 60;
  const Shape shape{2, 16, 2, 128, 128, 20'000};
  const std::vector<uint32_t> tokens = {20'000, 10'000};
  RoutingSpec like;
  like.seed = 5;
  like.masked = 0.25;
  like.weights = RoutingWeights::Raw;
  const RoutingSpec routing = recorded_routing(loads, kFirst, like, shape, tokens);
  CHECK(routing.kind == RoutingKind::Explicit);
  CHECK(routing.seed == like.seed);
  CHECK(routing.weights == like.weights);
  REQUIRE(routing.topk_idx.size() == 2);
  CHECK(routing.topk_idx[0].size() == tokens[0]);
  CHECK(routing.topk_idx[1].size() == tokens[1]);
  for (const auto& token : routing.topk_idx[1])
    CHECK((token[0] != token[1] || token[0] == kMaskedExpert));
  const std::vector<uint64_t> rows = rows_of(routing, shape.experts);
  uint64_t all = 0;
  for (uint32_t e = 0; e < shape.experts; ++e) all += loads.of_expert[(kFirst + e) % 64];
  for (uint32_t e = 0; e < shape.experts; ++e) {
    CAPTURE(e);
    // Half of the rows of 30,000 tokens would go to expert 4 (recorded expert 0), once a token
    // each.
    const double share = static_cast<double>(loads.of_expert[(kFirst + e) % 64]) / double(all);
    REQUIRE(share < 0.5);  // above, an expert is taken once a token and no more
    const double wanted = 0.75 * 2 * 30'000 * share;
    CHECK(static_cast<double>(rows[e]) == doctest::Approx(wanted).epsilon(0.08));
  }
}

TEST_CASE("recorded_loads: a case draws them behind everything else") {
  uint32_t tried = 0;
  for (uint64_t index = 0; index < 200; ++index) {
    CAPTURE(index);
    Choices by_seed(31, index);
    const Case plain = draw_case(by_seed, small_profile());
    if (plain.launches.size() != 1 || plain.routing.kind == RoutingKind::Explicit) continue;
    ++tried;
    // The last two draws are whether there are recorded loads, and wide tiles.
    std::vector<uint64_t> draws = by_seed.drawn();
    const uint64_t tiles = draws.back();
    draws.resize(draws.size() - 2);
    constexpr uint64_t kTrue = 99;
    constexpr uint32_t kLayer = 3;
    constexpr uint32_t kFirst = 7;
    for (const uint64_t next : {kTrue, uint64_t{kLayer}, uint64_t{kFirst}, tiles})
      draws.push_back(next);
    Choices more(draws);
    Case loaded = plain;
    loaded.routing = recorded_routing(recorded_loads()[kLayer], kFirst, plain.routing, plain.shape,
                                      plain.tokens);
    loaded.launches[0].routing = loaded.routing;
    CHECK(draw_case(more, small_profile()) == loaded);
  }
  CHECK(tried > 50);
}

TEST_CASE("generator: BLOCK_N 256 is the last draw, so a sequence without it keeps its case") {
  uint32_t wide = 0;
  for (uint64_t index = 0; index < 600; ++index) {
    CAPTURE(index);
    Choices by_seed(32, index);
    const Case c = draw_case(by_seed, small_profile());
    std::vector<uint64_t> draws = by_seed.drawn();
    draws.pop_back();
    Choices without(draws);
    Case plain = draw_case(without, small_profile());
    CHECK(plain.kernel.block_n == 128);
    if (c.kernel.block_n == 256) {
      ++wide;
      CHECK(widen_tiles(plain));
    }
    CHECK(plain == c);
  }
  CHECK(wide > 40);
  CHECK(wide < 200);
}
