#include "fuzz/plants.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "fuzz/differential.h"
#include "fuzz/mutants.h"
#include "fuzz/plant_makers.h"
#include "model/compare.h"
#include "model/naive.h"

namespace moetwin {
namespace {

/// The first stage in which the simulator's result is not the naive path's; none if all are.
std::optional<Stage> first_differing_stage(const Case& c, const RunResult& result) {
  WeightCache cache;
  for (size_t launch = 0; launch < c.launches.size(); ++launch) {
    if (launch >= result.launches.size()) return Stage::Slots;
    const LayerResult naive = run_naive(make_problem(c, launch, cache));
    if (const auto difference = first_difference(result.launches[launch], naive))
      return difference->stage;
  }
  return std::nullopt;
}

RunOptions options_of(const Plant& plant) {
  RunOptions options;
  options.threads = 1;
  options.check = true;
  options.math = plant.math;
  options.unsafe_ring = plant.unsafe_ring;
  return options;
}

std::string findings_text(const RunResult& result) {
  std::set<std::string> seen;
  std::string text;
  for (const Finding& f : result.findings) {
    const std::string one = fmt::format("{} at {}", finding_class_name(f.kind), step_name(f.step));
    if (seen.insert(one).second) text += (text.empty() ? "" : ", ") + one;
  }
  return text.empty() ? "no finding" : text;
}

bool is_expected(const Plant& plant, const Finding& f) {
  if (f.kind != plant.expected) return false;
  if (plant.other == Step::None) return f.step == plant.step;
  return (f.step == plant.step && names_step(f.other, step_name(plant.other))) ||
         (f.step == plant.other && names_step(f.other, step_name(plant.step)));
}

bool has_expected(const Plant& plant, const RunResult& result) {
  return std::any_of(result.findings.begin(), result.findings.end(),
                     [&](const Finding& f) { return is_expected(plant, f); });
}

RunResult run_planted(const Plant& plant, const Case& c) {
  return simulate(c, options_of(plant), plant.mutant,
                  {nullptr, nullptr, kMaxPlantEvents, plant.alter});
}

void try_run(const Plant& plant, PlantVerdict& verdict) {
  const Case c = parse_case(plant.text, "");
  const RunResult result = run_planted(plant, c);
  verdict.got = findings_text(result);
  std::optional<Stage> differs;
  if (plant.math) differs = first_differing_stage(c, result);
  if (plant.answer == PlantAnswer::Finding) {
    verdict.right = has_expected(plant, result);
    return;
  }
  if (differs && !result.failed())
    verdict.got = fmt::format("{} differs from the naive path", stage_name(*differs));
  verdict.right =
      !result.failed() &&
      (plant.answer == PlantAnswer::Accepted ? !differs : differs && *differs == plant.stage);
}

/// The case must be refused; behind the check, it must go wrong as expected.
void try_refused(const Plant& plant, PlantVerdict& verdict) {
  bool refused = false;
  try {
    verdict.got = "not refused: " + findings_text(run_planted({}, parse_case(plant.text, "")));
  } catch (const InputError& error) {
    verdict.got = std::string("refused: ") + error.what();
    refused = verdict.got.find(plant.refusal) != std::string::npos;
  }
  const RunResult result = run_planted(plant, parse_case(plant.behind_check, ""));
  verdict.got += "; behind the check: " + findings_text(result);
  verdict.right = refused && (plant.step == Step::None && plant.expected == FindingClass::Mismatch
                                  ? !result.failed()
                                  : has_expected(plant, result));
}

}  // namespace

std::span<const Plant> all_plants() {
  static const std::vector<Plant> kAll = [] {
    std::vector<Plant> all;
    for (const auto plants : {synchronisation_plants(), launch_plants(), value_plants(),
                              entry_plants(), right_programs()})
      all.insert(all.end(), plants.begin(), plants.end());
    return all;
  }();
  return kAll;
}

std::string expected_verdict(const Plant& plant) {
  switch (plant.answer) {
    case PlantAnswer::Accepted:
      return "accepted";
    case PlantAnswer::Refused:
      return fmt::format("refused, naming {}", plant.refusal);
    case PlantAnswer::Differs:
      return fmt::format("stage {} differs", stage_name(plant.stage));
    case PlantAnswer::Finding:
      break;
  }
  const std::string site =
      fmt::format("{} at {}", finding_class_name(plant.expected), step_name(plant.step));
  return plant.other == Step::None ? site : fmt::format("{} and {}", site, step_name(plant.other));
}

const Plant* find_plant(const std::string& id) {
  for (const Plant& plant : all_plants())
    if (id == plant.id) return &plant;
  return nullptr;
}

PlantVerdict try_plant(const Plant& plant) {
  const auto begin = std::chrono::steady_clock::now();
  PlantVerdict verdict;
  if (plant.answer == PlantAnswer::Refused)
    try_refused(plant, verdict);
  else
    try_run(plant, verdict);
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return verdict;
}

bool is_plant(const std::string& id) {
  if (find_plant(id) != nullptr) return true;
  const std::vector<GeneratedMutant> mutants = generate_mutants();
  return std::any_of(mutants.begin(), mutants.end(),
                     [&](const GeneratedMutant& m) { return m.id == id; });
}

RunResult simulate_case(const Case& c, const RunOptions& options, Probes probes,
                        const Mutant& mutant) {
  if (c.plant.empty()) return simulate(c, options, mutant, probes);
  probes.max_events = kMaxPlantEvents;
  if (const Plant* plant = find_plant(c.plant)) {
    probes.alter = plant->alter;
    return simulate(c, options, plant->mutant, probes);
  }
  for (const GeneratedMutant& m : generate_mutants())
    if (m.id == c.plant) return simulate(c, options, m.mutant, probes);
  throw InputError(fmt::format("plant: '{}' is no planted fault (moetwin faults --list)",
                               c.plant.substr(0, 60)));
}

}  // namespace moetwin
