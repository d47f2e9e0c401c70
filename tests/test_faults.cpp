// Planted faults and generated mutants: each plant gets its verdict, and the mutants that survive
// are exactly those with a reason.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "cpu_sim/simulate.h"
#include "fuzz/kill_score.h"

using namespace moetwin;

namespace {

/// Collects which sites runs really have.
class Sites : public SyncObserver {
 public:
  void on_sync(const Observation& seen) override { steps.insert(seen.step); }
  std::set<Step> steps;
};

void check_survivors(const std::vector<GeneratedMutant>& mutants) {
  for (const MutantScore& score : score_mutants(mutants, 2, {})) {
    CAPTURE(score.mutant.id);
    CHECK(score.verdict.killed == (equivalent_because(score.mutant) == nullptr));
  }
}

}  // namespace

TEST_CASE("faults: every planted fault gets the right class at the right step") {
  const auto faults = std::count_if(all_plants().begin(), all_plants().end(), [](const Plant& p) {
    return p.answer != PlantAnswer::Accepted;
  });
  CHECK(faults >= 81);
  for (const Plant& plant : all_plants()) {
    const PlantVerdict verdict = try_plant(plant);
    const std::string id = plant.id;
    CAPTURE(id);
    CAPTURE(verdict.got);
    CHECK(verdict.right);
  }
}

TEST_CASE("faults: without its change no case of a plant gets the plant's verdict") {
  for (const Plant& plant : all_plants()) {
    const bool changed = plant.mutant.kind != MutantKind::None || plant.alter != nullptr;
    const bool shows = plant.answer == PlantAnswer::Finding || plant.answer == PlantAnswer::Differs;
    if (!shows || !changed) continue;
    Plant unplanted = plant;
    unplanted.mutant = {};
    unplanted.alter = nullptr;
    const std::string id = plant.id;
    CAPTURE(id);
    CHECK(!try_plant(unplanted).right);
  }
}

TEST_CASE("faults: every number of the catalogue has a plant") {
  const std::set<std::string> accepted_only = {"13"};
  for (const std::string number :
       {"01", "02", "03", "04", "05", "06", "07", "10", "11", "12", "13", "14", "20", "21",
        "22", "23", "24", "25", "26", "30", "31", "32", "33", "34", "40", "41", "42", "43",
        "44", "50", "51", "52", "53", "54", "55", "56", "57", "58", "59", "60"}) {
    const std::string prefix = (accepted_only.count(number) != 0 ? "A" : "F") + number;
    CAPTURE(prefix);
    CHECK(std::any_of(all_plants().begin(), all_plants().end(), [&](const Plant& plant) {
      return std::string(plant.id).compare(0, prefix.size(), prefix) == 0;
    }));
  }
}

TEST_CASE("faults: a case that names a plant runs with it, and an unknown name is none") {
  Case c = parse_case(find_plant("F07b")->text, "");
  c.plant = "F07b";
  CHECK(simulate_case(c, RunOptions{}).failed());
  CHECK(is_plant("drop TaskPublish"));
  CHECK(!is_plant("no_such_fault"));
}

TEST_CASE("mutants: every synchronising step of a run is a site") {
  Sites sites;
  for (const MutantTrial& trial : mutant_trials()) {
    RunOptions options;
    options.threads = 1;
    options.math = false;
    simulate(trial.c, options, Mutant{}, {&sites, nullptr});
  }
  // Data accesses, and copies whose announcement is the site.
  const std::set<Step> plain = {Step::CountRoutes,    Step::WriteIndex,  Step::BroadcastCounts,
                                Step::PoolTableBuild, Step::RankPhase,   Step::PullStore,
                                Step::LoadATile,      Step::LoadAScales, Step::LoadBTile};
  for (const Step step : sites.steps) {
    if (plain.count(step) != 0) continue;
    const std::string name = step_name(step);
    CAPTURE(name);
    CHECK(std::any_of(sync_sites().begin(), sync_sites().end(),
                      [step](const SyncSite& site) { return site.step == step; }));
  }
  CHECK(sites.steps.size() > 40);
  CHECK(generate_mutants().size() >= 200);
}

TEST_CASE("mutants: of every seventh one, exactly those with a reason survive") {
  std::vector<GeneratedMutant> sample;
  const std::vector<GeneratedMutant> all = generate_mutants();
  for (size_t i = 0; i < all.size(); i += 7) sample.push_back(all[i]);
  check_survivors(sample);
}

TEST_CASE("mutants: of all, exactly those with a reason survive [slow]") {
  check_survivors(generate_mutants());
}
