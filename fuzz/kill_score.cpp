#include "fuzz/kill_score.h"

#include <omp.h>

#include <chrono>
#include <exception>

namespace moetwin {
namespace {

/// Calls work(0) .. work(count - 1) on `jobs` threads; rethrows what one of them threw.
template <class Work>
void side_by_side(size_t count, uint32_t jobs, Work&& work) {
  std::exception_ptr failure;
#pragma omp parallel for num_threads(static_cast <int>(jobs)) schedule(dynamic, 1)
  for (size_t i = 0; i < count; ++i) {
    try {
      work(i);
    } catch (...) {
#pragma omp critical(moetwin_kill_score_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

std::vector<PlantScore> score_plants(const std::vector<const Plant*>& plants, uint32_t jobs,
                                     const std::function<void()>& progress) {
  std::vector<PlantScore> scores(plants.size());
  side_by_side(plants.size(), jobs, [&](size_t i) {
    scores[i] = {plants[i], try_plant(*plants[i])};
    if (progress) progress();
  });
  return scores;
}

std::vector<MutantScore> score_mutants(const std::vector<GeneratedMutant>& mutants, uint32_t jobs,
                                       const std::function<void()>& progress) {
  const std::vector<MutantTrial> trials = mutant_trials();
  const std::vector<std::string> expected = expected_digests(trials);
  std::vector<MutantScore> scores(mutants.size());
  side_by_side(mutants.size(), jobs, [&](size_t i) {
    const auto begin = std::chrono::steady_clock::now();
    scores[i].mutant = mutants[i];
    scores[i].verdict = try_mutant(mutants[i].mutant, trials, expected);
    scores[i].seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (progress) progress();
  });
  return scores;
}

}  // namespace moetwin
