#include "fuzz/shrink_moves.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "common/kernel_plan.h"

namespace moetwin {
namespace {

/// Slots that are written out at the most.
constexpr uint64_t kMostExplicitSlots = 4096;

bool is_explicit(const Case& c) {
  return std::all_of(c.launches.begin(), c.launches.end(), [](const LaunchSpec& launch) {
    return launch.routing.kind == RoutingKind::Explicit;
  });
}

/// The case's own fields are those of its first launch, but for x's seed.
void follow_first_launch(Case& c) {
  c.shape = c.launches.front().shape;
  c.tokens = c.launches.front().tokens;
  c.routing = c.launches.front().routing;
}

/// A smaller value of `value`: the least, the middle, one below.
std::vector<uint32_t> smaller(uint32_t value, uint32_t least) {
  std::vector<uint32_t> values;
  for (const uint32_t next : {least, least + (value - least) / 2, value - 1})
    if (value > least && next < value &&
        std::find(values.begin(), values.end(), next) == values.end())
      values.push_back(next);
  return values;
}

std::vector<Case> fewer_launches(const Case& c) {
  std::vector<Case> cases;
  for (size_t out = 0; c.launches.size() > 1 && out < c.launches.size(); ++out) {
    Case smaller_case = c;
    smaller_case.launches.erase(smaller_case.launches.begin() + static_cast<ptrdiff_t>(out));
    follow_first_launch(smaller_case);
    cases.push_back(std::move(smaller_case));
  }
  return cases;
}

/// Fits what names ranks and experts to a shape that has fewer.
void fit_names(Case& c) {
  World& world = c.world;
  if (world.late_rank && *world.late_rank >= c.shape.ranks) world.late_rank = c.shape.ranks - 1;
  std::erase_if(world.held_sms, [&](const HeldSm& held) {
    return held.rank >= c.shape.ranks || held.sm >= c.kernel.sms_per_rank;
  });
  const size_t at = c.schedule.find('@');
  if (c.schedule.compare(0, 5, "slow:") == 0 && at != std::string::npos &&
      std::stoul(c.schedule.substr(at + 1)) >= c.shape.ranks)
    c.schedule = c.schedule.substr(0, at + 1) + std::to_string(c.shape.ranks - 1);
  for (LaunchSpec& launch : c.launches) {
    RoutingSpec& r = launch.routing;
    r.expert = std::min(r.expert, launch.shape.experts - 1);
    r.rank = std::min(r.rank, launch.shape.ranks - 1);
    if (r.groups != 0 && launch.shape.experts % r.groups != 0) r.groups = r.topk_groups = 0;
    for (auto& rank : r.topk_idx)
      for (auto& token : rank)
        for (int64_t& id : token)
          if (id >= 0) id %= launch.shape.experts;
  }
  follow_first_launch(c);
}

/// Experts a rank stay, so that fewer ranks mean fewer experts too. Those of a kept rank stay its
/// own; what was routed to a rank that goes is spread over the others.
Case with_ranks(const Case& c, const std::vector<uint32_t>& kept) {
  Case result = c;
  const uint32_t local = c.shape.num_local_experts();
  const auto new_id = [&](int64_t id) {
    const auto rank = static_cast<uint32_t>(id / local);
    const auto place = std::find(kept.begin(), kept.end(), rank);
    return place == kept.end() ? id : (place - kept.begin()) * local + id % local;
  };
  for (LaunchSpec& launch : result.launches) {
    const std::vector<uint32_t> tokens = launch.tokens;
    const auto idx = launch.routing.topk_idx;
    const auto weights = launch.routing.topk_weights;
    launch.shape.ranks = static_cast<uint32_t>(kept.size());
    launch.shape.experts = launch.shape.ranks * local;
    launch.tokens.clear();
    launch.routing.topk_idx.clear();
    launch.routing.topk_weights.clear();
    for (const uint32_t rank : kept) {
      launch.tokens.push_back(tokens[rank]);
      if (!idx.empty()) launch.routing.topk_idx.push_back(idx[rank]);
      if (!weights.empty()) launch.routing.topk_weights.push_back(weights[rank]);
    }
    for (auto& rank : launch.routing.topk_idx)
      for (auto& token : rank)
        for (int64_t& id : token)
          if (id >= 0) id = new_id(id);
  }
  fit_names(result);
  return result;
}

std::vector<uint32_t> ranks_but(const Case& c, uint32_t out) {
  std::vector<uint32_t> kept;
  for (uint32_t rank = 0; rank < c.shape.ranks; ++rank)
    if (rank != out) kept.push_back(rank);
  return kept;
}

/// Rank `out` is gone, its tokens are now those of `into`.
Case with_tokens_moved(Case c, uint32_t out, uint32_t into) {
  for (LaunchSpec& launch : c.launches) {
    const auto append = [&](auto& ranks) {
      if (!ranks.empty())
        ranks[into].insert(ranks[into].end(), ranks[out].begin(), ranks[out].end());
    };
    append(launch.routing.topk_idx);
    append(launch.routing.topk_weights);
    launch.tokens[into] += launch.tokens[out];
  }
  for (LaunchSpec& launch : c.launches)
    launch.shape.max_tokens_per_rank =
        std::max(launch.shape.max_tokens_per_rank, launch.tokens[into]);
  return with_ranks(c, ranks_but(c, out));
}

std::vector<Case> fewer_ranks(const Case& c) {
  std::vector<Case> cases;
  if (c.shape.ranks == 1) return cases;
  for (uint32_t rank = 0; rank < c.shape.ranks; ++rank) cases.push_back(with_ranks(c, {rank}));
  for (uint32_t out = 0; c.shape.ranks > 2 && out < c.shape.ranks; ++out)
    cases.push_back(with_ranks(c, ranks_but(c, out)));
  for (uint32_t out = 0; out < c.shape.ranks; ++out)
    cases.push_back(with_tokens_moved(c, out, out == 0 ? 1 : 0));
  return cases;
}

/// Local expert `out` of every rank is gone, what was routed to it masked.
Case without_expert(const Case& c, uint32_t out) {
  Case fewer = c;
  const uint32_t local = c.shape.num_local_experts();
  for (LaunchSpec& launch : fewer.launches) {
    launch.shape.experts = launch.shape.ranks * (local - 1);
    for (auto& rank : launch.routing.topk_idx)
      for (auto& token : rank)
        for (int64_t& id : token) {
          if (id < 0) continue;
          const int64_t place = id % local;
          id = place == out ? kMaskedExpert : id - id / local - (place > out ? 1 : 0);
        }
  }
  if (fewer.kernel.experts_per_wave >= local) fewer.kernel.experts_per_wave = 0;
  fit_names(fewer);
  return fewer;
}

std::vector<Case> fewer_experts(const Case& c) {
  std::vector<Case> cases;
  for (const uint32_t local : smaller(c.shape.num_local_experts(), 1)) {
    Case fewer = c;
    for (LaunchSpec& launch : fewer.launches) launch.shape.experts = launch.shape.ranks * local;
    if (fewer.kernel.experts_per_wave > local) fewer.kernel.experts_per_wave = 0;
    fit_names(fewer);
    cases.push_back(std::move(fewer));
  }
  for (uint32_t out = c.shape.num_local_experts(); out > 0 && is_explicit(c); --out)
    if (c.shape.num_local_experts() > 1) cases.push_back(without_expert(c, out - 1));
  return cases;
}

void erase_tokens(LaunchSpec& launch, uint32_t rank, uint32_t first, uint32_t count) {
  launch.tokens[rank] -= count;
  const auto erase = [&](auto& ranks) {
    if (ranks.empty()) return;
    auto& tokens = ranks[rank];
    tokens.erase(tokens.begin() + first, tokens.begin() + first + count);
  };
  erase(launch.routing.topk_idx);
  erase(launch.routing.topk_weights);
}

/// Halves, quarters, ... of each rank's tokens taken out, down to single ones.
std::vector<Case> fewer_tokens(const Case& c) {
  std::vector<Case> cases;
  for (size_t l = 0; l < c.launches.size(); ++l) {
    for (uint32_t rank = 0; rank < c.shape.ranks; ++rank) {
      const uint32_t tokens = c.launches[l].tokens[rank];
      for (uint32_t count = tokens; count > 0; count /= 2) {
        // Without explicit routing a token is like any other: the last ones go.
        const bool any = !c.launches[l].routing.topk_idx.empty();
        for (uint32_t end = tokens; end >= count; end -= count) {
          Case fewer = c;
          erase_tokens(fewer.launches[l], rank, end - count, count);
          follow_first_launch(fewer);
          cases.push_back(std::move(fewer));
          if (!any) break;
        }
      }
    }
  }
  return cases;
}

std::vector<Case> tighter_capacity(const Case& c) {
  uint32_t most = 1;
  for (const LaunchSpec& launch : c.launches)
    most = std::max(most, *std::max_element(launch.tokens.begin(), launch.tokens.end()));
  std::vector<Case> cases;
  if (c.shape.max_tokens_per_rank == most) return cases;
  for (const uint32_t capacity : smaller(c.shape.max_tokens_per_rank, most)) {
    Case tighter = c;
    for (LaunchSpec& launch : tighter.launches) launch.shape.max_tokens_per_rank = capacity;
    follow_first_launch(tighter);
    cases.push_back(std::move(tighter));
  }
  return cases;
}

std::vector<Case> smaller_topk(const Case& c) {
  std::vector<Case> cases;
  for (const uint32_t topk : smaller(c.shape.topk, 1)) {
    // Which slots stay: the first ones, or the last.
    for (const bool front : {true, false}) {
      Case fewer = c;
      const auto cut = [&](auto& ranks) {
        for (auto& rank : ranks)
          for (auto& token : rank) {
            const auto drop = static_cast<ptrdiff_t>(token.size() - topk);
            token.erase(front ? token.end() - drop : token.begin(),
                        front ? token.end() : token.begin() + drop);
          }
      };
      for (LaunchSpec& launch : fewer.launches) {
        launch.shape.topk = topk;
        cut(launch.routing.topk_idx);
        cut(launch.routing.topk_weights);
      }
      follow_first_launch(fewer);
      cases.push_back(std::move(fewer));
      if (!is_explicit(c)) break;
    }
  }
  return cases;
}

std::vector<Case> smaller_sides(const Case& c) {
  std::vector<Case> cases;
  for (const bool hidden : {true, false}) {
    const uint32_t blocks = (hidden ? c.shape.hidden : c.shape.intermediate) / kScaleBlock;
    for (const uint32_t fewer : smaller(blocks, 1)) {
      Case narrower = c;
      for (LaunchSpec& launch : narrower.launches)
        (hidden ? launch.shape.hidden : launch.shape.intermediate) = fewer * kScaleBlock;
      follow_first_launch(narrower);
      cases.push_back(std::move(narrower));
    }
  }
  return cases;
}

template <class Change>
void try_change(std::vector<Case>& cases, const Case& c, Change&& change) {
  Case changed = c;
  change(changed);
  if (!(changed == c)) cases.push_back(std::move(changed));
}

std::vector<Case> plainer_kernel(const Case& c) {
  std::vector<Case> cases;
  for (const uint32_t sms : smaller(c.kernel.sms_per_rank, 1))
    try_change(cases, c, [&](Case& x) {
      x.kernel.sms_per_rank = sms;
      fit_names(x);
    });
  for (const uint32_t stages : smaller(c.kernel.stages, 1))
    try_change(cases, c, [&](Case& x) { x.kernel.stages = stages; });
  try_change(cases, c, [](Case& x) { x.kernel.block_m = 64; });
  try_change(cases, c, [](Case& x) { x.kernel.block_n = kSliceN; });
  try_change(cases, c, [](Case& x) { x.kernel.ring_blocks = 0; });
  if (c.kernel.ring_blocks > 0)
    for (const uint32_t blocks : smaller(c.kernel.ring_blocks, 1))
      try_change(cases, c, [&](Case& x) { x.kernel.ring_blocks = blocks; });
  try_change(cases, c, [](Case& x) { x.kernel.scheduler = SchedulerPolicy::Ring; });
  try_change(cases, c, [](Case& x) { x.kernel.experts_per_wave = 0; });
  try_change(cases, c, [](Case& x) { x.clamp = std::numeric_limits<float>::infinity(); });
  return cases;
}

/// Slots that matter to nobody are masked, the others go to low experts with weight 1.
std::vector<Case> plainer_routing(const Case& c) {
  std::vector<Case> cases;
  for (size_t l = 0; l < c.launches.size(); ++l) {
    const RoutingSpec& routing = c.launches[l].routing;
    try_change(cases, c, [&](Case& x) { x.launches[l].routing.topk_weights.clear(); });
    for (size_t rank = 0; rank < routing.topk_idx.size(); ++rank)
      for (size_t token = 0; token < routing.topk_idx[rank].size(); ++token)
        for (size_t k = 0; k < routing.topk_idx[rank][token].size(); ++k) {
          const auto set = [&](int64_t id) {
            if (routing.topk_idx[rank][token][k] != id)
              try_change(cases, c,
                         [&](Case& x) { x.launches[l].routing.topk_idx[rank][token][k] = id; });
          };
          if (routing.topk_idx[rank][token][k] < 0) continue;
          set(-1);
          set(0);
        }
  }
  for (Case& x : cases) follow_first_launch(x);
  return cases;
}

std::vector<Case> plainer_data(const Case& c) {
  std::vector<Case> cases;
  const auto all_seeds = [](Case& x, uint64_t seed) {
    x.data.seed = seed;
    for (LaunchSpec& launch : x.launches) launch.data.seed = seed;
  };
  const auto all_kinds = [](Case& x) {
    x.data.kind = DataKind::Normal;
    x.data.nan = false;
    for (LaunchSpec& launch : x.launches) {
      launch.data.kind = DataKind::Normal;
      launch.data.nan = false;
    }
  };
  try_change(cases, c, [&](Case& x) {
    all_kinds(x);
    all_seeds(x, 1);
  });
  try_change(cases, c, [&](Case& x) { all_kinds(x); });
  try_change(cases, c, [&](Case& x) { all_seeds(x, 1); });
  try_change(cases, c, [&](Case& x) { all_seeds(x, x.data.seed); });
  return cases;
}

std::vector<Case> plainer_world(const Case& c) {
  std::vector<Case> cases;
  const World standard;
  try_change(cases, c, [&](Case& x) { x.world = World{}; });
  try_change(cases, c, [&](Case& x) { x.world.landing = standard.landing; });
  try_change(cases, c, [&](Case& x) { x.world.poison = standard.poison; });
  try_change(cases, c, [&](Case& x) { x.world.padding = standard.padding; });
  try_change(cases, c, [&](Case& x) { x.world.held_sms.clear(); });
  try_change(cases, c, [&](Case& x) {
    x.world.late_rank.reset();
    x.world.late_steps = standard.late_steps;
  });
  if (c.world.late_rank) try_change(cases, c, [&](Case& x) { x.world.late_steps /= 2; });
  return cases;
}

constexpr ShrinkMove kMoves[] = {fewer_launches,  fewer_ranks,   fewer_experts,    fewer_tokens,
                                 smaller_topk,    smaller_sides, tighter_capacity, plainer_kernel,
                                 plainer_routing, plainer_data};
constexpr size_t kCountMoves = 5;
constexpr ShrinkMove kWorldMoves[] = {plainer_world};

}  // namespace

std::span<const ShrinkMove> shrink_moves() { return kMoves; }
std::span<const ShrinkMove> count_moves() { return std::span(kMoves).first(kCountMoves); }
std::span<const ShrinkMove> world_moves() { return kWorldMoves; }

Case with_explicit_routing(const Case& c) {
  uint64_t slots = 0;
  for (const LaunchSpec& launch : c.launches)
    for (const uint32_t tokens : launch.tokens) slots += uint64_t{tokens} * launch.shape.topk;
  if (is_explicit(c) || slots > kMostExplicitSlots) return c;
  Case written = c;
  for (size_t l = 0; l < c.launches.size(); ++l) {
    const Problem problem = make_routed_problem(c, l);
    RoutingSpec routing;
    routing.kind = RoutingKind::Explicit;
    for (const RankInput& rank : problem.ranks) {
      auto& idx = routing.topk_idx.emplace_back();
      auto& weights = routing.topk_weights.emplace_back();
      for (size_t first = 0; first < rank.topk_idx.size(); first += problem.shape.topk) {
        idx.emplace_back(
            rank.topk_idx.begin() + static_cast<ptrdiff_t>(first),
            rank.topk_idx.begin() + static_cast<ptrdiff_t>(first + problem.shape.topk));
        weights.emplace_back(
            rank.topk_weights.begin() + static_cast<ptrdiff_t>(first),
            rank.topk_weights.begin() + static_cast<ptrdiff_t>(first + problem.shape.topk));
      }
    }
    written.launches[l].routing = routing;
  }
  follow_first_launch(written);
  return written;
}

}  // namespace moetwin
