#include "cpu_sim/sim_agent.h"

namespace moetwin {

bool SimAgent::mutated_visit() {
  const Mutant& mutant = sim_.mutant();
  if (mutant.role != Role::Count && mutant.role != agent_.role) return false;
  if (mutant.rank != UINT32_MAX && mutant.rank != agent_.rank) return false;
  const uint32_t visit = agent_.mutant_visits++;
  return visit >= mutant.first && visit <= mutant.last;
}

void SimAgent::make_postponed_call() {
  in_postponed_ = true;
  std::exchange(postponed_, nullptr)();
  in_postponed_ = false;
}

}  // namespace moetwin
