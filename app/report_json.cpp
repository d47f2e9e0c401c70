#include "app/report_json.h"

#include <algorithm>
#include <string>

#include "app/received.h"
#include "app/report_page.h"
#include "common/check.h"
#include "common/step.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

Json kernel_json(const Shape& shape, const KernelPlan& plan) {
  const bool ring = plan.scheduler == SchedulerPolicy::Ring;
  return {{"block_m", plan.block_m},
          {"sms_per_rank", plan.sms},
          {"stages", plan.stages},
          {"scheduler", ring ? "ring" : "wave"},
          {"ring_blocks", plan.ring_blocks},
          {"smallest_safe_ring", smallest_safe_ring(shape, {plan.block_m, plan.block_n}, plan.sms)},
          {"n1", plan.tiles.n1},
          {"n2", plan.tiles.n2}};
}

Json received_json(const ReportInput& input) {
  const Case& c = *input.c;
  const LaunchSpec& launch = c.launches[input.launch];
  Json ranks = Json::array();
  for (const Received& r : count_received(launch, input.plan))
    ranks.push_back({{"tokens", r.tokens},
                     {"rows", r.rows},
                     {"blocks", r.blocks},
                     {"laps", (r.blocks + input.plan.ring_blocks - 1) / input.plan.ring_blocks},
                     {"busiest_expert", r.busiest_expert},
                     {"busiest_rows", r.busiest_rows},
                     {"experts_without", r.experts_without}});
  const Problem problem = make_routed_problem(c, input.launch);
  std::vector<std::vector<uint64_t>> counts(launch.shape.ranks,
                                            std::vector<uint64_t>(launch.shape.experts, 0));
  for (uint32_t rank = 0; rank < launch.shape.ranks; ++rank)
    for (const int32_t expert : problem.ranks[rank].topk_idx)
      if (expert != kMaskedExpert) ++counts[rank][static_cast<size_t>(expert)];
  return {{"ranks", ranks}, {"counts", counts}};
}

Json slots_json(const ReportInput& input) {
  if (!input.slots) return nullptr;
  std::vector<const SlotJourney*> order;
  for (const SlotJourney& journey : input.journeys)
    if (journey.written.seen) order.push_back(&journey);
  std::sort(order.begin(), order.end(), [](const SlotJourney* a, const SlotJourney* b) {
    return a->expert != b->expert ? a->expert < b->expert : a->place.row < b->place.row;
  });
  Json slots = Json::array();
  for (const SlotJourney* j : order) {
    const Json summed = !j->summed.seen ? Json(nullptr)
                        : input.timed   ? Json(j->summed.time)
                                        : Json(j->summed.event);
    slots.push_back({{"expert", j->expert},
                     {"rank", j->rank},
                     {"slot", j->slot},
                     {"token", j->token},
                     {"k", j->k},
                     {"row", j->place.row},
                     {"block", j->place.block},
                     {"ring_slot", j->place.ring.index},
                     {"lap", j->place.ring.lap},
                     {"summed", summed}});
  }
  return slots;
}

/// At most kReportedIntervals points and the last: of each interval the largest value it saw.
Json series_json(const std::vector<CounterPoint>& points, uint64_t span) {
  const uint64_t interval = span / kReportedIntervals + 1;
  Json series = Json::array();
  size_t i = 0;
  while (i < points.size()) {
    const uint64_t bin = points[i].time / interval;
    CounterPoint largest = points[i];
    for (; i < points.size() && points[i].time / interval == bin; ++i)
      if (points[i].value > largest.value) largest = points[i];
    series.push_back({largest.time, largest.value});
  }
  if (!points.empty() && series.back()[0] != points.back().time)
    series.push_back({points.back().time, points.back().value});
  return series;
}

Json over_time_json(const ReportInput& input, uint64_t span) {
  Json ranks = Json::array();
  if (input.timeline.launches.empty()) return ranks;
  for (const auto& rank : counter_series(input.timeline)) {
    const auto series = [&](RankCounter counter) {
      return series_json(rank[static_cast<uint32_t>(counter)], span);
    };
    ranks.push_back({{"pool_ring", series(RankCounter::PoolRing)},
                     {"linear1_ring", series(RankCounter::Linear1Ring)},
                     {"bytes_in_flight", series(RankCounter::BytesInFlight)},
                     {"tokens_done", series(RankCounter::TokensDone)}});
  }
  return ranks;
}

Json waits_json(const Timeline& timeline) {
  Json waits = Json::array();
  for (const WaitSummary& wait : summarise_waits(timeline)) {
    Json provider = nullptr;
    if (wait.ended_by_others)
      provider = {{"role", role_name(wait.provider)},
                  {"step", step_name(wait.provider_step)},
                  {"words", step_words(wait.provider_step)}};
    waits.push_back({{"rank", wait.rank},
                     {"role", role_name(wait.role)},
                     {"step", step_name(wait.step)},
                     {"words", step_words(wait.step)},
                     {"waits", wait.waits},
                     {"unended", wait.unended},
                     {"total", wait.total},
                     {"longest", wait.longest},
                     {"longest_sm", wait.longest_sm},
                     {"provider", provider}});
  }
  return waits;
}

}  // namespace

Json report_json(const ReportInput& input) {
  const TimeSpan times = time_span(input.timeline.events);
  const uint64_t span = times.last - times.first;
  return {{"case", Json::parse(case_to_json(*input.c))},
          {"kernel", kernel_json(input.c->launches[input.launch].shape, input.plan)},
          {"launch", input.launch},
          {"clock", input.timed ? "nanoseconds" : "events"},
          {"span", span},
          {"received", received_json(input)},
          {"slots", slots_json(input)},
          {"over_time", over_time_json(input, span)},
          {"waits", waits_json(input.timeline)},
          {"run", run_json(input.run)}};
}

std::string report_html(const Json& report) {
  std::string data;
  // A '<' could end the element that holds the JSON.
  for (const char c : report.dump()) {
    if (c == '<')
      data += "\\u003c";
    else
      data += c;
  }
  std::string page = report_page();
  const std::string place = kReportPlace;
  const size_t at = page.find(place);
  MOETWIN_CHECK(at != std::string::npos && page.find(place, at + 1) == std::string::npos);
  return page.replace(at, place.size(), data);
}

}  // namespace moetwin
