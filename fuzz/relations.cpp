#include "fuzz/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "common/kernel_plan.h"
#include "cpu_sim/schedule.h"

namespace moetwin {
namespace {

/// Numbers of one change.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(counter_random(seed_, 0, n_++) % (uint64_t{high} - low + 1));
  }

 private:
  uint64_t seed_;
  uint64_t n_ = 0;
};

/// order[i]: which token comes to place i on this rank.
std::vector<uint32_t> token_order(uint64_t seed, size_t launch, uint32_t rank, uint32_t tokens) {
  std::vector<uint32_t> order(tokens);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = tokens; i > 1; --i)
    std::swap(order[i - 1], order[counter_random(seed, launch << 8 | rank, i) % i]);
  return order;
}

template <class T>
void reorder(std::vector<T>& rows, const std::vector<uint32_t>& order, size_t width) {
  std::vector<T> moved(rows.size());
  for (size_t i = 0; i < order.size(); ++i)
    std::copy_n(rows.begin() + static_cast<ptrdiff_t>(order[i] * width), width,
                moved.begin() + static_cast<ptrdiff_t>(i * width));
  rows = std::move(moved);
}

void reorder_tokens(Problem& problem, uint64_t seed, size_t launch) {
  const Shape& s = problem.shape;
  for (uint32_t rank = 0; rank < problem.ranks.size(); ++rank) {
    RankInput& input = problem.ranks[rank];
    const std::vector<uint32_t> order = token_order(seed, launch, rank, input.num_tokens);
    if (!input.x_codes.empty()) {
      reorder(input.x_codes, order, s.hidden);
      reorder(input.x_scales, order, s.hidden_blocks());
    }
    reorder(input.topk_idx, order, s.topk);
    reorder(input.topk_weights, order, s.topk);
  }
}

bool has_plans(const Case& c) {
  return std::none_of(c.launches.begin(), c.launches.end(), [&](const LaunchSpec& launch) {
    return static_cast<bool>(make_plan(launch.shape, c.kernel).error);
  });
}

/// A ring that was large enough for `c` may be too small for the changed kernel.
void let_ring_fit(Case& c) {
  if (c.kernel.ring_blocks == 0) return;
  uint64_t safe = c.kernel.ring_blocks;
  for (const LaunchSpec& launch : c.launches)
    safe = std::max<uint64_t>(safe,
                              smallest_safe_ring(launch.shape, {c.kernel.block_m, c.kernel.block_n},
                                                 c.kernel.sms_per_rank));
  c.kernel.ring_blocks = static_cast<uint32_t>(safe);
}

void change_capacity(Case& c, uint32_t more) {
  c.shape.max_tokens_per_rank += more;
  for (LaunchSpec& launch : c.launches) launch.shape.max_tokens_per_rank += more;
}

/// Changes what the relation names; false where it says nothing about the case.
bool change(Relation relation, Case& c, Draws& draw) {
  KernelOptions& k = c.kernel;
  switch (relation) {
    case Relation::Schedule:
      c.schedule = c.schedule == "fifo" ? fmt::format("random:{}", draw.between(0, 1'000'000))
                                        : std::string("fifo");
      return true;
    case Relation::Landing:
      c.world.landing =
          static_cast<Landing>((static_cast<uint32_t>(c.world.landing) + draw.between(1, 2)) % 3);
      return true;
    case Relation::SmCount:
      k.sms_per_rank =
          k.sms_per_rank == 1 ? draw.between(2, 4) : draw.between(1, k.sms_per_rank - 1);
      return true;
    case Relation::BlockM:
      k.block_m = k.block_m == 64 ? 128 : 64;
      return true;
    case Relation::Stages:
      k.stages = k.stages == 1 ? 2 : draw.between(1, k.stages - 1);
      return true;
    case Relation::RingSize:
      if (k.scheduler != SchedulerPolicy::Ring) return false;
      for (const LaunchSpec& launch : c.launches)
        k.ring_blocks =
            std::max(k.ring_blocks, static_cast<uint32_t>(smallest_safe_ring(
                                        launch.shape, {k.block_m, k.block_n}, k.sms_per_rank)));
      k.ring_blocks += draw.between(1, 5);
      return true;
    case Relation::Scheduler:
      k.scheduler =
          k.scheduler == SchedulerPolicy::Ring ? SchedulerPolicy::Wave : SchedulerPolicy::Ring;
      return true;
    case Relation::Capacity:
      change_capacity(c, draw.between(1, 300));
      return true;
    case Relation::Poison:
      c.world.poison = static_cast<uint8_t>(c.world.poison + draw.between(1, 255));
      c.world.padding = c.world.padding == Padding::Skip ? Padding::Compute : Padding::Skip;
      return true;
    case Relation::LaunchAlone:
      if (c.launches.size() < 2) return false;
      c.launches.erase(c.launches.begin(), c.launches.end() - 1);
      return true;
    case Relation::TokenOrder:
      return std::any_of(c.tokens.begin(), c.tokens.end(), [](uint32_t n) { return n > 1; });
    case Relation::Count:
      break;
  }
  return false;
}

}  // namespace

const char* relation_name(Relation relation) {
  constexpr const char* kNames[] = {"schedule", "landing",      "sm_count",   "block_m",
                                    "stages",   "ring_size",    "scheduler",  "capacity",
                                    "poison",   "launch_alone", "token_order"};
  static_assert(sizeof kNames / sizeof kNames[0] == kNumRelations);
  MOETWIN_CHECK(relation < Relation::Count);
  return kNames[static_cast<uint32_t>(relation)];
}

std::optional<RelatedCase> related_case(Relation relation, const Case& c, uint64_t seed) {
  Draws draw(seed);
  RelatedCase related;
  related.c = c;
  related.seed = seed;
  related.relation = relation;
  if (!change(relation, related.c, draw)) return std::nullopt;
  let_ring_fit(related.c);
  while (!has_plans(related.c) && related.c.kernel.stages > 1) --related.c.kernel.stages;
  if (!has_plans(related.c)) return std::nullopt;
  related.first_launch = c.launches.size() - related.c.launches.size();
  if (relation == Relation::TokenOrder) {
    const auto launch = std::make_shared<size_t>(0);
    related.alter = [seed, launch](Problem& problem, KernelArgs&) {
      reorder_tokens(problem, seed, (*launch)++);
    };
  }
  return related;
}

std::string broken_relation(const RelatedCase& related, const std::vector<LayerResult>& original,
                            const std::vector<LayerResult>& changed) {
  MOETWIN_CHECK(original.size() == related.first_launch + changed.size());
  for (size_t launch = 0; launch < changed.size(); ++launch) {
    const LayerResult& before = original[related.first_launch + launch];
    const LayerResult& after = changed[launch];
    if (before.tokens != after.tokens || before.y.size() != after.y.size())
      return fmt::format("launch {} has other tokens", launch);
    const size_t hidden = before.shape.hidden;
    size_t first = 0;
    for (uint32_t rank = 0; rank < before.tokens.size(); ++rank) {
      const uint32_t tokens = before.tokens[rank];
      const bool moved = related.relation == Relation::TokenOrder;
      const std::vector<uint32_t> order =
          moved ? token_order(related.seed, launch, rank, tokens) : std::vector<uint32_t>();
      for (uint32_t token = 0; token < tokens; ++token) {
        const size_t from = (first + (moved ? order[token] : token)) * hidden;
        const size_t to = (first + token) * hidden;
        if (!std::equal(&before.y[from], &before.y[from] + hidden, &after.y[to]))
          return fmt::format("launch {}, rank {}: y of token {} is another one where {} changes",
                             launch, rank, moved ? order[token] : token,
                             relation_name(related.relation));
      }
      first += tokens;
    }
  }
  return {};
}

}  // namespace moetwin
