// diff: one case on two backends, or one against a file of tensors, to the first differing bit.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
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
#include "model/compare.h"
#include "model/result_tensors.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "A side is a backend (sim, naive, gpu) or a .safetensors file with y, as run --dump writes "
    "it;\n"
    "a file stands for the case's last launch.\n\n"
    "Examples:\n"
    "  moetwin diff small.json\n"
    "  moetwin diff small.json --schedule random:7 --json\n"
    "  moetwin diff small.json --left sim --right gpu\n"
    "  moetwin diff two_ranks.json --left sim --right gpu --gpus 2\n"
    "  moetwin diff small.json --left naive --right theirs.safetensors\n";

struct Options {
  std::string path;
  std::string left = "sim";
  std::string right = "naive";
  std::string gpus;
  std::string threads;
  std::string schedule;
  std::string max_memory;
  bool check = false;
  bool unsafe_ring = false;
  bool json = false;
};

/// One side of the comparison, run or read.
struct Side {
  std::string name;
  size_t first_launch = 0;  ///< of the case: a file has only the last one
  RunResult result;
};

bool is_file(const std::string& side) {
  return std::filesystem::path(side).extension() == ".safetensors";
}

std::string repeat_command(const Options& o, const std::string& schedule_string) {
  CommandText command("diff");
  command.word(o.path).option("--left", o.left).option("--right", o.right);
  command.given("--gpus", o.gpus);
  command.given("--schedule", schedule_string.empty() ? o.schedule : schedule_string);
  command.given("--threads", o.threads).given("--max-memory", o.max_memory);
  return command.flag("--check", o.check).flag("--unsafe-ring", o.unsafe_ring).text();
}

/// Checks a side before either runs. `options` are those of the whole command.
void check_side(const std::string& option, const std::string& name, const Options& o, const Case& c,
                uint64_t memory_limit) {
  if (is_file(name)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(name, error))
      throw InputError(fmt::format("{}: there is no file '{}'", option, name));
    return;
  }
  const Backend& backend = find_backend(option, name);
  // Both sides' results are held at once, which is what a reference costs as well.
  check_case(c, backend, {o.unsafe_ring, true, o.schedule, memory_limit});
}

bool uses_card(const std::string& option, const std::string& name) {
  return !is_file(name) && find_backend(option, name).on_card;
}

/// `on_cards` runs a side that is a card's.
Side run_side(const std::string& option, const std::string& name, const Options& o, const Case& c,
              const BackendRun& on_cards) {
  Side side;
  side.name = name;
  if (is_file(name)) {
    side.first_launch = c.launches.size() - 1;
    const LaunchSpec& last = c.launches.back();
    side.result.launches.push_back(read_dump(name, last.shape, last.tokens));
    return side;
  }
  const Backend& backend = find_backend(option, name);
  RunOptions options;
  options.threads = read_threads(o.threads);
  options.unsafe_ring = o.unsafe_ring;
  if (backend.simulated) {
    options.schedule = o.schedule;
    options.check = o.check;
  }
  side.result = backend.on_card ? on_cards(c, options) : backend.run(c, options);
  return side;
}

Json difference_json(const Difference& d, size_t launch, const std::string& text) {
  constexpr const char* kKinds[] = {"value", "only_left", "only_right"};
  return {{"launch", launch},
          {"stage", stage_name(d.stage)},
          {"kind", kKinds[static_cast<uint32_t>(d.kind)]},
          {"rank", d.rank},
          {"token", d.token},
          {"k", d.k},
          {"expert", d.expert},
          {"row", d.row},
          {"column", d.column},
          {"field", d.field},
          {"bit", d.bit},
          {"left_bits", d.left_bits},
          {"right_bits", d.right_bits},
          {"left_value", d.left_value},
          {"right_value", d.right_value},
          {"text", text}};
}

Json comparison_json(const Comparison& comparison) {
  Json stages = Json::object();
  for (const Stage stage : kStages) {
    const StageComparison& s = comparison.stage(stage);
    stages[stage_name(stage)] = {{"compared", s.compared()},
                                 {"values", s.values},
                                 {"differing", s.differing},
                                 {"rows", s.rows}};
  }
  return stages;
}

/// What the comparison of all launches found, in both forms.
struct Verdict {
  bool equal = true;
  bool complete = true;  ///< both sides have every launch that is to be compared
  std::string text;
  Json first = nullptr;
  Json launches = Json::array();
};

Verdict compare_sides(const Case& c, const Side& left, const Side& right) {
  Verdict verdict;
  const size_t begin = std::max(left.first_launch, right.first_launch);
  for (size_t launch = begin; launch < c.launches.size(); ++launch) {
    const size_t left_place = launch - left.first_launch;
    const size_t right_place = launch - right.first_launch;
    if (left_place >= left.result.launches.size() || right_place >= right.result.launches.size()) {
      verdict.complete = false;
      break;
    }
    const Comparison comparison =
        compare_results(left.result.launches[left_place], right.result.launches[right_place]);
    verdict.launches.push_back({{"launch", launch}, {"stages", comparison_json(comparison)}});
    const std::optional<Difference> first = comparison.first();
    if (first && verdict.equal)
      verdict.first = difference_json(*first, launch, describe(*first, left.name, right.name));
    const bool in_full = first || launch + 1 == c.launches.size();
    const std::string text =
        in_full ? describe(comparison, left.name, right.name) : "equal in every compared stage\n";
    verdict.text += fmt::format("launch {}: {}", launch, text);
    verdict.equal = verdict.equal && !first;
  }
  if (!verdict.complete)
    verdict.text += fmt::format("{} did not end, so there is nothing to compare\n",
                                left.result.launches.empty() ? left.name : right.name);
  return verdict;
}

std::string screen(const Case& c, const Options& o, const Side& left, const Side& right,
                   const Verdict& verdict) {
  std::string text = case_lines(c, o.unsafe_ring) + "\n" + verdict.text;
  for (const Side* side : {&left, &right})
    for (const Finding& finding : side->result.findings)
      text += fmt::format("finding    {}: {}", side->name, finding_text(finding));
  return text;
}

int diff(const Options& o) {
  const uint64_t memory_limit = read_max_memory(o.max_memory);
  read_threads(o.threads);
  const bool on_card = uses_card("--left", o.left) || uses_card("--right", o.right);
  const CardRanks cards = read_card_ranks(o.gpus, on_card);
  if (const auto served = serve_card_rank(on_card)) return *served;
  const Case c = load_case(o.path);
  const bool simulated = o.left == "sim" || o.right == "sim";
  // A planted fault is the simulator's; the other side shows what is right.
  Case unplanted = c;
  if (simulated) unplanted.plant.clear();
  const auto case_of = [&](const std::string& side) -> const Case& {
    return side == "sim" ? c : unplanted;
  };
  check_card_ranks(cards, c);
  check_side("--left", o.left, o, case_of(o.left), memory_limit);
  check_side("--right", o.right, o, case_of(o.right), memory_limit);
  if (o.check && !simulated)
    throw InputError("--check: neither side is sim, which alone has a checker");

  Side left;
  Side right;
  Verdict verdict;
  {
    const Progress progress("diff");
    const BackendRun on_cards =
        on_card ? open_backend(find_backend("--right", "gpu"), cards) : BackendRun();
    left = run_side("--left", o.left, o, case_of(o.left), on_cards);
    right = run_side("--right", o.right, o, case_of(o.right), on_cards);
    verdict = compare_sides(c, left, right);
  }
  const bool failed =
      !verdict.equal || !verdict.complete || left.result.failed() || right.result.failed();
  const std::string repeat =
      repeat_command(o, left.result.schedule_string.empty() ? right.result.schedule_string
                                                            : left.result.schedule_string);
  if (o.json) {
    const Json out = {{"left", o.left},
                      {"right", o.right},
                      {"equal", verdict.equal && verdict.complete},
                      {"first", verdict.first},
                      {"launches", verdict.launches},
                      {"left_findings", findings_json(left.result.findings, repeat)},
                      {"right_findings", findings_json(right.result.findings, repeat)},
                      {"seconds", left.result.seconds + right.result.seconds},
                      {"repeat", repeat}};
    std::fputs((out.dump() + "\n").c_str(), stdout);
  } else {
    std::string text = screen(c, o, left, right, verdict);
    if (failed) text += "repeat     " + repeat + "\n";
    std::fputs(text.c_str(), stdout);
  }
  return failed ? kExitFinding : kExitFine;
}

}  // namespace

VerbAction add_diff(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.argument("CASE", o->path, "case file");
  options.text("--left", o->left, "backend or .safetensors file (sim)");
  options.text("--right", o->right, "what it is compared with, likewise (naive)");
  options.text("--gpus", o->gpus, "run a gpu side on this many cards, one rank each");
  options.text("--threads", o->threads, "threads for pure work (all cores)");
  options.text("--schedule", o->schedule, "run a sim side under this schedule, not the case's own");
  options.flag("--check", o->check, "find races and barrier misuse on a sim side too");
  options.flag("--unsafe-ring", o->unsafe_ring, "accept a ring below the smallest safe one");
  options.text("--max-memory", o->max_memory, "GiB a case may need (80 % of what is free)");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return diff(*o); };
}

}  // namespace moetwin
