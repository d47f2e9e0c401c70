// faults: planted faults and generated mutants, and how many of them the checker kills.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/arguments.h"
#include "app/options.h"
#include "app/progress.h"
#include "app/verbs.h"
#include "common/check.h"
#include "fuzz/kill_score.h"

namespace moetwin {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "Examples:\n"
    "  moetwin faults\n"
    "  moetwin faults --list\n"
    "  moetwin faults --only F02a\n"
    "  moetwin faults --generated --json\n";

struct Options {
  std::string only;
  std::string jobs;
  bool list = false;
  bool generated = false;
  bool json = false;
};

uint32_t job_count(const Options& o) {
  const uint32_t asked = read_threads(o.jobs);
  return asked != 0 ? asked : static_cast<uint32_t>(omp_get_max_threads());
}

/// Where a plant shows: a step of the protocol, or the stage that differs.
const char* site_of(const Plant& plant) {
  return plant.answer == PlantAnswer::Differs ? stage_name(plant.stage) : step_name(plant.step);
}

std::vector<const Plant*> chosen_plants(const Options& o) {
  std::vector<const Plant*> plants;
  for (const Plant& plant : all_plants())
    if (o.only.empty() || o.only == plant.id) plants.push_back(&plant);
  return plants;
}

std::vector<GeneratedMutant> chosen_mutants(const Options& o) {
  std::vector<GeneratedMutant> mutants;
  for (GeneratedMutant& mutant : generate_mutants())
    if (o.only.empty() || o.only == mutant.id) mutants.push_back(std::move(mutant));
  return mutants;
}

int list_all(const Options& o) {
  std::string text;
  for (const Plant* plant : chosen_plants(o))
    text += fmt::format("{:<6} {} ({})\n", plant->id, plant->what, expected_verdict(*plant));
  if (o.generated)
    for (const GeneratedMutant& mutant : chosen_mutants(o)) text += mutant.id + "\n";
  std::fputs(text.c_str(), stdout);
  return kExitFine;
}

/// What both kinds of report have.
struct Score {
  uint64_t killed = 0;
  uint64_t total = 0;
  uint64_t accepted = 0;
  uint64_t mutants = 0;
  uint64_t mutants_killed = 0;
  uint64_t equivalent = 0;  ///< mutants that change nothing
  uint64_t wrong = 0;       ///< missed without a known reason, or accepted programs with a finding
  Json survivors = Json::array();
  Json plants = Json::array();
  std::string text;
};

void add_plants(Score& score, const std::vector<PlantScore>& scores) {
  for (const PlantScore& s : scores) {
    const bool accepts = s.plant->answer == PlantAnswer::Accepted;
    if (accepts) {
      score.accepted += s.verdict.right ? 1 : 0;
    } else {
      ++score.total;
      score.killed += s.verdict.right ? 1 : 0;
    }
    score.plants.push_back({{"id", s.plant->id},
                            {"class", finding_class_name(s.plant->expected)},
                            {"step", site_of(*s.plant)},
                            {"case", Json::parse(s.plant->text)},
                            {"expected", expected_verdict(*s.plant)},
                            {"got", s.verdict.got},
                            {"seconds", s.verdict.seconds}});
    score.text += fmt::format("{:<6} {:<9} {}\n", s.plant->id,
                              !s.verdict.right ? "MISSED"
                              : accepts        ? "accepted"
                                               : "killed",
                              s.plant->what);
    if (s.verdict.right) continue;
    ++score.wrong;
    score.survivors.push_back(
        {{"id", s.plant->id}, {"site", site_of(*s.plant)}, {"reason", nullptr}});
    score.text +=
        fmt::format("       expected {}, got {}\n       repeat: moetwin faults --only {}\n",
                    expected_verdict(*s.plant), s.verdict.got, s.plant->id);
  }
}

void add_mutants(Score& score, const std::vector<MutantScore>& scores) {
  std::map<std::string, std::pair<uint64_t, uint64_t>> by_operator;
  for (const MutantScore& s : scores) {
    ++score.total;
    ++score.mutants;
    auto& [killed, all] = by_operator[s.mutant.operation];
    ++all;
    if (s.verdict.killed) {
      ++killed;
      ++score.killed;
      ++score.mutants_killed;
      continue;
    }
    const char* because = equivalent_because(s.mutant);
    ++(because == nullptr ? score.wrong : score.equivalent);
    score.survivors.push_back({{"id", s.mutant.id},
                               {"site", step_name(s.mutant.site.step)},
                               {"reason", because != nullptr ? Json(because) : Json(nullptr)}});
    score.text += fmt::format("survives   {}: {}\n", s.mutant.id,
                              because != nullptr ? because : "no reason is known");
  }
  const auto percent = [&](uint64_t of) {
    return of == 0 ? 100.0
                   : 100.0 * static_cast<double>(score.mutants_killed) / static_cast<double>(of);
  };
  const uint64_t changing = score.mutants - score.equivalent;
  score.text += fmt::format(
      "kill score {:.1f} %: {} of the {} mutants that change something; {:.1f} % of all {}\n",
      percent(changing), score.mutants_killed, changing, percent(score.mutants), score.mutants);
  for (const auto& [name, counts] : by_operator)
    score.text += fmt::format("{:<10} {} of {} killed\n", name, counts.first, counts.second);
}

int run_faults(const Options& o) {
  const std::vector<const Plant*> plants = chosen_plants(o);
  const std::vector<GeneratedMutant> mutants =
      o.generated || plants.empty() ? chosen_mutants(o) : std::vector<GeneratedMutant>{};
  if (plants.empty() && mutants.empty())
    throw InputError(
        fmt::format("--only: '{}' is no planted fault or generated mutant "
                    "(moetwin faults --list --generated)",
                    o.only.substr(0, 60)));
  if (o.list) return list_all(o);
  Score score;
  {
    const bool only_mutants = o.generated;
    Progress progress("faults", only_mutants ? mutants.size() : plants.size() + mutants.size());
    const auto advance = [&progress] { progress.advance(); };
    if (!only_mutants) add_plants(score, score_plants(plants, job_count(o), advance));
    if (!mutants.empty()) add_mutants(score, score_mutants(mutants, job_count(o), advance));
  }
  const Json out = {{"killed", score.killed},
                    {"total", score.total},
                    {"accepted", score.accepted},
                    {"survivors", score.survivors},
                    {"plants", score.plants}};
  const std::string text =
      o.json ? out.dump() + "\n"
             : score.text + fmt::format("\nkilled {} of {}; {} right programs accepted\n",
                                        score.killed, score.total, score.accepted);
  std::fputs(text.c_str(), stdout);
  return score.wrong == 0 ? kExitFine : kExitFinding;
}

}  // namespace

VerbAction add_faults(VerbOptions& options) {
  const auto o = std::make_shared<Options>();
  options.flag("--list", o->list, "only say which there are");
  options.text("--only", o->only, "one plant or mutant, by its id");
  options.flag("--generated", o->generated,
               "generated mutants: each synchronising call changed in each way");
  options.text("--jobs", o->jobs, "runs at a time (all cores)");
  options.flag("--json", o->json, "one object on standard output");
  options.examples(kExamples);
  return [o] { return run_faults(*o); };
}

}  // namespace moetwin
