#include "app/journey_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/check.h"
#include "common/number_formats.h"
#include "common/routing.h"
#include "model/wait_report.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

/// A line of a journey: a step of docs/protocol.md, who did it, and what it meant for the slot.
struct Stop {
  const char* what;
  Sighting seen;
  std::string detail;
};

std::string agent_text(const AgentPlace& agent) {
  return agent_name(agent.rank, agent.sm, agent.role, agent.number);
}

uint64_t moment(const Sighting& seen, JourneyClock clock) {
  return clock == JourneyClock::Nanoseconds ? seen.time : seen.event;
}

/// The steps up to the row's publication.
std::vector<Stop> way_into_the_pool(const SlotJourney& j, const Shape& shape) {
  const uint32_t pool_rank = shape.rank_of_expert(j.expert);
  const uint64_t flat = flat_route(j.token, j.k, shape.topk);
  std::vector<Stop> stops = {
      {"counted", j.counted, fmt::format("for expert {}", j.expert)},
      {"slot claimed", j.claimed,
       j.claimed_slots == 1
           ? fmt::format("slot {} of [expert {}][rank {}]", j.first_slot, j.expert, j.rank)
           : fmt::format("slots {} to {} of [expert {}][rank {}], for all its SM's tokens",
                         j.first_slot, j.first_slot + j.claimed_slots - 1, j.expert, j.rank)},
      {"index written", j.written,
       fmt::format("{} into slot {} of [expert {}][rank {}] on rank {}", flat, j.slot, j.expert,
                   j.rank, pool_rank)},
      {"looked up", j.found,
       fmt::format("row {} of the pool, block {}, ring slot {} on lap {}", j.place.row,
                   j.place.block, j.place.ring.index, j.place.ring.lap)}};
  if (j.place.ring.lap != 0)
    stops.push_back({"ring slot free", j.ring_free,
                     fmt::format("Linear1 has read the block of lap {}", j.place.ring.lap - 1)});
  stops.push_back(
      {"metadata written", j.recorded,
       fmt::format("at row {}{}", j.recorded_row,
                   j.recorded_row == j.place.row || !j.recorded.seen ? "" : ": not its own row")});
  stops.push_back(
      {"pulled", j.stored,
       fmt::format("codes from rank {} into ring slot {}", j.rank, j.place.ring.index)});
  stops.push_back(
      {"row published", j.published,
       fmt::format("XFull[{}] of rank {} is now {}", j.place.ring.index, pool_rank, j.x_full)});
  return stops;
}

std::vector<Stop> way_back(const SlotJourney& j) {
  return {
      {"loaded to combine", j.loaded,
       fmt::format("row [k {}][token {}] of rank {}", j.k, j.token, j.rank)},
      {"y written", j.summed, fmt::format("token {}, its slots added in ascending k", j.token)}};
}

bool all_done(const std::vector<TileJourney>& tiles) {
  return std::all_of(tiles.begin(), tiles.end(), [](const TileJourney& t) { return t.done.seen; });
}

/// "n 0, 2 by SM 0 math 0; n 1 by SM 1 math 0": who worked on which tile.
std::string workers_text(const std::vector<TileJourney>& tiles) {
  std::vector<std::pair<std::string, std::string>> workers;
  for (size_t n = 0; n < tiles.size(); ++n) {
    const Sighting& by = tiles[n].begun.seen ? tiles[n].begun : tiles[n].claimed;
    if (!by.seen) continue;
    const std::string who = fmt::format("SM {}", by.agent.sm);
    const auto same = std::find_if(workers.begin(), workers.end(),
                                   [&](const auto& worker) { return worker.first == who; });
    if (same == workers.end())
      workers.emplace_back(who, fmt::format("{}", n));
    else
      same->second += fmt::format(" {}", n);
  }
  std::string text;
  for (const auto& [who, numbers] : workers)
    text += fmt::format("{}n {} on {}", text.empty() ? "" : "; ", numbers, who);
  return text;
}

std::string tiles_line(const char* what, const std::vector<TileJourney>& tiles, const char* done,
                       JourneyClock clock) {
  uint64_t first = UINT64_MAX;
  uint64_t last = 0;
  size_t finished = 0;
  for (const TileJourney& tile : tiles) {
    const Sighting& begin = tile.begun.seen ? tile.begun : tile.claimed;
    if (begin.seen) first = std::min(first, moment(begin, clock));
    if (!tile.done.seen) continue;
    first = std::min(first, moment(tile.done, clock));
    last = std::max(last, moment(tile.done, clock));
    ++finished;
  }
  const std::string span =
      first == UINT64_MAX
          ? std::string("never")
          : fmt::format("{} to {}", first, finished == 0 ? "?" : fmt::to_string(last));
  return fmt::format("  {:<18} {:>16}  {} of {} tiles {}{}{}\n", what, span, finished, tiles.size(),
                     done, first == UINT64_MAX ? "" : ": ", workers_text(tiles));
}

std::string stop_line(const Stop& stop, JourneyClock clock) {
  if (!stop.seen.seen) return fmt::format("  {:<18} {:>16}\n", stop.what, "never");
  return fmt::format("  {:<18} {:>16}  {:<26} {}\n", stop.what, moment(stop.seen, clock),
                     agent_text(stop.seen.agent), stop.detail);
}

std::string values_line(const char* what, const std::vector<float>& values) {
  constexpr size_t kShown = 6;
  std::string line = fmt::format("  {:<18}", what);
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i)
    line += fmt::format(" {:>12.6g}", values[i]);
  return line + fmt::format("  (of {})\n", values.size());
}

Json sighting_json(const Sighting& seen, JourneyClock clock) {
  if (!seen.seen) return nullptr;
  const Json time = clock == JourneyClock::Nanoseconds ? Json(seen.time) : Json(nullptr);
  return {{"step", step_name(seen.step)},
          {"rank", seen.agent.rank},
          {"sm", seen.agent.sm},
          {"role", fmt::format("{} {}", role_name(seen.agent.role), seen.agent.number)},
          {"event", seen.event},
          {"time", time}};
}

Json tiles_json(const std::vector<TileJourney>& tiles, JourneyClock clock) {
  Json list = Json::array();
  for (size_t n = 0; n < tiles.size(); ++n)
    list.push_back({{"n", n},
                    {"claimed", sighting_json(tiles[n].claimed, clock)},
                    {"begun", sighting_json(tiles[n].begun, clock)},
                    {"done", sighting_json(tiles[n].done, clock)}});
  return list;
}

std::vector<float> floats_of(const uint16_t* bits, size_t count) {
  std::vector<float> values(count);
  std::transform(bits, bits + count, values.begin(), decode_bf16);
  return values;
}

/// Codes times the scale of their group.
std::vector<float> floats_of(const uint8_t* codes, size_t count, const float* scales,
                             uint32_t group) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = decode_e4m3(codes[i]) * scales[i / group];
  return values;
}

}  // namespace

SlotValues values_of(const SlotJourney& journey, const Problem& problem,
                     const LayerResult& result) {
  const Shape& shape = problem.shape;
  const auto key = [](const auto& row) { return std::tuple(row.rank, row.token, row.k); };
  const auto row =
      std::lower_bound(result.rows.begin(), result.rows.end(), journey,
                       [&](const RoutedRow& a, const SlotJourney& b) { return key(a) < key(b); });
  MOETWIN_CHECK(row != result.rows.end() && key(*row) == key(journey));
  const auto n = static_cast<size_t>(row - result.rows.begin());
  size_t token = journey.token;
  for (uint32_t rank = 0; rank < journey.rank; ++rank) token += result.tokens[rank];
  const RankInput& input = problem.ranks[journey.rank];
  SlotValues values;
  values.x = floats_of(&input.x_codes[size_t{journey.token} * shape.hidden], shape.hidden,
                       &input.x_scales[size_t{journey.token} * shape.hidden_blocks()], kScaleBlock);
  values.l1 = floats_of(&result.l1_codes[n * shape.intermediate], shape.intermediate,
                        &result.l1_scales[n * shape.linear1_scale_groups()], kLinear1ScaleGroup);
  values.l2 = floats_of(&result.l2[n * shape.hidden], shape.hidden);
  values.y = floats_of(&result.y[token * shape.hidden], shape.hidden);
  return values;
}

std::string journey_text(const SlotJourney& journey, const Shape& shape, JourneyClock clock,
                         const SlotValues* values) {
  std::string text = fmt::format("rank {} token {} k {}: expert {} on rank {}, weight {:.6g}\n",
                                 journey.rank, journey.token, journey.k, journey.expert,
                                 shape.rank_of_expert(journey.expert), journey.weight);
  for (const Stop& stop : way_into_the_pool(journey, shape)) {
    text += stop_line(stop, clock);
    if (!stop.seen.seen) return text;
  }
  text += tiles_line("Linear1", journey.linear1, "published", clock);
  if (!all_done(journey.linear1)) return text;
  text += tiles_line("Linear2", journey.linear2, "scattered", clock);
  if (!all_done(journey.linear2)) return text;
  for (const Stop& stop : way_back(journey)) {
    text += stop_line(stop, clock);
    if (!stop.seen.seen) return text;
  }
  if (values == nullptr) return text;
  return text + values_line("x", values->x) + values_line("Linear1, codes", values->l1) +
         values_line("Linear2, BF16", values->l2) + values_line("y", values->y);
}

std::string journey_table(const std::vector<SlotJourney>& journeys, JourneyClock clock) {
  std::string table =
      fmt::format("{:>4} {:>6} {:>3}  {:>6} {:>5} {:>5} {:>6} {:>6} {:>9} {:>6} {:>9}  {}\n",
                  "rank", "token", "k", "expert", "slot", "row", "block", "ring", "published",
                  "XFull", "y written", "pulled by");
  const auto when = [&](const Sighting& seen) {
    return seen.seen ? fmt::to_string(moment(seen, clock)) : std::string("never");
  };
  for (const SlotJourney& j : journeys) {
    const bool placed = j.written.seen;
    const auto number = [&](uint32_t value) {
      return placed ? fmt::to_string(value) : std::string("-");
    };
    table += fmt::format("{:>4} {:>6} {:>3}  {:>6} {:>5} {:>5} {:>6} {:>6} {:>9} {:>6} {:>9}  {}\n",
                         j.rank, j.token, j.k, j.expert, number(j.slot), number(j.place.row),
                         number(j.place.block),
                         placed ? fmt::format("{}+{}", j.place.ring.index, j.place.ring.lap) : "-",
                         when(j.published), j.published.seen ? fmt::to_string(j.x_full) : "-",
                         when(j.summed), j.found.seen ? agent_text(j.found.agent) : "nobody");
  }
  return table;
}

Json journey_json(const SlotJourney& journey, const Shape& shape, JourneyClock clock,
                  const SlotValues* values) {
  const bool placed = journey.written.seen;
  const auto known = [&](uint32_t value) { return placed ? Json(value) : Json(nullptr); };
  Json steps = Json::array();
  const auto add = [&](const std::vector<Stop>& stops) {
    for (const Stop& stop : stops) {
      Json step = {{"what", stop.what}, {"seen", sighting_json(stop.seen, clock)}};
      step["detail"] = stop.seen.seen ? Json(stop.detail) : Json(nullptr);
      steps.push_back(step);
    }
  };
  add(way_into_the_pool(journey, shape));
  add(way_back(journey));
  Json out = {{"rank", journey.rank},
              {"token", journey.token},
              {"k", journey.k},
              {"expert", journey.expert},
              {"expert_rank", shape.rank_of_expert(journey.expert)},
              {"weight", journey.weight},
              {"slot", known(journey.slot)},
              {"row", known(journey.place.row)},
              {"block", known(journey.place.block)},
              {"ring_slot", known(journey.place.ring.index)},
              {"lap", known(journey.place.ring.lap)},
              {"x_full", journey.published.seen ? Json(journey.x_full) : Json(nullptr)},
              {"steps", steps},
              {"linear1", tiles_json(journey.linear1, clock)},
              {"linear2", tiles_json(journey.linear2, clock)}};
  out["values"] = nullptr;
  if (values != nullptr)
    out["values"] = {{"x", values->x}, {"l1", values->l1}, {"l2", values->l2}, {"y", values->y}};
  return out;
}

}  // namespace moetwin
