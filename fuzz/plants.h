// Planted faults: mistakes that fused expert-parallel kernels have really had, each as a change of
// one call of the role programs (cpu_sim/mutant.h), of what the kernel is started with, or of the
// world, with the smallest case that shows it and the verdict it must get. docs/faults.md has the
// list in words.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/machine.h"
#include "cpu_sim/mutant.h"
#include "cpu_sim/probes.h"
#include "model/case.h"
#include "model/digest.h"
#include "model/run.h"

namespace moetwin {

/// Far more than any case of a plant or mutant takes.
constexpr uint64_t kMaxPlantEvents = 1'000'000;

/// The right answer to a plant.
enum class PlantAnswer : uint8_t {
  Finding,   ///< a finding of the expected class at the expected step
  Differs,   ///< no finding, and the expected stage is the first to differ from the naive path
  Refused,   ///< the case is refused on entry, with the expected word in the line; without that
             ///< check it would have the expected finding, or run as if nothing were wrong
  Accepted,  ///< nothing is wrong: no finding, the same y as the naive path
};

struct Plant {
  const char* id;
  const char* what;
  const char* text;  ///< the case, JSON
  PlantAnswer answer = PlantAnswer::Finding;
  FindingClass expected = FindingClass::Mismatch;
  Step step = Step::None;  ///< where; Refused: None if nothing would be found
  /// The other of two accesses that nothing orders; which of them comes second, and is the
  /// finding's step, is up to the schedule. None: a finding with one site.
  Step other = Step::None;
  Stage stage = Stage::Y;         ///< Differs
  const char* refusal = "";       ///< Refused: what the line must name
  const char* behind_check = "";  ///< Refused: a case that `alter` makes what was refused
  Mutant mutant = {};
  void (*alter)(Problem& problem, KernelArgs& args) = nullptr;
  bool unsafe_ring = false;
  bool math = false;  ///< with tile arithmetic, and results compared with the naive path
};

/// What the plant must get, in words.
std::string expected_verdict(const Plant& plant);

std::span<const Plant> all_plants();
/// Null where there is none of that id.
const Plant* find_plant(const std::string& id);

struct PlantVerdict {
  bool right = false;  ///< killed, or accepted where that is right
  std::string got;     ///< class and step of the findings, or the line of a refusal
  double seconds = 0;
};

PlantVerdict try_plant(const Plant& plant);

/// Runs a case on the simulator, with the plant or generated mutant switched on that its field
/// "plant" names, or `mutant` where it names none. Throws InputError for an id that is none. Of
/// `probes` the observers and the timeline are used.
RunResult simulate_case(const Case& c, const RunOptions& options, Probes probes = {},
                        const Mutant& mutant = {});
/// Whether `id` names a plant or a generated mutant.
bool is_plant(const std::string& id);

}  // namespace moetwin
