// A rank's launches: when one may start, what it starts with, and what is kept when it ends.
#include <fmt/format.h>

#include <algorithm>

#include "cpu_sim/race_report.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

/// Weights up to this size stay from launch to launch.
constexpr uint64_t kKeptCodeBytes = uint64_t{64} << 20;

uint64_t code_bytes(const Shape& shape) {
  return uint64_t{3} * shape.experts * shape.hidden * shape.intermediate;
}

}  // namespace

void Simulation::use_layout_of(uint64_t launch) {
  laid_out_launch_ = launch;
  plan_ = &launches_[launch].args.plan;
  layout_ = &launches_[launch].args.layout;
}

bool Simulation::same_shape(uint64_t launch) const {
  return launches_[launch].args.shape == launches_[laid_out_launch_].args.shape;
}

bool Simulation::may_start(uint32_t r) const {
  const RankState& rank = ranks_[r];
  if (rank.running || rank.launch >= launches_.size()) return false;
  const bool late = case_.world.late_rank == r && rank.launch == 0;
  if (late && scheduler_.choices() < case_.world.late_steps && !scheduler_.empty()) return false;
  if (same_shape(rank.launch)) return true;
  // A new shape lays the buffer out anew, so all ranks must have left the old one.
  for (const RankState& other : ranks_)
    if (other.running || other.launch != rank.launch) return false;
  return true;
}

void Simulation::start_ready_ranks() {
  starts_pending_ = case_.world.late_rank.has_value() &&
                    ranks_[*case_.world.late_rank].launch == 0 &&
                    !ranks_[*case_.world.late_rank].running;
  for (uint32_t r = 0; r < ranks_.size(); ++r)
    if (may_start(r)) start_rank(r);
}

void Simulation::start_rank(uint32_t r) {
  RankState& rank = ranks_[r];
  const Launch& next = launches_[rank.launch];
  if (!ever_laid_out_ || !same_shape(rank.launch)) {
    use_layout_of(rank.launch);
    for (RankState& each : ranks_) lay_out(each);
    if (options_.check)
      checker_ = std::make_unique<RaceDetector>(
          race_topology(next.args, math()),
          [this](const RaceFinding& finding) { report_race(finding); });
    ever_laid_out_ = true;
  }
  rank.running = true;
  rank.num_tokens = next.problem.ranks[r].num_tokens;
  rank.experts.start_launch(
      next.problem.weights, next.problem.shape, r, next.weight_tiles[r],
      launches_.size() > 1 && code_bytes(next.problem.shape) <= kKeptCodeBytes);
  if (checker_) checker_->start_launch(r);
  upload_inputs(r);
  if (traced())
    log(agents_[size_t{r} * plan().sms * agents_per_cta(plan())], TraceKind::Launch, Step::None,
        TraceObject::Nothing, 0, static_cast<uint32_t>(rank.launch));
  rank.agents_left = 0;
  for (uint32_t sm = 0; sm < plan().sms; ++sm) {
    Cta& cta = ctas_[r * plan().sms + sm];
    cta.shared.forget();
    cta.mbarriers.fill({});
    cta.named = {};
  }
  const uint32_t agents_of_rank = plan().sms * agents_per_cta(plan());
  for (uint32_t i = 0; i < agents_of_rank; ++i) {
    Agent& a = agents_[r * agents_of_rank + i];
    ++rank.agents_left;
    a.finished = false;
    a.started = false;
    a.uncommitted = 0;
    a.phases_seen.fill(0);
    if (cta(a).held) continue;
    a.started = true;
    a.wait = {};
    a.time += costs_.launch;
    scheduler_.runnable(id_of(a), a.time);
  }
}

void Simulation::agent_body(Agent& a) {
  for (;;) {
    try {
      run_agent_role(a);
    } catch (const LeaveKernel&) {  // planted
    }
    agent_done(a);
    Wait wait;
    wait.kind = Wait::Kind::Launch;
    block(a, wait);
  }
}

void Simulation::agent_done(Agent& a) {
  a.finished = true;
  if (!a.copies.empty() && !a.copies[0].is_load() && !stores_done(a, BulkDone::Written))
    report(FindingClass::Barrier, a, a.copies[0].step,
           "leaves the kernel before its bulk stores are written");
  if (checker_ && a.uncommitted != 0)
    report(FindingClass::Barrier, a, Step::None,
           fmt::format("{} leaves the kernel with {} bulk stores in no committed group",
                       agent_name(a), a.uncommitted));
  RankState& rank = ranks_[a.rank];
  if (--rank.agents_left != 0) return;
  end_of_launch(a.rank);
  rank.running = false;
  ++rank.launch;
  starts_pending_ = true;
}

void Simulation::end_of_launch(uint32_t rank) {
  const uint64_t launch = ranks_[rank].launch;
  // The first rank to leave has passed the last rank barrier: everything but y is final everywhere.
  if (results_[launch].tokens.empty()) collect(launch);
  if (checker_) {
    check_left_over(rank);
    checker_->end_launch(rank);
  }
  collect_y(rank);
  for (Finding& finding : check_zero_words(launches_[launch].args.shape, plan(), reader())) {
    if (finding.rank != rank || findings_.size() >= kMaxFindings) continue;
    finding.launch = launch_of(rank);
    findings_.push_back(std::move(finding));
  }
  if (timed_) {
    launch_ends_.resize(std::max<size_t>(launch_ends_.size(), launch + 1));
    launch_ends_[launch] = std::max(launch_ends_[launch], latest_time(rank));
  }
}

}  // namespace moetwin
