// run: one case on one backend, shown on a screen or as JSON.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/card_ranks.h"
#include "app/case_checks.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/check.h"
#include "model/result_tensors.h"

namespace moetwin {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  moetwin run small.json\n"
    "  moetwin run small.json --schedule random:1 --threads 2 --reference\n"
    "  moetwin run small.json --schedule slow:load_a@1 --json\n"
    "  moetwin run small.json --no-math            protocol alone: rows, tiles, events\n"
    "  moetwin run small.json --schedule timed --trace small.pftrace\n"
    "  moetwin run small.json --backend naive --dump y.safetensors\n"
    "  moetwin run two_ranks.json --backend gpu --gpus 2    one rank a card\n"
    "  torchrun --no-python --nproc-per-node 2 moetwin run two_ranks.json --backend gpu\n"
    "  mpirun -np 2 moetwin run two_ranks.json --backend gpu\n";

struct Options {
  std::string path;
  std::string backend = "sim";
  std::string gpus;
  std::string threads;
  std::string schedule;
  std::string k_loop;
  std::string max_memory;
  std::string dump;
  std::string trace;
  bool check = false;
  bool no_math = false;
  bool reference = false;
  bool unsafe_ring = false;
  bool json = false;
};

RunOptions run_options(const Options& o) {
  RunOptions options;
  options.threads = read_threads(o.threads);
  options.schedule = o.schedule;
  options.check = o.check;
  options.math = !o.no_math;
  options.unsafe_ring = o.unsafe_ring;
  options.trace_path = o.trace;
  if (!o.k_loop.empty() && o.k_loop != "full")
    throw InputError(fmt::format("--k-loop: '{}' is not full", o.k_loop));
  if (!o.k_loop.empty() && !o.no_math)
    throw InputError("--k-loop: with tile arithmetic every k loop is full; give --no-math too");
  options.full_k_loop = !o.k_loop.empty();
  return options;
}

void check_combinations(const Options& o) {
  if (!o.no_math) return;
  const auto refuse = [](const char* option) {
    throw InputError(fmt::format("{}: needs the values that --no-math leaves out", option));
  };
  if (o.reference) refuse("--reference");
  if (!o.dump.empty()) refuse("--dump");
}

std::string repeat_command(const Options& o, const RunResult& result) {
  CommandText command("run");
  command.word(o.path).option("--backend", o.backend).given("--gpus", o.gpus);
  command.given("--schedule", result.schedule_string.empty() ? o.schedule : result.schedule_string);
  command.given("--threads", o.threads).given("--max-memory", o.max_memory);
  command.given("--k-loop", o.k_loop).given("--trace", o.trace);
  command.flag("--check", o.check).flag("--no-math", o.no_math).flag("--reference", o.reference);
  return command.flag("--unsafe-ring", o.unsafe_ring).text();
}

void dump(const Options& o, const Case& c, const RunResult& result) {
  WeightCache cache;
  const size_t last = c.launches.size() - 1;
  const Problem problem = make_problem(c, last, cache);
  write_dump(o.dump, problem, result.launches.back());
}

int run(const Options& o) {
  check_combinations(o);
  if (!o.dump.empty()) check_output_path("--dump", o.dump);
  if (!o.trace.empty()) check_output_path("--trace", o.trace);
  const Backend& backend = find_backend("--backend", o.backend);
  const RunOptions options = run_options(o);
  check_options(backend, options);
  const CardRanks cards = read_card_ranks(o.gpus, backend.on_card);
  if (cards.gpus != 0 && !o.trace.empty())
    throw InputError("--trace: several cards have no timeline; one card or --backend sim has");
  if (const auto served = serve_card_rank(backend.on_card)) return *served;
  const Case c = load_case(o.path);
  check_card_ranks(cards, c);
  check_case(c, backend,
             {o.unsafe_ring, o.reference, o.schedule, read_max_memory(o.max_memory), options.math});

  RunReport report;
  report.backend = backend.name;
  report.math = options.math;
  report.unsafe_ring = o.unsafe_ring;
  if (backend.simulated) report.schedule = o.schedule.empty() ? c.schedule : o.schedule;
  {
    const Progress progress("run");
    report.result = open_backend(backend, cards)(c, options);
    const bool complete = report.result.launches.size() == c.launches.size();
    if (o.reference && complete)
      report.references = run_references(c, report.result.launches, o.backend, options.threads);
    if (!o.dump.empty() && complete) dump(o, c, report.result);
  }
  if (report.references)
    for (const Finding& finding : report.references->findings)
      report.result.findings.push_back(finding);
  for (const LayerResult& launch : report.result.launches)
    report.digests.push_back(digest_stages(launch));
  report.repeat = repeat_command(o, report.result);

  const std::string text = o.json ? run_json(report).dump() + "\n" : run_screen(c, report);
  std::fputs(text.c_str(), stdout);
  return report.result.failed() ? kExitFinding : kExitFine;
}

}  // namespace

VerbAction add_run(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file");
  options.text("--backend", o->backend, "sim, naive or gpu (sim)");
  options.text("--gpus", o->gpus,
               "with gpu: this many cards, one rank and process each (one card for all ranks)");
  options.text("--threads", o->threads, "threads for pure work (all cores); never changes a bit");
  options.text(
      "--schedule", o->schedule,
      "in place of the case's own: fifo, random:SEED, pct:SEED:DEPTH, timed, slow:ROLE@RANK, "
      "replay:STRING or replay:@FILE");
  options.flag("--check", o->check,
               "find races, missing fences, narrow scopes, stale reads and barrier misuse");
  options.flag("--no-math", o->no_math, "the protocol with payload tags in place of arithmetic");
  options.text("--k-loop", o->k_loop,
               "full: with --no-math, step through every block of K of every tile");
  options.flag("--reference", o->reference,
               "compare with the naive path bit for bit and with double precision");
  options.flag("--unsafe-ring", o->unsafe_ring, "accept a ring below the smallest safe one");
  options.text("--max-memory", o->max_memory,
               "GiB a case may need (80 % of what is free); more is refused at once");
  options.text("--trace", o->trace, "write the timeline, to be opened in Perfetto");
  options.text("--dump", o->dump, "write y, every stage and the inputs as .safetensors");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return run(*o); };
}

}  // namespace moetwin
