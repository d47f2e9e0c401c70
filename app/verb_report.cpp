// report: a run on the simulator as one page that a browser opens without a network.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/case_checks.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/received.h"
#include "app/report_json.h"
#include "app/verbs.h"
#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "cpu_sim/simulate.h"
#include "fuzz/plants.h"
#include "model/output_file.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "Writes DIR/index.html: the case, who received what, slot tables, rings over time, who waited\n"
    "for what and how long, errors against the references, findings. The page holds the object "
    "that\n"
    "--json prints and is drawn from it. Times are control events of the run, under the timed\n"
    "schedule virtual nanoseconds.\n\n"
    "Examples:\n"
    "  moetwin report small.json --out small_report --schedule timed\n"
    "  moetwin report small.json --out small_report --no-math --check\n"
    "  moetwin report small.json --json\n";

struct Options {
  std::string path;
  std::string out;
  std::string threads;
  std::string schedule;
  std::string max_memory;
  bool check = false;
  bool no_math = false;
  bool unsafe_ring = false;
  bool json = false;
};

/// Makes the directory where there is none; its parent must be there.
void make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (!std::filesystem::is_directory(path, error))
    throw InputError(fmt::format("--out: '{}' cannot be made a directory", path.substr(0, 60)));
}

std::string repeat_command(const Options& o, const RunResult& result) {
  CommandText command("run");
  command.word(o.path).given("--schedule", result.schedule_string).given("--threads", o.threads);
  command.flag("--check", o.check).flag("--no-math", o.no_math);
  return command.flag("--unsafe-ring", o.unsafe_ring).text();
}

uint64_t routed_slots(const LaunchSpec& launch, const KernelPlan& plan) {
  uint64_t rows = 0;
  for (const Received& received : count_received(launch, plan)) rows += received.rows;
  return rows;
}

ReportInput run_case(const Options& o, const Case& c) {
  RunOptions options;
  options.threads = read_threads(o.threads);
  options.schedule = o.schedule;
  options.check = o.check;
  options.math = !o.no_math;
  options.unsafe_ring = o.unsafe_ring;
  const std::string& schedule = o.schedule.empty() ? c.schedule : o.schedule;
  ReportInput input;
  input.c = &c;
  input.launch = c.launches.size() - 1;
  input.timed = parse_schedule(schedule).policy == SchedulePolicy::Timed;
  const LaunchSpec& launch = c.launches[input.launch];
  input.plan = plan_of(c, launch, o.unsafe_ring, options.math);
  input.slots = routed_slots(launch, input.plan) <= kMostReportedSlots;
  const KernelArgs args{launch.shape, input.plan, make_layout(launch.shape, input.plan), c.clamp};
  JourneyRecorder recorder(make_routed_problem(c, input.launch), args, input.launch, {});
  Probes probes;
  probes.timeline = &input.timeline;
  if (input.slots) probes.observer = &recorder;
  if (input.slots) probes.data = &recorder;
  RunResult& result = input.run.result;
  result = c.plant.empty() ? simulate(c, options, Mutant{}, probes)
                           : simulate_planted(c, options, probes);
  if (input.slots) input.journeys = recorder.journeys();
  input.run.backend = "sim";
  input.run.math = options.math;
  input.run.unsafe_ring = o.unsafe_ring;
  input.run.schedule = schedule;
  if (options.math && result.launches.size() == c.launches.size()) {
    input.run.references = run_references(c, result.launches, "sim", options.threads);
    for (const Finding& finding : input.run.references->findings)
      result.findings.push_back(finding);
  }
  for (const LayerResult& each : result.launches) input.run.digests.push_back(digest_stages(each));
  input.run.repeat = repeat_command(o, result);
  return input;
}

int report(const Options& o) {
  if (o.out.empty() && !o.json)
    throw InputError("--out: missing, the directory of the page (or --json)");
  if (!o.out.empty()) make_directory(o.out);
  const Case c = load_case(o.path);
  check_case(c, find_backend("--backend", "sim"),
             {o.unsafe_ring, !o.no_math, o.schedule, read_max_memory(o.max_memory), !o.no_math});
  ReportInput input;
  nlohmann::ordered_json object;
  {
    const Progress progress("report");
    input = run_case(o, c);
    object = report_json(input);
  }
  const std::string page =
      o.out.empty() ? std::string() : (std::filesystem::path(o.out) / "index.html").string();
  if (!o.out.empty()) write_file(page, report_html(object), "--out");
  const RunResult& result = input.run.result;
  std::string text;
  if (o.json) {
    text = object.dump() + "\n";
  } else {
    text = case_lines(c, o.unsafe_ring) + fmt::format("written    {}\n", page);
    for (size_t i = 0; i < result.findings.size(); ++i)
      text += fmt::format("finding {}  {}", i + 1, finding_text(result.findings[i]));
    if (result.failed()) text += fmt::format("repeat     {}\n", input.run.repeat);
  }
  std::fputs(text.c_str(), stdout);
  return result.failed() ? kExitFinding : kExitFine;
}

}  // namespace

VerbAction add_report(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file");
  options.text("--out", o->out, "directory of the page; made where it is missing");
  options.text("--threads", o->threads, "threads for pure work (all cores); never changes a bit");
  options.text("--schedule", o->schedule, "in place of the case's own, as for run");
  options.flag("--check", o->check, "find races and what else run --check finds");
  options.flag("--no-math", o->no_math, "the protocol with payload tags in place of arithmetic");
  options.flag("--unsafe-ring", o->unsafe_ring, "accept a ring below the smallest safe one");
  options.text("--max-memory", o->max_memory,
               "GiB a case may need (80 % of what is free); more is refused at once");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return report(*o); };
}

}  // namespace moetwin
