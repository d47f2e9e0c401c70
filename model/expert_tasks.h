// How the references share work out: the rows of each expert, blocks of them as tasks for OpenMP
// threads, and an expert's weights held from its first task to its last. Pure bookkeeping; the
// arithmetic and the protocol of the layer are elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/check.h"
#include "model/problem.h"

namespace moetwin {

/// One routed slot as an expert sees it.
struct ExpertRow {
  uint32_t rank = 0;
  uint32_t token = 0;
  uint32_t k = 0;
  uint64_t y_row = 0;  ///< the token's place among all tokens
  uint64_t row = 0;    ///< the slot's place among all routed ones
  float weight = 0;
};

/// [E]: the routed slots of each expert, in order of (rank, token, k).
std::vector<std::vector<ExpertRow>> rows_by_expert(const Problem& problem);

/// Rows [begin, end) of one expert's list.
struct ExpertTask {
  uint32_t expert = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Cuts rows_of_expert[e] rows into tasks of at most `block` rows, experts ascending; an expert
/// without rows has no task.
std::vector<ExpertTask> expert_tasks(const std::vector<uint64_t>& rows_of_expert, uint64_t block);

/// Hands out an expert's tensors to the tasks of a list: made by the first that asks, dropped by
/// the last that is done. Thread safe.
template <typename Tensors>
class HeldPerExpert {
 public:
  using Pointer = std::shared_ptr<const Tensors>;
  using Make = std::function<Pointer(uint32_t expert)>;

  HeldPerExpert(Make make, const std::vector<ExpertTask>& tasks, uint32_t experts)
      : make_(std::move(make)), entries_(experts) {
    for (const ExpertTask& task : tasks) ++entries_[task.expert].tasks_left;
  }

  /// The tensors for one task; the task calls done() once it no longer uses them.
  Pointer take(uint32_t expert) {
    Entry& entry = entries_[expert];
    const std::lock_guard<std::mutex> lock(entry.mutex);
    MOETWIN_CHECK(entry.tasks_left > 0);
    if (!entry.tensors) entry.tensors = make_(expert);
    MOETWIN_CHECK(entry.tensors != nullptr);
    return entry.tensors;
  }

  void done(uint32_t expert) {
    Entry& entry = entries_[expert];
    const std::lock_guard<std::mutex> lock(entry.mutex);
    MOETWIN_CHECK(entry.tasks_left > 0);
    if (--entry.tasks_left == 0) entry.tensors.reset();
  }

 private:
  struct Entry {
    std::mutex mutex;
    Pointer tensors;
    uint64_t tasks_left = 0;
  };

  Make make_;
  std::vector<Entry> entries_;  ///< [E]
};

/// Runs body(i) for i = 0 .. count-1 on `threads` OpenMP threads (0: as many as OpenMP gives),
/// tasks started in ascending order, and then finish(i) strictly in ascending order. If any throws,
/// the exception of the lowest i is rethrown after the rest has ended.
void run_tasks(uint32_t threads, uint64_t count, const std::function<void(uint64_t)>& body,
               const std::function<void(uint64_t)>& finish = nullptr);

}  // namespace moetwin
