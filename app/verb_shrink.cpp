// shrink: a smaller case with the same verdict.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/card_ranks.h"
#include "app/case_checks.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/run_report.h"
#include "app/verbs.h"
#include "common/check.h"
#include "fuzz/kept_weights.h"
#include "fuzz/shrink.h"

namespace moetwin {
namespace {

constexpr uint64_t kMaxRuns = 1'000'000;
constexpr uint64_t kKeptWeightBytes = uint64_t{256} << 20;

constexpr const char* kExamples =
    "Without --check the case is tried as it is first, and with the checker where that finds\n"
    "nothing.\n\n"
    "Examples:\n"
    "  moetwin shrink found/findings/race-PullStore-dispatch.json --check --out small.json\n"
    "  moetwin shrink found/findings/deadlock-GridWait-dispatch.json --no-math --out small.json\n"
    "  moetwin shrink differs.json --left sim --right gpu --out small.json\n";

struct Options {
  std::string path;
  std::string out;
  std::string left = "sim";
  std::string right = "naive";
  std::string runs = "3000";
  std::string seconds;
  bool check = false;
  bool no_math = false;
  bool unsafe_ring = false;
  bool json = false;
};

FuzzSide side_of(const std::string& option, const std::string& name) {
  const Backend& backend = find_backend(option, name);
  FuzzSide side{backend.name};
  if (backend.on_card) side.run = open_backend(backend, CardRanks{});
  return side;
}

std::string size_text(const Case& c) {
  uint64_t tokens = 0;
  for (const LaunchSpec& launch : c.launches)
    for (const uint32_t count : launch.tokens) tokens += count;
  return fmt::format("{} ranks, {} experts, {} tokens, top-{}, {} launches", c.shape.ranks,
                     c.shape.experts, tokens, c.shape.topk, c.launches.size());
}

/// The command that shows the finding of the small case. Without arithmetic nothing is compared;
/// rows that are missing then differ in y as well.
std::string show_command(const Options& o, const ShrinkResult& result, bool check) {
  if (o.no_math && result.cause.kind != finding_class_name(FindingClass::Mismatch))
    return CommandText("run")
        .word(o.out)
        .flag("--no-math", true)
        .given("--k-loop", result.c.schedule.starts_with("replay:") ? "full" : "")
        .flag("--check", check)
        .flag("--unsafe-ring", o.unsafe_ring)
        .text();
  return CommandText("diff")
      .word(o.out)
      .option("--left", o.left)
      .option("--right", o.right)
      .flag("--check", check)
      .flag("--unsafe-ring", o.unsafe_ring)
      .text();
}

int shrink(const Options& o) {
  if (o.out.empty()) throw InputError("--out: is missing, the file for the smaller case");
  check_output_path("--out", o.out);
  ShrinkOptions options;
  options.most_runs = read_integer_option("--runs", o.runs, 1, kMaxRuns);
  if (!o.seconds.empty())
    options.seconds =
        static_cast<double>(read_integer_option("--seconds", o.seconds, 1, 1'000'000));
  options.judge.left = side_of("--left", o.left);
  options.judge.right = side_of("--right", o.right);
  options.judge.unsafe_ring = o.unsafe_ring;
  options.judge.math = !o.no_math;
  if (o.no_math && !options.judge.left.simulated() && !options.judge.right.simulated())
    throw InputError("--no-math: neither side is sim, which alone can leave arithmetic out");
  const KeptWeights weights(kKeptWeightBytes);
  options.judge.weights = weights.maker();
  const Case c = load_case(o.path);
  check_case(c, find_backend("--left", o.left),
             {o.unsafe_ring, !o.no_math, "", read_max_memory(""), !o.no_math});
  options.judge.check = o.check || judge_case(c, options.judge).cause.none();

  ShrinkResult result;
  {
    Progress progress("shrink", 0);
    options.progress = [&progress] { progress.advance(); };
    result = shrink_case(c, options);
  }
  save_case(result.c, o.out);
  if (o.json) {
    const nlohmann::ordered_json out = {{"out", o.out},
                                        {"class", result.cause.kind},
                                        {"site", result.cause.site},
                                        {"role", result.cause.role},
                                        {"runs", result.runs},
                                        {"finished", result.finished},
                                        {"text", result.finding.text},
                                        {"repeat", show_command(o, result, options.judge.check)}};
    std::fputs((out.dump() + "\n").c_str(), stdout);
    return kExitFine;
  }
  std::fputs(fmt::format("finding    {}\n           {}\nfrom       {}\nto         {}\n"
                         "tried      {} cases{}\nwritten    {}\nrepeat     {}\n",
                         cause_text(result.cause), result.finding.text, size_text(c),
                         size_text(result.c), result.runs,
                         result.finished ? "; nothing smaller keeps the finding"
                                         : "; a smaller one may be found with more --runs",
                         o.out, show_command(o, result, options.judge.check))
                 .c_str(),
             stdout);
  return kExitFine;
}

}  // namespace

VerbAction add_shrink(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file with a finding");
  options.text("--out", o->out, "file to write");
  options.text("--left", o->left, "one side of the comparison (sim)");
  options.text("--right", o->right, "the other (naive)");
  options.text("--runs", o->runs, "cases to try at the most (3000)");
  options.text("--seconds", o->seconds, "end after so many seconds");
  options.flag("--check", o->check, "the finding is one of the checker's");
  options.flag("--no-math", o->no_math, "the protocol alone: far faster, for a finding of its own");
  options.flag("--unsafe-ring", o->unsafe_ring, "accept a ring below the smallest safe one");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return shrink(*o); };
}

}  // namespace moetwin
