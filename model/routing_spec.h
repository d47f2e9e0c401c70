// What a case says about routing, parsed: one struct for all kinds (DESIGN section 7). The case
// reader fills it, the routing generators read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetwin {

enum class RoutingKind : uint8_t {
  Uniform,
  Zipf,
  HotExpert,
  HotRank,
  GroupLimited,
  RoundRobin,
  Explicit,
  Trace,
  Counts,
  File,
};

/// How routing weights are made for kinds that bring none.
enum class RoutingWeights : uint8_t { Normalized, Uniform, Raw };

struct RoutingSpec {
  RoutingKind kind = RoutingKind::Uniform;
  uint64_t seed = 1;
  double masked = 0;        ///< share of slots switched off, 0 to 1
  bool duplicates = false;  ///< each slot drawn by itself
  RoutingWeights weights = RoutingWeights::Normalized;

  double alpha = 1.2;        ///< zipf
  uint32_t expert = 0;       ///< hot_expert
  uint32_t rank = 0;         ///< hot_rank
  double share = 0.9;        ///< hot_expert (default 0.9), hot_rank (default 1)
  uint32_t groups = 0;       ///< group_limited; 0: the number of ranks
  uint32_t topk_groups = 0;  ///< group_limited; 0: min(4, groups)
  uint64_t offset = 0;       ///< round_robin, trace

  std::vector<std::vector<std::vector<int64_t>>> topk_idx;     ///< explicit: [rank][token][k]
  std::vector<std::vector<std::vector<double>>> topk_weights;  ///< explicit, optional: same shape

  std::string path;    ///< trace, counts, file (the data file): resolved against the case file
  std::string model;   ///< counts
  std::string domain;  ///< counts
  uint32_t layer = 0;  ///< counts, and trace from .jsonl

  friend bool operator==(const RoutingSpec&, const RoutingSpec&) = default;
};

}  // namespace moetwin
