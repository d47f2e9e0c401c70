// What a checked run looks at beyond the machine's own rules: which bytes copies touch, who may use
// a named barrier, and what is left over when a launch ends.
#include <fmt/format.h>

#include "common/wait_table.h"
#include "cpu_sim/race_report.h"
#include "cpu_sim/simulation.h"

namespace moetwin {

void Simulation::check_issue(Agent& a, Copy& copy) {
  const RaceRange in_shared = race_range(a, copy.shared, copy.total());
  RaceRange in_global;
  if (!copy.from_weights()) {
    in_global = race_range(copy.global, copy.row_bytes);
    in_global.rows = copy.rows;
    in_global.pitch = copy.global_pitch;
  }
  if (copy.is_load())
    copy.operation = checker_->load(id_of(a), copy.step, copy.from_weights() ? nullptr : &in_global,
                                    in_shared, copy.bar);
  else
    checker_->store(id_of(a), copy.step, in_shared, in_global);
}

void Simulation::check_member(const Agent& a, NamedBarrier barrier, Step step) {
  if ((named_barrier_members(plan(), barrier) >> a.in_cta & 1) != 0) return;
  report(FindingClass::Barrier, a, step,
         fmt::format("{} {}: named barrier {} is not one of its role", agent_name(a),
                     step_words(step), named_barrier_name(barrier)));
}

void Simulation::check_left_over(uint32_t rank) {
  for (const Agent& a : agents_)
    if (a.rank == rank && !a.copies.empty() && a.copies[0].is_load())
      report(FindingClass::Barrier, a, a.copies[0].step,
             fmt::format("{}: a bulk load to {} is still under way when the launch ends",
                         agent_name(a), shared_name(a.copies[0].shared)));
}

void Simulation::report_race(const RaceFinding& finding) {
  Finding words = race_finding(*this, checker_->topology(), finding);
  words.launch = launch_of(finding.leaving ? finding.place.owner : words.rank);
  if (findings_.size() < kMaxFindings) findings_.push_back(std::move(words));
}

}  // namespace moetwin
