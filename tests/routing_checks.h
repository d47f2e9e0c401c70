// What tests of routing share: the drawn kinds, short ways to route and to look at the result.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/routing.h"
#include "tests/input_checks.h"
#include "tests/paths.h"

namespace moetwin::test {

using Ranks = std::vector<RankInput>;

inline Ranks route(const RoutingSpec& spec, const Shape& shape,
                   const std::vector<uint32_t>& tokens) {
  Ranks ranks;
  make_routing(spec, shape, tokens, ranks);
  return ranks;
}

inline RoutingSpec spec_of(RoutingKind kind, uint64_t seed = 1) {
  RoutingSpec spec;
  spec.kind = kind;
  spec.seed = seed;
  if (kind == RoutingKind::HotRank) spec.share = 1;
  spec.path = test_data("expert_counts_olmoe_mixtral.csv");
  spec.model = "OLMoE-1B-7B-0924";
  spec.domain = "arxiv";
  spec.layer = 7;
  return spec;
}

constexpr RoutingKind kDrawnKinds[] = {
    RoutingKind::Uniform, RoutingKind::Zipf,         RoutingKind::HotExpert,
    RoutingKind::HotRank, RoutingKind::GroupLimited, RoutingKind::RoundRobin,
    RoutingKind::Counts,
};

inline Shape shape_of(uint32_t ranks, uint32_t experts, uint32_t topk, uint32_t capacity) {
  return {ranks, experts, topk, 128, 128, capacity};
}

/// Tokens of each expert over all ranks.
inline std::vector<double> loads(const Ranks& ranks, uint32_t experts) {
  std::vector<double> counts(experts, 0);
  for (const RankInput& rank : ranks) {
    for (const int32_t e : rank.topk_idx) {
      if (e >= 0) ++counts[static_cast<size_t>(e)];
    }
  }
  return counts;
}

inline std::span<const int32_t> slots_of(const RankInput& rank, uint32_t token, uint32_t topk) {
  return std::span(rank.topk_idx).subspan(size_t{token} * topk, topk);
}

inline bool are_distinct(std::span<const int32_t> slots) {
  return std::set<int32_t>(slots.begin(), slots.end()).size() == slots.size();
}

inline std::string digest_of(const Ranks& ranks) {
  test::ByteDigest digest;
  for (const RankInput& rank : ranks) {
    digest.add(rank.topk_idx);
    digest.add(rank.topk_weights);
  }
  return digest.text();
}

inline bool same_routing(const RankInput& a, const RankInput& b) {
  return a.num_tokens == b.num_tokens && a.topk_idx == b.topk_idx &&
         a.topk_weights == b.topk_weights;
}

}  // namespace moetwin::test
