// How the two references share work out: blocks of one expert's rows as tasks for OpenMP threads,
// and an expert's weights held from its first task to its last. Pure bookkeeping; the arithmetic
// and the protocol of the layer are elsewhere.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "model/problem.h"

namespace moetwin {

/// Rows [begin, end) of one expert's list.
struct ExpertTask {
  uint32_t expert = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Cuts rows_of_expert[e] rows into tasks of at most `block` rows, experts ascending; an expert
/// without rows has no task.
std::vector<ExpertTask> expert_tasks(const std::vector<uint64_t>& rows_of_expert, uint64_t block);

/// Hands out an expert's weights to the tasks of a list: made by the first that asks, dropped by
/// the last that is done. Thread safe.
class HeldWeights {
 public:
  HeldWeights(const WeightSource& source, const std::vector<ExpertTask>& tasks, uint32_t experts);

  /// The weights for one task; the task calls done() once it no longer uses them.
  std::shared_ptr<const ExpertWeights> take(uint32_t expert);
  void done(uint32_t expert);

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const ExpertWeights> weights;
    uint64_t tasks_left = 0;
  };

  const WeightSource& source_;
  std::vector<Entry> entries_;  ///< [E]
};

/// Runs body(i) for i = 0 .. count-1 on `threads` OpenMP threads (0: as many as OpenMP gives),
/// tasks started in ascending order, and then finish(i) strictly in ascending order. If any throws,
/// the exception of the lowest i is rethrown after the rest has ended.
void run_tasks(uint32_t threads, uint64_t count, const std::function<void(uint64_t)>& body,
               const std::function<void(uint64_t)>& finish = nullptr);

}  // namespace moetwin
