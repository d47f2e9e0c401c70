#include "app/simulated_run.h"

#include "app/arguments.h"
#include "app/backends.h"
#include "app/case_checks.h"

namespace moetwin {

void add_simulated_run(VerbOptions& options, SimulatedRun& run) {
  options.text("--threads", run.threads, "threads for pure work (all cores); never changes a bit");
  options.text("--schedule", run.schedule, "in place of the case's own, as for run");
  options.flag("--check", run.check, "find races and what else run --check finds");
  options.flag("--no-math", run.no_math, "the protocol with payload tags in place of arithmetic");
  options.flag("--unsafe-ring", run.unsafe_ring, "accept a ring below the smallest safe one");
  options.text("--max-memory", run.max_memory,
               "GiB a case may need (80 % of what is free); more is refused at once");
}

RunOptions run_options(const SimulatedRun& run) {
  RunOptions options;
  options.threads = read_threads(run.threads);
  options.schedule = run.schedule;
  options.check = run.check;
  options.math = !run.no_math;
  options.unsafe_ring = run.unsafe_ring;
  return options;
}

Case load_checked_case(const SimulatedRun& run, bool references) {
  Case c = load_case(run.path);
  check_case(
      c, find_backend("--backend", "sim"),
      {run.unsafe_ring, references, run.schedule, read_max_memory(run.max_memory), !run.no_math});
  return c;
}

const std::string& schedule_of(const SimulatedRun& run, const Case& c) {
  return run.schedule.empty() ? c.schedule : run.schedule;
}

std::string repeat_command(const SimulatedRun& run, const RunResult& result, bool references) {
  CommandText command("run");
  command.word(run.path).given("--schedule", result.schedule_string);
  command.given("--threads", run.threads).given("--max-memory", run.max_memory);
  command.flag("--check", run.check).flag("--no-math", run.no_math);
  return command.flag("--reference", references).flag("--unsafe-ring", run.unsafe_ring).text();
}

}  // namespace moetwin
