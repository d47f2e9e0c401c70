#include "fuzz/plants.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "common/check.h"
#include "cpu_sim/simulate.h"
#include "fuzz/mutants.h"
#include "model/compare.h"
#include "model/naive.h"

namespace moetwin {
namespace {

/// Whether the simulator's result is the naive path's, bit for bit.
bool same_as_naive(const Case& c, const RunResult& result) {
  WeightCache cache;
  for (size_t launch = 0; launch < c.launches.size(); ++launch) {
    if (launch >= result.launches.size()) return false;
    const LayerResult naive = run_naive(make_problem(c, launch, cache));
    if (first_difference(result.launches[launch], naive)) return false;
  }
  return true;
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

void try_run(const Plant& plant, PlantVerdict& verdict) {
  const Case c = parse_case(plant.text, "");
  const RunResult result = simulate(c, options_of(plant), plant.mutant,
                                    {nullptr, nullptr, kMaxPlantEvents, plant.alter});
  verdict.got = findings_text(result);
  const bool differs = plant.math && !same_as_naive(c, result);
  if (differs && result.findings.empty()) verdict.got = "mismatch of y with the naive path";
  if (plant.answer == PlantAnswer::Accepted) {
    verdict.right = !result.failed() && !differs;
    return;
  }
  if (plant.expected == FindingClass::Mismatch && plant.step == Step::None) {
    verdict.right = differs && result.findings.empty();
    return;
  }
  verdict.right = std::any_of(
      result.findings.begin(), result.findings.end(),
      [&](const Finding& f) { return f.kind == plant.expected && f.step == plant.step; });
}

}  // namespace

const Plant* find_plant(const std::string& id) {
  for (const Plant& plant : all_plants())
    if (id == plant.id) return &plant;
  return nullptr;
}

PlantVerdict try_plant(const Plant& plant) {
  const auto begin = std::chrono::steady_clock::now();
  PlantVerdict verdict;
  try {
    try_run(plant, verdict);
  } catch (const InputError& error) {
    verdict.got = std::string("refused: ") + error.what();
    verdict.right = plant.answer == PlantAnswer::Refused &&
                    verdict.got.find(plant.refusal) != std::string::npos;
  }
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return verdict;
}

bool is_plant(const std::string& id) {
  if (find_plant(id) != nullptr) return true;
  const std::vector<GeneratedMutant> mutants = generate_mutants();
  return std::any_of(mutants.begin(), mutants.end(),
                     [&](const GeneratedMutant& m) { return m.id == id; });
}

RunResult simulate_planted(const Case& c, const RunOptions& options, Probes probes) {
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
