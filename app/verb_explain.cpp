// explain: the journey of a token's routed slots, or of all slots of a pool row, block or expert,
// as a run on the simulator made it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/case_checks.h"
#include "app/journey_report.h"
#include "app/progress.h"
#include "app/run_report.h"
#include "app/simulated_run.h"
#include "app/verbs.h"
#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "fuzz/plants.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "One of --token, --row, --block and --expert says what to follow. Numbers beside the steps "
    "are\n"
    "control events of the run, under the timed schedule virtual nanoseconds. Many slots are "
    "shown\n"
    "as a table, --full and --json have every step of each.\n\n"
    "Examples:\n"
    "  moetwin explain small.json --token 0:5\n"
    "  moetwin explain small.json --token 0:5 --values --schedule timed\n"
    "  moetwin explain small.json --row 1:64 --full         who wrote pool row 64 of rank 1\n"
    "  moetwin explain small.json --block 1:3 --json\n"
    "  moetwin explain small.json --expert 9 --no-math\n";

struct Options {
  SimulatedRun run;
  std::string token;
  std::string row;
  std::string block;
  std::string expert;
  std::string launch;
  bool values = false;
  bool full = false;
  bool json = false;
};

/// More slots than this are a table.
constexpr size_t kMostParagraphs = 8;

/// "RANK:NUMBER", both below their limits.
std::pair<uint32_t, uint32_t> read_pair(const std::string& option, const std::string& text,
                                        uint32_t ranks,
                                        const std::function<uint64_t(uint32_t)>& below) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos)
    throw InputError(fmt::format("{}: '{}' is not RANK:NUMBER", option, text.substr(0, 60)));
  const auto rank =
      static_cast<uint32_t>(read_integer_option(option, text.substr(0, colon), 0, ranks - 1));
  const uint64_t limit = below(rank);
  if (limit == 0) throw InputError(fmt::format("{}: rank {} has none", option, rank));
  return {rank,
          static_cast<uint32_t>(read_integer_option(option, text.substr(colon + 1), 0, limit - 1))};
}

JourneyFilter read_filter(const Options& o, const LaunchSpec& launch, const KernelPlan& plan) {
  const int given = !o.token.empty() + !o.row.empty() + !o.block.empty() + !o.expert.empty();
  if (given != 1)
    throw InputError(
        fmt::format("explain: {} of --token, --row, --block and --expert given, want one", given));
  const uint32_t ranks = launch.shape.ranks;
  JourneyFilter filter;
  if (!o.token.empty())
    std::tie(filter.rank, filter.token) =
        read_pair("--token", o.token, ranks, [&](uint32_t rank) { return launch.tokens[rank]; });
  if (!o.row.empty())
    std::tie(filter.pool_rank, filter.row) =
        read_pair("--row", o.row, ranks, [&](uint32_t) { return plan.max_pool_rows(); });
  if (!o.block.empty())
    std::tie(filter.pool_rank, filter.block) =
        read_pair("--block", o.block, ranks, [&](uint32_t) { return plan.max_blocks; });
  if (!o.expert.empty())
    filter.expert = static_cast<uint32_t>(
        read_integer_option("--expert", o.expert, 0, launch.shape.experts - 1));
  return filter;
}

struct Explained {
  Shape shape;
  size_t launch = 0;
  JourneyClock clock = JourneyClock::Events;
  std::string schedule;
  RunResult result;
  std::vector<SlotJourney> journeys;
  std::vector<SlotValues> values;  ///< one a journey, or none
  std::string repeat;
};

Explained follow(const Options& o, const Case& c, size_t launch) {
  Explained e;
  e.launch = launch;
  e.shape = c.launches[e.launch].shape;
  e.schedule = schedule_of(o.run, c);
  if (parse_schedule(e.schedule).policy == SchedulePolicy::Timed)
    e.clock = JourneyClock::Nanoseconds;
  const RunOptions options = run_options(o.run);
  const KernelPlan plan = plan_of(c, c.launches[e.launch], options.unsafe_ring, options.math);
  const KernelArgs args{e.shape, plan, make_layout(e.shape, plan), c.clamp};
  JourneyRecorder recorder(make_routed_problem(c, e.launch), args, e.launch,
                           read_filter(o, c.launches[e.launch], plan));
  Probes probes;
  probes.observer = &recorder;
  probes.data = &recorder;
  e.result = simulate_case(c, options, probes);
  e.journeys = recorder.journeys();
  if (o.token.empty())
    std::stable_sort(e.journeys.begin(), e.journeys.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.expert, a.place.row) < std::tuple(b.expert, b.place.row);
    });
  if (!o.values || e.launch >= e.result.launches.size()) return e;
  WeightCache cache;
  const Problem problem = make_problem(c, e.launch, cache);
  for (const SlotJourney& journey : e.journeys)
    e.values.push_back(values_of(journey, problem, e.result.launches[e.launch]));
  return e;
}

/// The launch asked for; else that of the run's first finding, else the last.
Explained follow(const Options& o, const Case& c) {
  const size_t last = c.launches.size() - 1;
  if (!o.launch.empty()) return follow(o, c, read_integer_option("--launch", o.launch, 0, last));
  Explained e = follow(o, c, last);
  for (const Finding& finding : e.result.findings) {
    if (!finding.launch) continue;
    if (*finding.launch != last) return follow(o, c, *finding.launch);
    break;
  }
  return e;
}

std::string explain_json(const Explained& e) {
  nlohmann::ordered_json slots = nlohmann::ordered_json::array();
  for (size_t i = 0; i < e.journeys.size(); ++i)
    slots.push_back(journey_json(e.journeys[i], e.shape, e.clock,
                                 i < e.values.size() ? &e.values[i] : nullptr));
  const nlohmann::ordered_json out = {
      {"launch", e.launch},
      {"schedule_string", e.result.schedule_string},
      {"clock", e.clock == JourneyClock::Events ? "events" : "nanoseconds"},
      {"slots", slots},
      {"findings", findings_json(e.result.findings, e.repeat)}};
  return out.dump() + "\n";
}

std::string explain_text(const Options& o, const Case& c, const Explained& e) {
  std::string text = case_lines(c, o.run.unsafe_ring);
  text += fmt::format("schedule   {}, launch {}; numbers are {}\n", e.schedule, e.launch,
                      e.clock == JourneyClock::Events ? "control events" : "virtual nanoseconds");
  text += fmt::format("slots      {} routed\n\n", e.journeys.size());
  if (e.journeys.size() > kMostParagraphs && !o.full) {
    text += journey_table(e.journeys, e.clock);
  } else {
    for (size_t i = 0; i < e.journeys.size(); ++i)
      text += journey_text(e.journeys[i], e.shape, e.clock,
                           i < e.values.size() ? &e.values[i] : nullptr) +
              "\n";
  }
  for (size_t i = 0; i < e.result.findings.size(); ++i)
    text += fmt::format("finding {}  {}", i + 1, finding_text(e.result.findings[i]));
  if (e.result.failed()) text += fmt::format("repeat     {}\n", e.repeat);
  return text;
}

int explain(const Options& o) {
  if (o.values && o.run.no_math)
    throw InputError("--values: needs the values that --no-math leaves out");
  const Case c = load_checked_case(o.run, false);
  Explained explained;
  {
    const Progress progress("explain");
    explained = follow(o, c);
  }
  explained.repeat = repeat_command(o.run, explained.result, false);
  std::fputs((o.json ? explain_json(explained) : explain_text(o, c, explained)).c_str(), stdout);
  return explained.result.failed() ? kExitFinding : kExitFine;
}

}  // namespace

VerbAction add_explain(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->run.path, "case file");
  options.text("--token", o->token, "RANK:TOKEN: the routed slots of one token");
  options.text("--row", o->row, "RANK:ROW: the slot in a logical pool row of a rank");
  options.text("--block", o->block, "RANK:BLOCK: the slots in a pool block of a rank");
  options.text("--expert", o->expert, "the slots that an expert receives");
  options.text("--launch", o->launch,
               "which launch, from 0 (that of the first finding, else the last)");
  options.flag("--values", o->values, "with the values at every stage");
  options.flag("--full", o->full, "every step of each slot, however many there are");
  add_simulated_run(options, o->run);
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return explain(*o); };
}

}  // namespace moetwin
