// The kill score: all planted faults, or all generated mutants, tried side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fuzz/mutants.h"
#include "fuzz/plants.h"

namespace moetwin {

struct PlantScore {
  const Plant* plant;
  PlantVerdict verdict;
};

struct MutantScore {
  GeneratedMutant mutant;
  MutantVerdict verdict;
  double seconds = 0;
};

/// Results are in the order of `plants`, whatever `jobs` is. `progress` may be empty.
std::vector<PlantScore> score_plants(const std::vector<const Plant*>& plants, uint32_t jobs,
                                     const std::function<void()>& progress);
std::vector<MutantScore> score_mutants(const std::vector<GeneratedMutant>& mutants, uint32_t jobs,
                                       const std::function<void()>& progress);

}  // namespace moetwin
