#include "fuzz/generator.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/check.h"
#include "common/kernel_plan.h"
#include "fuzz/choices.h"
#include "fuzz/profile.h"
#include "fuzz/recorded_loads.h"

namespace moetwin {
namespace {

/// Experts of a rank at the most, of a theme that would have `wanted`.
uint32_t experts_below(const Profile& profile, uint32_t ranks, uint32_t wanted) {
  return std::max(1u, std::min(wanted, profile.max_experts / ranks));
}

void draw_shape(Choices& draw, const Profile& profile, Theme theme, Case& c) {
  Shape& s = c.shape;
  s.hidden = kSides[draw.weighted(profile.sides)];
  s.intermediate = kSides[draw.weighted(profile.sides)];
  switch (theme) {
    case Theme::General:
    case Theme::NoTokens:
      s.ranks = draw.between(1, profile.max_ranks);
      s.experts = s.ranks * draw.between(1, experts_below(profile, s.ranks, s.ranks > 4 ? 4 : 6));
      s.topk = draw.between(1, std::min(8u, s.experts + 1));
      break;
    case Theme::BlockEdge:
      s.ranks = draw.between(1, 3);
      s.experts = s.ranks * draw.between(1, 3);
      s.topk = draw.between(1, std::min(2u, s.experts));
      break;
    case Theme::ManyLaps:
      s.ranks = draw.between(1, 2);
      s.experts = s.ranks * draw.between(7, experts_below(profile, s.ranks, 14));
      s.topk = draw.between(2, 6);
      break;
    case Theme::WideTopk:
      s.ranks = draw.between(1, profile.max_ranks);
      s.experts = s.ranks * draw.between(1, experts_below(profile, s.ranks, 32 / s.ranks));
      s.topk = draw.between(9, kMaxTopk);
      break;
  }
  if (theme == Theme::General || theme == Theme::NoTokens) return;
  s.hidden = kSides[draw.weighted(profile.short_sides)];
  s.intermediate = kSides[draw.weighted(profile.short_sides)];
}

void draw_kernel(Choices& draw, const Profile& profile, Theme theme, Case& c) {
  KernelOptions& k = c.kernel;
  k.block_m = draw.chance(60) ? 64 : 128;
  k.stages = draw.between(1, 6);
  k.sms_per_rank = theme == Theme::ManyLaps ? draw.between(1, 2)
                                            : 1 + static_cast<uint32_t>(draw.weighted(profile.sms));
  k.scheduler =
      theme == Theme::ManyLaps || draw.chance(60) ? SchedulerPolicy::Ring : SchedulerPolicy::Wave;
  if (draw.chance(50)) k.experts_per_wave = draw.between(1, c.shape.num_local_experts() + 1);
  if (draw.chance(40)) {
    constexpr float kLimits[] = {0.25f, 1.0f, 7.0f, 10.0f};
    c.clamp = draw.pick(kLimits);
  }
}

uint32_t most_tokens(Choices& draw, const Profile& profile, const Shape& s) {
  const uint64_t row_work = uint64_t{3} * s.hidden * s.intermediate;
  const uint64_t by_work = profile.max_work / row_work;
  constexpr uint32_t kEnds[] = {0, 48, 128, kMaxGeneratedRows};
  const size_t size = draw.weighted(profile.rows);
  const uint32_t wanted = draw.between(kEnds[size] + 1, kEnds[size + 1]);
  return std::max(1u, static_cast<uint32_t>(std::min<uint64_t>(by_work, wanted)) / s.topk);
}

/// Shares `total` tokens out at random; a rank in four gets none.
std::vector<uint32_t> share_out(Choices& draw, uint32_t ranks, uint32_t total) {
  std::vector<uint32_t> tokens(ranks, 0);
  std::vector<uint32_t> open;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (!draw.chance(25)) open.push_back(rank);
  if (open.empty()) open.push_back(draw.between(0, ranks - 1));
  const auto last = static_cast<uint32_t>(open.size()) - 1;
  while (total > 0) {
    const uint32_t part = draw.between(1, std::max(1u, total / 2));
    tokens[open[draw.between(0, last)]] += part;
    total -= part;
  }
  return tokens;
}

void draw_capacity(Choices& draw, const Profile& profile, Case& c) {
  const uint32_t most = *std::max_element(c.tokens.begin(), c.tokens.end());
  const uint32_t spare = draw.chance(60) ? 0 : draw.between(1, 200);
  c.shape.max_tokens_per_rank = std::max(1u, most + spare);
  // The last one is the first at which the rows to be combined pass 2^32 bytes.
  const uint64_t row_bytes = uint64_t{c.shape.topk} * c.shape.hidden * 2;
  const uint64_t edge = (uint64_t{1} << 32) / row_bytes + 1;
  const uint32_t far[] = {200'000, kMaxTokensPerRank,
                          static_cast<uint32_t>(std::min<uint64_t>(edge, kMaxTokensPerRank))};
  if (profile.far_capacity > 0 && c.shape.ranks <= 2 && draw.chance(profile.far_capacity))
    c.shape.max_tokens_per_rank = draw.pick(far);
}

/// Counts at the edges of the map from lanes to tokens: a warp takes 32 / K tokens at a time.
void draw_edge_tokens(Choices& draw, Case& c, uint32_t total) {
  const uint32_t of_warp = std::max(1u, 32 / c.shape.topk);
  const uint32_t edges[] = {0, 1, of_warp - 1, of_warp, of_warp + 1, 2 * of_warp, 4 * of_warp + 1};
  for (uint32_t& count : c.tokens) {
    count = std::min(draw.pick(edges), total);
    total -= count;
  }
}

void draw_tokens(Choices& draw, const Profile& profile, Theme theme, Case& c) {
  const Shape& s = c.shape;
  uint32_t total = most_tokens(draw, profile, s);
  if (theme == Theme::BlockEdge) total = c.kernel.block_m + draw.between(1, 12);
  if (theme == Theme::ManyLaps) total = std::max(total, 2 * s.experts / s.topk + 2);
  if (theme == Theme::NoTokens) total = 0;
  if (draw.chance(15) && theme != Theme::BlockEdge) {
    c.tokens.assign(s.ranks, total / s.ranks);
  } else {
    c.tokens = share_out(draw, s.ranks, total);
  }
  if (profile.edge_tokens > 0 && theme != Theme::BlockEdge && draw.chance(profile.edge_tokens))
    draw_edge_tokens(draw, c, total);
  draw_capacity(draw, profile, c);
}

/// Fisher and Yates over the experts, as far as needed.
std::vector<int64_t> distinct_experts(Choices& draw, std::vector<int64_t> from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    std::swap(from[i], from[draw.between(i, static_cast<uint32_t>(from.size()) - 1)]);
  from.resize(count);
  return from;
}

double draw_weight(Choices& draw) {
  constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 1e-30, -3.5};
  if (draw.chance(20)) return draw.pick(kSpecial);
  return static_cast<double>(draw.between(0, 1u << 20)) / (1u << 20) - 0.25;
}

/// Routing slot by slot, so that one expert gets exactly `edge` rows (as far as tokens last).
RoutingSpec explicit_routing(Choices& draw, const Case& c, const std::vector<uint32_t>& tokens,
                             uint32_t edge) {
  RoutingSpec r;
  r.kind = RoutingKind::Explicit;
  const uint32_t hot = draw.between(0, c.shape.experts - 1);
  std::vector<int64_t> others;
  for (uint32_t e = 0; e < c.shape.experts; ++e)
    if (e != hot) others.push_back(e);
  const bool weighted = draw.chance(60);
  uint32_t left = edge;
  for (const uint32_t count : tokens) {
    auto& ids = r.topk_idx.emplace_back();
    std::vector<std::vector<double>> weights;
    for (uint32_t token = 0; token < count; ++token) {
      const auto room = static_cast<uint32_t>(others.size());
      std::vector<int64_t> row = distinct_experts(draw, others, std::min(c.shape.topk, room));
      row.resize(c.shape.topk, kMaskedExpert);
      if (left > 0) {
        row[draw.between(0, c.shape.topk - 1)] = hot;
        --left;
      }
      for (int64_t& id : row)
        if (id != hot && draw.chance(10)) id = kMaskedExpert;
      ids.push_back(row);
      auto& token_weights = weights.emplace_back();
      for (uint32_t k = 0; k < c.shape.topk; ++k) token_weights.push_back(draw_weight(draw));
    }
    if (weighted) r.topk_weights.push_back(weights);
  }
  return r;
}

RoutingSpec draw_routing(Choices& draw, const Profile& profile, Theme theme, const Case& c,
                         const std::vector<uint32_t>& tokens) {
  if (theme == Theme::BlockEdge || (theme == Theme::General && draw.chance(8))) {
    const uint32_t m = c.kernel.block_m;
    const uint32_t edges[] = {m - 1, m, m + 1};
    return explicit_routing(draw, c, tokens, draw.pick(edges));
  }
  constexpr RoutingKind kEven[] = {RoutingKind::Uniform, RoutingKind::RoundRobin};
  constexpr double kShares[] = {0.05, 0.3, 0.9};
  const Shape& s = c.shape;
  RoutingSpec r;
  r.kind = theme == Theme::ManyLaps ? draw.pick(kEven)
                                    : static_cast<RoutingKind>(draw.weighted(profile.routings));
  r.seed = draw.seed();
  if (draw.chance(30)) r.masked = draw.chance(5) ? 1.0 : draw.pick(kShares);
  r.duplicates = draw.chance(20) && r.kind != RoutingKind::RoundRobin;
  constexpr RoutingWeights kWeights[] = {RoutingWeights::Normalized, RoutingWeights::Uniform,
                                         RoutingWeights::Raw, RoutingWeights::Raw};
  r.weights = draw.pick(kWeights);
  r.alpha = draw.between(0, 30) / 10.0;
  r.expert = draw.between(0, s.experts - 1);
  r.rank = draw.between(0, s.ranks - 1);
  r.share = draw.chance(50) ? 1.0 : draw.pick(kShares);
  if (r.kind == RoutingKind::GroupLimited && draw.chance(50)) {
    r.groups = draw.between(1, s.experts);
    while (s.experts % r.groups != 0) --r.groups;
    r.topk_groups = draw.between(1, r.groups);
  }
  r.offset = draw.between(0, 1000);
  return r;
}

void draw_data(Choices& draw, const Profile& profile, Case& c) {
  c.data.kind = static_cast<DataKind>(draw.weighted(profile.data));
  constexpr uint32_t kKnownSeeds = 8;
  if (profile.known_seeds > 0 && draw.chance(profile.known_seeds))
    c.data.seed = 1 + draw.below(kKnownSeeds);
  else
    c.data.seed = draw.seed();
  c.data.nan = c.data.kind == DataKind::Extreme && draw.chance(40);
}

void draw_world(Choices& draw, const Profile& profile, Case& c) {
  constexpr uint8_t kPoison[] = {255, 255, 0, 0x7F, 0x5A};
  c.world.landing = static_cast<Landing>(draw.weighted(profile.landings));
  c.world.poison = draw.pick(kPoison);
  if (draw.chance(15)) {
    c.world.late_rank = draw.between(0, c.shape.ranks - 1);
    c.world.late_steps = draw.between(1, 5000);
  }
  if (draw.chance(10)) c.world.padding = Padding::Compute;
}

void draw_schedule(Choices& draw, const Profile& profile, Case& c) {
  const size_t policy = draw.weighted(profile.schedules);
  if (policy == 0) return;
  if (policy == 1) {
    c.schedule = "random:" + std::to_string(draw.between(0, 1'000'000));
  } else if (policy == 2) {
    const auto role = static_cast<Role>(draw.between(0, kNumRoles - 1));
    c.schedule = std::string("slow:") + role_name(role) + "@" +
                 std::to_string(draw.between(0, c.shape.ranks - 1));
  } else if (policy == 3) {
    const uint32_t seed = draw.between(0, 1'000'000);
    c.schedule = "pct:" + std::to_string(seed) + ":" + std::to_string(draw.between(1, 6));
  } else {
    c.schedule = "timed";
  }
}

/// Another capacity and other sizes in the buffer of the first launch.
void draw_other_shape(Choices& draw, const Profile& profile, const Case& c, LaunchSpec& second) {
  const uint32_t most = *std::max_element(second.tokens.begin(), second.tokens.end());
  second.shape.hidden = kSides[draw.weighted(profile.short_sides)];
  second.shape.intermediate = kSides[draw.weighted(profile.short_sides)];
  second.shape.max_tokens_per_rank =
      std::max({1u, most, draw.between(0, 2 * std::min(c.shape.max_tokens_per_rank, 256u))});
}

/// A second launch on the same workspace: other tokens, other routing, other activations.
void draw_launches(Choices& draw, const Profile& profile, Theme theme, Case& c) {
  set_launches(c, 1);
  // Weights that are kept from case to case still meet new activations.
  if (profile.known_seeds > 0 && draw.chance(50)) c.launches.front().data.seed = draw.seed();
  const auto kind = static_cast<SecondLaunch>(draw.weighted(profile.seconds));
  if (kind == SecondLaunch::Seeds) set_launches(c, 2);
  if (kind == SecondLaunch::Seeds || kind == SecondLaunch::None) return;
  LaunchSpec second = c.launches.front();
  uint32_t total = 0;
  for (const uint32_t count : c.tokens) total += count;
  const std::vector<uint32_t> tokens =
      share_out(draw, c.shape.ranks, total == 0 ? 0 : draw.between(0, total));
  for (uint32_t rank = 0; rank < c.shape.ranks; ++rank)
    second.tokens[rank] = std::min(tokens[rank], c.shape.max_tokens_per_rank);
  second.routing = draw_routing(draw, profile, theme, c, second.tokens);
  second.data.seed = draw.seed();
  if (kind == SecondLaunch::Shape) draw_other_shape(draw, profile, c, second);
  c.launches.push_back(second);
}

bool has_plans(const Case& c) {
  return std::none_of(c.launches.begin(), c.launches.end(), [&](const LaunchSpec& launch) {
    return static_cast<bool>(make_plan(launch.shape, c.kernel).error);
  });
}

/// Fits what was drawn to what the kernel accepts: fewer stages, and a ring that is safe.
void fit_kernel(Choices& draw, Theme theme, Case& c) {
  KernelOptions& k = c.kernel;
  uint64_t safe = 0;
  for (const LaunchSpec& launch : c.launches)
    safe = std::max<uint64_t>(
        safe, smallest_safe_ring(launch.shape, {k.block_m, k.block_n}, k.sms_per_rank));
  if (theme != Theme::ManyLaps && draw.chance(40))
    k.ring_blocks = static_cast<uint32_t>(safe) + draw.between(0, 6);
  while (!has_plans(c) && k.stages > 1) --k.stages;
  MOETWIN_CHECK(has_plans(c));
}

/// Draws that stand behind all others: a sequence that ends before them keeps its case.
void draw_later_parts(Choices& draw, const Profile& profile, Case& c) {
  for (LaunchSpec& launch : c.launches) {
    if (launch.routing.kind == RoutingKind::Explicit || !draw.chance(profile.real_loads)) continue;
    const auto recorded = recorded_loads();
    const RecordedLoads& loads = recorded[draw.below(recorded.size())];
    const auto first = static_cast<uint32_t>(draw.below(loads.of_expert.size()));
    launch.routing = recorded_routing(loads, first, launch.routing, launch.shape, launch.tokens);
  }
  c.routing = c.launches.front().routing;
  if (draw.chance(profile.wide_tiles) && widen_tiles(c)) MOETWIN_CHECK(has_plans(c));
}

Case draw_parts(Choices& draw, const Profile& profile) {
  const auto theme = static_cast<Theme>(draw.weighted(profile.themes));
  Case c;
  draw_shape(draw, profile, theme, c);
  draw_kernel(draw, profile, theme, c);
  draw_tokens(draw, profile, theme, c);
  c.routing = draw_routing(draw, profile, theme, c, c.tokens);
  draw_data(draw, profile, c);
  draw_world(draw, profile, c);
  draw_schedule(draw, profile, c);
  draw_launches(draw, profile, theme, c);
  fit_kernel(draw, theme, c);
  return c;
}

}  // namespace

Case random_case(uint64_t seed, uint64_t index) {
  Choices draw(seed, index);
  return draw_parts(draw, recorded_profile());
}

Case draw_case(Choices& draw, const Profile& base) {
  const Profile profile = draw_profile(draw, base);
  Case c = draw_parts(draw, profile);
  draw_later_parts(draw, profile, c);
  return c;
}

bool widen_tiles(Case& c) {
  for (const LaunchSpec& launch : c.launches)
    if (launch.shape.hidden % (2 * kSliceN) != 0) return false;
  c.kernel.block_n = 2 * kSliceN;
  if (c.kernel.ring_blocks != 0)
    for (const LaunchSpec& launch : c.launches)
      c.kernel.ring_blocks = static_cast<uint32_t>(
          std::max<uint64_t>(c.kernel.ring_blocks,
                             smallest_safe_ring(launch.shape, {c.kernel.block_m, c.kernel.block_n},
                                                c.kernel.sms_per_rank)));
  while (make_plan(c.shape, c.kernel, false, true).error && c.kernel.stages > 1) --c.kernel.stages;
  return true;
}

}  // namespace moetwin
