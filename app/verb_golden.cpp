// golden: digests of many cases recorded and checked, and recorded tensor-core vectors.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/arguments.h"
#include "app/backends.h"
#include "app/golden_runs.h"
#include "app/options.h"
#include "app/verbs.h"
#include "common/check.h"
#include "fuzz/generator.h"
#include "model/golden_file.h"
#include "model/golden_vectors.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxCases = 1'000'000;
constexpr uint64_t kMaxSeed = INT64_MAX;

constexpr const char* kExamples =
    "Examples:\n"
    "  moetwin golden record cpu.json --backend sim --cases 200 --seed 1\n"
    "  moetwin golden check h200.json\n"
    "  moetwin golden vectors wgmma_e4m3_h200.bin\n";
constexpr const char* kRecordExamples =
    "Examples:\n"
    "  moetwin golden record cpu.json --backend sim --cases 200 --seed 1\n"
    "  moetwin golden record cpu.json --backend naive tiny.json small.json\n";
constexpr const char* kCheckExamples =
    "Examples:\n"
    "  moetwin golden check h200.json\n"
    "  moetwin golden check h200.json --backend naive --only 17\n";
constexpr const char* kVectorExamples =
    "Examples:\n"
    "  moetwin golden vectors wgmma_e4m3_h200.bin\n";

struct Options {
  std::string file;
  std::string backend = "sim";
  std::string gpus;
  std::string threads;
  std::string max_memory;
  std::string cases;
  std::string seed;
  std::string only;
  std::vector<std::string> paths;
  bool json = false;
};

GoldenRunOptions run_options(const Options& o, const std::string& what) {
  GoldenRunOptions options;
  options.backend = &find_backend("--backend", o.backend);
  options.cards = read_card_ranks(o.gpus, options.backend->on_card);
  options.threads = read_threads(o.threads);
  options.memory_limit = read_max_memory(o.max_memory);
  options.what = what;
  return options;
}

/// The cases to record, each with what its messages begin with.
std::vector<NamedCase> cases_to_record(const Options& o) {
  if (o.paths.empty() == o.cases.empty())
    throw InputError("--cases: give either --cases N --seed S or case files");
  std::vector<NamedCase> cases;
  if (o.cases.empty()) {
    if (!o.seed.empty()) throw InputError("--seed: is for --cases N, and case files are given");
    for (const std::string& path : o.paths) {
      std::error_code unlike;
      if (std::filesystem::equivalent(path, o.file, unlike))
        throw InputError(fmt::format("FILE: '{}' would replace a case that it records", o.file));
      cases.push_back({path, load_case(path)});
    }
    return cases;
  }
  const uint64_t count = read_integer_option("--cases", o.cases, 1, kMaxCases);
  const uint64_t seed = o.seed.empty() ? 1 : read_integer_option("--seed", o.seed, 0, kMaxSeed);
  for (uint64_t i = 0; i < count; ++i)
    cases.push_back({fmt::format("case {} of seed {}", i, seed), random_case(seed, i)});
  return cases;
}

/// Prints the runs that ended in a finding; whether there were any.
bool complain_of_findings(const std::vector<NamedCase>& cases, const std::vector<GoldenRun>& runs) {
  bool any = false;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].finding.empty()) continue;
    std::fputs(fmt::format("{}: {}\n", cases[i].name, runs[i].finding).c_str(), stderr);
    any = true;
  }
  return any;
}

int record(const Options& o) {
  check_output_path("FILE", o.file);
  const GoldenRunOptions options = run_options(o, "golden record");
  if (const auto served = serve_card_rank(options.backend->on_card)) return *served;
  GoldenFile golden;
  golden.machine = describe_machine(*options.backend);
  const std::vector<NamedCase> cases = cases_to_record(o);
  const std::vector<GoldenRun> runs = run_golden_cases(cases, options);
  const std::string directory = std::filesystem::path(o.file).parent_path().string();
  const bool failed = complain_of_findings(cases, runs);
  for (size_t i = 0; i < cases.size(); ++i)
    golden.cases.push_back({case_to_json(cases[i].c, directory), runs[i].digests});
  if (!failed) write_golden(o.file, golden);
  if (o.json) {
    const Json out = {{"file", o.file}, {"cases", cases.size()}, {"written", !failed}};
    std::fputs((out.dump() + "\n").c_str(), stdout);
  } else if (!failed) {
    std::fputs(
        fmt::format("{} cases on {} written to {}\n", cases.size(), o.backend, o.file).c_str(),
        stdout);
  }
  if (!failed) return kExitFine;
  CommandText repeat("golden record");
  repeat.word(o.file).option("--backend", o.backend).given("--gpus", o.gpus);
  repeat.given("--cases", o.cases);
  repeat.given("--seed", o.seed);
  for (const std::string& path : o.paths) repeat.word(path);
  std::fputs(("no file is written\nrepeat: " + repeat.text() + "\n").c_str(), stderr);
  return kExitFinding;
}

std::string check_command(const Options& o, size_t index) {
  CommandText command("golden check");
  command.word(o.file).option("--backend", o.backend).given("--gpus", o.gpus);
  return command.option("--only", std::to_string(index)).text();
}

std::string difference_text(const Options& o, const GoldenDifference& d) {
  return fmt::format("case {}: {} is {}, recorded {}\n  repeat: {}\n", d.case_index,
                     stage_name(d.stage), d.got, d.recorded, check_command(o, d.case_index));
}

int check(const Options& o) {
  const GoldenRunOptions options = run_options(o, "golden check");
  if (const auto served = serve_card_rank(options.backend->on_card)) return *served;
  const GoldenFile golden = read_golden(o.file);
  const std::string directory = std::filesystem::path(o.file).parent_path().string();
  if (golden.cases.empty())
    throw InputError(fmt::format("FILE: '{}' holds no case; at least one is wanted", o.file));
  size_t begin = 0;
  size_t end = golden.cases.size();
  if (!o.only.empty()) {
    begin = read_integer_option("--only", o.only, 0, golden.cases.size() - 1);
    end = begin + 1;
  }
  std::vector<NamedCase> cases;
  for (size_t i = begin; i < end; ++i)
    cases.push_back({fmt::format("case {}", i), parse_case(golden.cases[i].case_text, directory)});
  const std::vector<GoldenRun> runs = run_golden_cases(cases, options);

  bool failed = complain_of_findings(cases, runs);
  uint64_t differences = 0;
  Json details = Json::array();
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    for (const GoldenDifference& d : compare_golden(golden, i, runs[i - begin].digests)) {
      ++differences;
      details.push_back({{"case", d.case_index},
                         {"stage", stage_name(d.stage)},
                         {"recorded", d.recorded},
                         {"got", d.got},
                         {"repeat", check_command(o, i)}});
      text += difference_text(o, d);
    }
  }
  failed = failed || differences > 0;
  if (o.json) {
    const Json out = {{"cases", cases.size()}, {"differences", differences}, {"details", details}};
    text = out.dump() + "\n";
  } else {
    const GoldenMachine& m = golden.machine;
    text += fmt::format("{} cases recorded on {}: {} differences on {}\n", cases.size(),
                        m.card.empty() ? m.cpu : m.card, differences, o.backend);
  }
  std::fputs(text.c_str(), stdout);
  return failed ? kExitFinding : kExitFine;
}

int check_vectors(const Options& o) {
  const GoldenVectorReport report = check_golden_vectors(o.file);
  std::string text;
  if (o.json) {
    Json first = nullptr;
    if (report.first) {
      const GoldenVectorDifference& d = *report.first;
      first = {{"block", d.block},           {"row", d.row},
               {"column", d.column},         {"recorded", d.recorded},
               {"definition", d.definition}, {"tile", d.tile}};
    }
    const Json out = {{"blocks", report.blocks},
                      {"values", report.total},
                      {"differences", report.differences},
                      {"first", first}};
    text = out.dump() + "\n";
  } else {
    for (const std::string& block : report.blocks)
      text += (text.empty() ? "blocks: " : ", ") + block;
    text +=
        fmt::format("\n{} recorded outputs, {} differences\n", report.total, report.differences);
    if (report.first) {
      const GoldenVectorDifference& d = *report.first;
      text += fmt::format(
          "first: block {}, row {}, column {}: recorded {:#010x}, definition {:#010x}, tile form "
          "{:#010x}\nrepeat: {}\n",
          d.block, d.row, d.column, d.recorded, d.definition, d.tile,
          CommandText("golden vectors").word(o.file).text());
    }
  }
  std::fputs(text.c_str(), stdout);
  return report.differences == 0 ? kExitFine : kExitFinding;
}

void add_file(VerbOptions& options, Options& o, const char* what, const char* examples) {
  options.argument("FILE", o.file, what);
  options.flag("--json", o.json, "one object on standard output");
  options.examples(examples);
}

void add_run_options(VerbOptions& options, Options& o) {
  options.text("--backend", o.backend, "sim, naive or gpu (sim)");
  options.text("--gpus", o.gpus, "with gpu: this many cards, one rank each");
  options.text("--threads", o.threads, "threads (all cores); never changes a bit");
  options.text("--max-memory", o.max_memory, "GiB a case may need (80 % of what is free)");
}

}  // namespace

VerbAction add_golden(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  const auto action = std::make_shared<int (*)(const Options&)>(nullptr);
  options.examples(kExamples);

  VerbOptions recorder =
      options.verb("record", "run cases and write their digests", [action] { *action = record; });
  add_file(recorder, *o, "golden file to write", kRecordExamples);
  recorder.more_arguments("CASE", o->paths, "case files");
  recorder.text("--cases", o->cases, "how many generated cases");
  recorder.text("--seed", o->seed, "their seed (1)");
  add_run_options(recorder, *o);

  VerbOptions checker = options.verb("check", "run recorded cases and compare digests",
                                     [action] { *action = check; });
  add_file(checker, *o, "golden file to read", kCheckExamples);
  checker.text("--only", o->only, "one case of the file, by its place from 0");
  add_run_options(checker, *o);

  VerbOptions vectors =
      options.verb("vectors", "hold recorded tensor-core vectors against both forms of the model",
                   [action] { *action = check_vectors; });
  add_file(vectors, *o, "file of recorded vectors", kVectorExamples);
  return [o, action] { return (*action)(*o); };
}

}  // namespace moetwin
