#include "model/expert_tasks.h"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "common/check.h"

namespace moetwin {

std::vector<std::vector<ExpertRow>> rows_by_expert(const Problem& problem) {
  std::vector<std::vector<ExpertRow>> rows(problem.shape.experts);
  const uint32_t topk = problem.shape.topk;
  uint64_t y_row = 0;
  uint64_t routed = 0;
  for (uint32_t rank = 0; rank < problem.shape.ranks; ++rank) {
    const RankInput& input = problem.ranks[rank];
    for (uint32_t token = 0; token < input.num_tokens; ++token, ++y_row) {
      for (uint32_t k = 0; k < topk; ++k) {
        const uint64_t slot = uint64_t{token} * topk + k;
        const int32_t expert = input.topk_idx[slot];
        if (expert == kMaskedExpert) continue;
        MOETWIN_CHECK(expert >= 0 && static_cast<uint32_t>(expert) < problem.shape.experts);
        rows[static_cast<uint32_t>(expert)].push_back(
            {rank, token, k, y_row, routed++, input.topk_weights[slot]});
      }
    }
  }
  return rows;
}

std::vector<ExpertTask> expert_tasks(const std::vector<uint64_t>& rows_of_expert, uint64_t block) {
  MOETWIN_CHECK(block > 0);
  std::vector<ExpertTask> tasks;
  for (uint32_t expert = 0; expert < rows_of_expert.size(); ++expert) {
    for (uint64_t begin = 0; begin < rows_of_expert[expert]; begin += block) {
      tasks.push_back({expert, begin, std::min(begin + block, rows_of_expert[expert])});
    }
  }
  return tasks;
}

void run_tasks(uint32_t threads, uint64_t count, const std::function<void(uint64_t)>& body,
               const std::function<void(uint64_t)>& finish) {
  const int team = threads == 0 ? omp_get_max_threads() : static_cast<int>(threads);
  std::vector<std::exception_ptr> failures(count);
  // No exception may leave a parallel region.
  const auto guarded = [&](const std::function<void(uint64_t)>& step, uint64_t i) {
    if (failures[i]) return;
    try {
      step(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  if (!finish) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
    for (uint64_t i = 0; i < count; ++i) guarded(body, i);
  } else {
#pragma omp parallel for ordered schedule(dynamic, 1) num_threads(team)
    for (uint64_t i = 0; i < count; ++i) {
      guarded(body, i);
#pragma omp ordered
      guarded(finish, i);
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace moetwin
