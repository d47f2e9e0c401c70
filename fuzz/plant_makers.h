// Short ways to write down a planted fault; for the lists of plants alone.
#pragma once

#include <span>

#include "cpu_sim/planted_rules.h"
#include "fuzz/plant_cases.h"
#include "fuzz/plants.h"

namespace moetwin {

// The lists, in the order of all_plants().
std::span<const Plant> synchronisation_plants();
std::span<const Plant> launch_plants();
std::span<const Plant> value_plants();
std::span<const Plant> entry_plants();
std::span<const Plant> right_programs();

constexpr Mutant change(MutantKind kind, Step step, int64_t delta = 0, uint32_t first = 0,
                        uint32_t last = UINT32_MAX, Role role = Role::Count) {
  return {kind, step, delta, first, last, role};
}
constexpr Mutant drop(Step step, uint32_t first = 0, uint32_t last = UINT32_MAX) {
  return change(MutantKind::Drop, step, 0, first, last);
}
constexpr Mutant clear_early(Region region, Step step) {
  return change(MutantKind::ClearEarly, step, static_cast<int64_t>(region), 0, 0);
}
constexpr Mutant wrong(LayerFault fault) {
  return change(MutantKind::Rule, Step::None, static_cast<int64_t>(fault));
}

constexpr Plant finding(const char* id, const char* what, const char* text, FindingClass expected,
                        Step step, Mutant mutant) {
  return {
      .id = id, .what = what, .text = text, .expected = expected, .step = step, .mutant = mutant};
}
/// Two accesses that nothing orders, or that need a fence.
constexpr Plant pair(const char* id, const char* what, const char* text, FindingClass expected,
                     Step one, Step other, Mutant mutant) {
  Plant plant = finding(id, what, text, expected, one, mutant);
  plant.other = other;
  return plant;
}
constexpr Plant altered(const char* id, const char* what, const char* text, FindingClass expected,
                        Step step, void (*alter)(Problem&, KernelArgs&), bool math = false) {
  Plant plant = finding(id, what, text, expected, step, {});
  plant.alter = alter;
  plant.math = math;
  return plant;
}
constexpr Plant differs(const char* id, const char* what, const char* text, Stage stage,
                        Mutant mutant, void (*alter)(Problem&, KernelArgs&) = nullptr) {
  return {.id = id,
          .what = what,
          .text = text,
          .answer = PlantAnswer::Differs,
          .stage = stage,
          .mutant = mutant,
          .alter = alter,
          .math = true};
}

}  // namespace moetwin
