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
#include "app/progress.h"
#include "app/received.h"
#include "app/report_json.h"
#include "app/simulated_run.h"
#include "app/verbs.h"
#include "common/check.h"
#include "cpu_sim/schedule.h"
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
  SimulatedRun run;
  std::string out;
  bool json = false;
};

/// Makes the directory where there is none; its parent must be there.
void make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  if (!std::filesystem::is_directory(path, error))
    throw InputError(fmt::format("--out: '{}' cannot be made a directory", path.substr(0, 60)));
}

uint64_t routed_slots(const LaunchSpec& launch, const KernelPlan& plan) {
  uint64_t rows = 0;
  for (const Received& received : count_received(launch, plan)) rows += received.rows;
  return rows;
}

ReportInput run_case(const Options& o, const Case& c) {
  const RunOptions options = run_options(o.run);
  const std::string& schedule = schedule_of(o.run, c);
  ReportInput input;
  input.c = &c;
  input.launch = c.launches.size() - 1;
  input.timed = parse_schedule(schedule).policy == SchedulePolicy::Timed;
  const LaunchSpec& launch = c.launches[input.launch];
  input.plan = plan_of(c, launch, options.unsafe_ring, options.math);
  input.slots = routed_slots(launch, input.plan) <= kMostReportedSlots;
  const KernelArgs args{launch.shape, input.plan, make_layout(launch.shape, input.plan), c.clamp};
  JourneyRecorder recorder(make_routed_problem(c, input.launch), args, input.launch, {});
  Probes probes;
  probes.timeline = &input.timeline;
  if (input.slots) probes.observer = &recorder;
  if (input.slots) probes.data = &recorder;
  RunResult& result = input.run.result;
  result = simulate_case(c, options, probes);
  if (input.slots) input.journeys = recorder.journeys();
  input.run.backend = "sim";
  input.run.math = options.math;
  input.run.unsafe_ring = options.unsafe_ring;
  input.run.schedule = schedule;
  if (options.math && result.launches.size() == c.launches.size()) {
    input.run.references = run_references(c, result.launches, "sim", options.threads);
    for (const Finding& finding : input.run.references->findings)
      result.findings.push_back(finding);
  }
  for (const LayerResult& each : result.launches) input.run.digests.push_back(digest_stages(each));
  input.run.repeat = repeat_command(o.run, result, options.math);
  return input;
}

int report(const Options& o) {
  if (o.out.empty() && !o.json)
    throw InputError("--out: missing, the directory of the page (or --json)");
  if (!o.out.empty()) make_directory(o.out);
  const Case c = load_checked_case(o.run, !o.run.no_math);
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
    text = case_lines(c, o.run.unsafe_ring) + fmt::format("written    {}\n", page);
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
  options.argument("CASE", o->run.path, "case file");
  options.text("--out", o->out, "directory of the page; made where it is missing");
  add_simulated_run(options, o->run);
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return report(*o); };
}

}  // namespace moetwin
