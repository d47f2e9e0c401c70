#include "fuzz/generator.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "common/check.h"
#include "common/kernel_plan.h"
#include "cpu_sim/schedule.h"

namespace moetwin {
namespace {

/// Numbers of one case, drawn in the order of the calls.
class Draw {
 public:
  Draw(uint64_t seed, uint64_t index) : seed_(seed), index_(index) {}

  uint64_t next() { return counter_random(seed_, index_, n_++); }
  /// low to high, both included.
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>(next() % (uint64_t{high} - low + 1));
  }
  bool chance(uint32_t percent) { return between(1, 100) <= percent; }
  template <class T, size_t kCount>
  T pick(const T (&values)[kCount]) {
    return values[between(0, kCount - 1)];
  }

 private:
  uint64_t seed_;
  uint64_t index_;
  uint64_t n_ = 0;
};

/// What a case is about; the rest of it is drawn freely.
enum class Theme : uint8_t {
  General,
  BlockEdge,  ///< an expert with BLOCK_M - 1, BLOCK_M or BLOCK_M + 1 rows
  ManyLaps,   ///< the smallest ring is used three times and more
  WideTopk,   ///< more than eight experts a token
  NoTokens,   ///< no rank has a token
};

Theme draw_theme(Draw& draw) {
  const uint32_t place = draw.between(1, 100);
  if (place <= 62) return Theme::General;
  if (place <= 76) return Theme::BlockEdge;
  if (place <= 88) return Theme::ManyLaps;
  if (place <= 97) return Theme::WideTopk;
  return Theme::NoTokens;
}

constexpr uint32_t kSides[] = {128, 128, 128, 128, 128, 128, 128, 256, 256, 384, 512};
constexpr uint32_t kShortSides[] = {128, 128, 128, 256};

void draw_shape(Draw& draw, Theme theme, Case& c) {
  Shape& s = c.shape;
  s.hidden = draw.pick(kSides);
  s.intermediate = draw.pick(kSides);
  switch (theme) {
    case Theme::General:
    case Theme::NoTokens:
      s.ranks = draw.between(1, 8);
      s.experts = s.ranks * draw.between(1, s.ranks > 4 ? 4 : 6);
      s.topk = draw.between(1, std::min(8u, s.experts + 1));
      break;
    case Theme::BlockEdge:
      s.ranks = draw.between(1, 3);
      s.experts = s.ranks * draw.between(1, 3);
      s.topk = draw.between(1, std::min(2u, s.experts));
      s.hidden = draw.pick(kShortSides);
      s.intermediate = draw.pick(kShortSides);
      break;
    case Theme::ManyLaps:
      s.ranks = draw.between(1, 2);
      s.experts = s.ranks * draw.between(7, 14);
      s.topk = draw.between(2, 6);
      s.hidden = draw.pick(kShortSides);
      s.intermediate = draw.pick(kShortSides);
      break;
    case Theme::WideTopk:
      s.ranks = draw.between(1, 8);
      s.experts = s.ranks * draw.between(1, 32 / s.ranks);
      s.topk = draw.between(9, kMaxTopk);
      s.hidden = draw.pick(kShortSides);
      s.intermediate = draw.pick(kShortSides);
      break;
  }
}

void draw_kernel(Draw& draw, Theme theme, Case& c) {
  KernelOptions& k = c.kernel;
  k.block_m = draw.chance(60) ? 64 : 128;
  k.stages = draw.between(1, 6);
  constexpr uint32_t kSms[] = {1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8};
  k.sms_per_rank = theme == Theme::ManyLaps ? draw.between(1, 2) : draw.pick(kSms);
  k.scheduler =
      theme == Theme::ManyLaps || draw.chance(60) ? SchedulerPolicy::Ring : SchedulerPolicy::Wave;
  if (draw.chance(50)) k.experts_per_wave = draw.between(1, c.shape.num_local_experts() + 1);
  if (draw.chance(40)) {
    constexpr float kLimits[] = {0.25f, 1.0f, 7.0f, 10.0f};
    c.clamp = draw.pick(kLimits);
  }
}

/// Multiply-accumulates of a launch.
constexpr uint64_t kMaxWork = 12'000'000;

uint32_t most_tokens(Draw& draw, const Shape& s) {
  const uint64_t row_work = uint64_t{3} * s.hidden * s.intermediate;
  const uint64_t by_work = kMaxWork / row_work;
  const uint32_t size = draw.between(1, 100);
  const uint32_t wanted = size <= 65   ? draw.between(1, 48)
                          : size <= 92 ? draw.between(49, 128)
                                       : draw.between(129, kMaxGeneratedRows);
  return std::max(1u, static_cast<uint32_t>(std::min<uint64_t>(by_work, wanted)) / s.topk);
}

/// Shares `total` tokens out at random; a rank in four gets none.
std::vector<uint32_t> share_out(Draw& draw, uint32_t ranks, uint32_t total) {
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

void draw_capacity(Draw& draw, Case& c, uint32_t least) {
  const uint32_t most = *std::max_element(c.tokens.begin(), c.tokens.end());
  const uint32_t spare = draw.chance(60) ? 0 : draw.between(1, 200);
  c.shape.max_tokens_per_rank = std::max({1u, least, most + spare});
}

void draw_tokens(Draw& draw, Theme theme, Case& c) {
  const Shape& s = c.shape;
  uint32_t total = most_tokens(draw, s);
  if (theme == Theme::BlockEdge) total = c.kernel.block_m + draw.between(1, 12);
  if (theme == Theme::ManyLaps) total = std::max(total, 2 * s.experts / s.topk + 2);
  if (theme == Theme::NoTokens) total = 0;
  if (draw.chance(15) && theme != Theme::BlockEdge) {
    c.tokens.assign(s.ranks, total / s.ranks);
  } else {
    c.tokens = share_out(draw, s.ranks, total);
  }
  draw_capacity(draw, c, 1);
}

/// Fisher and Yates over the experts, as far as needed.
std::vector<int64_t> distinct_experts(Draw& draw, std::vector<int64_t> from, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    std::swap(from[i], from[draw.between(i, static_cast<uint32_t>(from.size()) - 1)]);
  from.resize(count);
  return from;
}

double draw_weight(Draw& draw) {
  constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, 1e-30, -3.5};
  if (draw.chance(20)) return draw.pick(kSpecial);
  return static_cast<double>(draw.between(0, 1u << 20)) / (1u << 20) - 0.25;
}

/// Routing slot by slot, so that one expert gets exactly `edge` rows (as far as tokens last).
RoutingSpec explicit_routing(Draw& draw, const Case& c, const std::vector<uint32_t>& tokens,
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

RoutingSpec draw_routing(Draw& draw, Theme theme, const Case& c,
                         const std::vector<uint32_t>& tokens) {
  if (theme == Theme::BlockEdge || (theme == Theme::General && draw.chance(8))) {
    const uint32_t m = c.kernel.block_m;
    const uint32_t edges[] = {m - 1, m, m + 1};
    return explicit_routing(draw, c, tokens, draw.pick(edges));
  }
  constexpr RoutingKind kKinds[] = {RoutingKind::Uniform,   RoutingKind::Uniform,
                                    RoutingKind::Zipf,      RoutingKind::HotExpert,
                                    RoutingKind::HotRank,   RoutingKind::GroupLimited,
                                    RoutingKind::RoundRobin};
  constexpr RoutingKind kEven[] = {RoutingKind::Uniform, RoutingKind::RoundRobin};
  constexpr double kShares[] = {0.05, 0.3, 0.9};
  const Shape& s = c.shape;
  RoutingSpec r;
  r.kind = theme == Theme::ManyLaps ? draw.pick(kEven) : draw.pick(kKinds);
  r.seed = draw.next() >> 1;
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

void draw_data(Draw& draw, Case& c) {
  constexpr DataKind kKinds[] = {DataKind::Normal,   DataKind::Normal,    DataKind::Outlier,
                                 DataKind::SameSign, DataKind::HeavyTail, DataKind::Ties,
                                 DataKind::Extreme};
  c.data.kind = draw.pick(kKinds);
  c.data.seed = draw.next() >> 1;
  c.data.nan = c.data.kind == DataKind::Extreme && draw.chance(40);
}

void draw_world(Draw& draw, Case& c) {
  constexpr Landing kLandings[] = {Landing::Late, Landing::Late, Landing::Early, Landing::Random};
  constexpr uint8_t kPoison[] = {255, 255, 0, 0x7F, 0x5A};
  c.world.landing = draw.pick(kLandings);
  c.world.poison = draw.pick(kPoison);
  if (draw.chance(15)) {
    c.world.late_rank = draw.between(0, c.shape.ranks - 1);
    c.world.late_steps = draw.between(1, 5000);
  }
  if (draw.chance(10)) c.world.padding = Padding::Compute;
}

void draw_schedule(Draw& draw, Case& c) {
  const uint32_t place = draw.between(1, 100);
  if (place <= 35) return;
  if (place <= 75) {
    c.schedule = "random:" + std::to_string(draw.between(0, 1'000'000));
    return;
  }
  const auto role = static_cast<Role>(draw.between(0, kNumRoles - 1));
  c.schedule = std::string("slow:") + role_name(role) + "@" +
               std::to_string(draw.between(0, c.shape.ranks - 1));
}

/// A second launch on the same workspace: other tokens, other routing, other activations.
void draw_launches(Draw& draw, Theme theme, Case& c) {
  set_launches(c, 1);
  const uint32_t place = draw.between(1, 100);
  if (place <= 12) set_launches(c, 2);
  if (place <= 12 || place > 30) return;
  LaunchSpec second = c.launches.front();
  uint32_t total = 0;
  for (const uint32_t count : c.tokens) total += count;
  const std::vector<uint32_t> tokens =
      share_out(draw, c.shape.ranks, total == 0 ? 0 : draw.between(0, total));
  for (uint32_t rank = 0; rank < c.shape.ranks; ++rank)
    second.tokens[rank] = std::min(tokens[rank], c.shape.max_tokens_per_rank);
  second.routing = draw_routing(draw, theme, c, second.tokens);
  second.data.seed = draw.next() >> 1;
  c.launches.push_back(second);
}

/// Fits what was drawn to what the kernel accepts: fewer stages, and a ring that is safe.
void fit_kernel(Draw& draw, Theme theme, Case& c) {
  KernelOptions& k = c.kernel;
  const auto safe =
      static_cast<uint32_t>(smallest_safe_ring(c.shape, {k.block_m, k.block_n}, k.sms_per_rank));
  if (theme != Theme::ManyLaps && draw.chance(40)) k.ring_blocks = safe + draw.between(0, 6);
  while (make_plan(c.shape, k).error && k.stages > 1) --k.stages;
  MOETWIN_CHECK(!make_plan(c.shape, k).error);
}

}  // namespace

Case random_case(uint64_t seed, uint64_t index) {
  Draw draw(seed, index);
  const Theme theme = draw_theme(draw);
  Case c;
  draw_shape(draw, theme, c);
  draw_kernel(draw, theme, c);
  draw_tokens(draw, theme, c);
  c.routing = draw_routing(draw, theme, c, c.tokens);
  draw_data(draw, c);
  draw_world(draw, c);
  draw_schedule(draw, c);
  draw_launches(draw, theme, c);
  fit_kernel(draw, theme, c);
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
