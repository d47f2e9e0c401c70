#include "fuzz/ring_witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/check.h"
#include "cpu_sim/agent_numbers.h"
#include "cpu_sim/schedule.h"
#include "cpu_sim/simulate.h"

namespace moetwin {
namespace {

/// Where the directed schedule fails or is too long to print.
constexpr uint32_t kRandomTries = 50;

/// Steers who claims which tile on rank 0: the last Linear1 tile before the first Linear2 tile goes
/// to an SM that holds no other tile of that block, and the Linear2 tile to the same SM. Its math
/// then waits, in the Linear1 tile, for the Linear2 tile behind it. Where every SM already holds a
/// tile of the last block, whoever claims the Linear2 tile is stuck before it anyway.
class ClaimDirector : public SyncObserver, public Chooser {
 public:
  ClaimDirector(const KernelPlan& plan, const Shape& shape, uint32_t blocks)
      : plan_(plan),
        ranks_(shape.ranks),
        k_blocks_(shape.hidden_blocks()),
        last_block_(uint64_t{blocks - 1} * plan.tiles.n1),
        first_linear2_(uint64_t{blocks} * plan.tiles.n1),
        newest_(plan.sms, -1),
        loaded_(plan.sms, 0) {}

  void on_sync(const Observation& event) override {
    const bool claims = event.step == Step::TaskClaim && event.op == SyncOp::Fetch;
    const bool loads = event.step == Step::LoadAScales && event.op == SyncOp::Issue;
    if (!claims && !loads) return;
    const AgentPlace who = agent_place(plan_, ranks_, event.agent);
    if (who.rank != 0) return;
    loaded_[who.sm] = loads ? loaded_[who.sm] + 1 : 0;
    if (loads) return;
    claimed_ = event.number;
    newest_[who.sm] = static_cast<int64_t>(claimed_) - 1;
    if (claimed_ + 1 == first_linear2_) choose_holder();
  }

  uint32_t choose(std::span<const uint32_t> runnable, uint32_t) override {
    const bool steering = holder_ && claimed_ <= first_linear2_;
    if (!steering) return runnable.front();
    for (const uint32_t agent : runnable)
      if (!held_back(agent)) return agent;
    // Only those held back can go on: one whose tile the others wait for, and none that would claim
    // its next.
    return *std::min_element(runnable.begin(), runnable.end(), [this](uint32_t x, uint32_t y) {
      return waited_for(x) < waited_for(y);
    });
  }

 private:
  void choose_holder() {
    for (uint32_t sm = 0; sm < plan_.sms; ++sm) {
      if (newest_[sm] >= static_cast<int64_t>(last_block_)) continue;
      if (!holder_ || newest_[sm] < newest_[*holder_]) holder_ = sm;
    }
  }

  uint64_t waited_for(uint32_t agent) const {
    const uint32_t sm = agent_place(plan_, ranks_, agent).sm;
    return loaded_[sm] >= k_blocks_ ? UINT64_MAX : static_cast<uint64_t>(newest_[sm]);
  }

  bool held_back(uint32_t agent) const {
    const AgentPlace who = agent_place(plan_, ranks_, agent);
    return who.rank == 0 && who.role == Role::LoadA && !who.landing && who.sm != *holder_;
  }

  const KernelPlan& plan_;
  uint32_t ranks_;
  uint32_t k_blocks_;
  uint64_t last_block_;           ///< first Linear1 tile of the last block
  uint64_t first_linear2_;        ///< the tile behind it
  std::vector<int64_t> newest_;   ///< [SM] the latest tile it claimed
  std::vector<uint32_t> loaded_;  ///< [SM] blocks of K of that tile that load A has sent for
  uint64_t claimed_ = 0;
  std::optional<uint32_t> holder_;
};

bool deadlocks(const RunResult& result) {
  return std::any_of(result.findings.begin(), result.findings.end(),
                     [](const Finding& f) { return f.kind == FindingClass::Deadlock; });
}

bool deadlocks(const Case& c) {
  RunOptions options;
  options.unsafe_ring = true;
  return deadlocks(simulate(c, options));
}

/// The directed schedule as a string, or empty where it did not end in a deadlock.
std::string directed_schedule(const Case& c, const KernelPlan& plan, uint32_t blocks) {
  RunOptions options;
  options.unsafe_ring = true;
  options.record = true;
  ClaimDirector director(plan, c.shape, blocks);
  const RunResult result = simulate(c, options, Mutant{}, {&director, &director});
  return deadlocks(result) ? result.schedule_string : std::string();
}

}  // namespace

void route_blocks_to_rank0(Case& c, uint32_t blocks) {
  const Shape& shape = c.shape;
  const uint32_t block_m = c.kernel.block_m;
  MOETWIN_CHECK(blocks >= 1 && blocks <= max_pool_blocks(shape, block_m));
  const uint32_t opened = std::min(shape.num_local_experts(), blocks);
  std::vector<int64_t> slots;
  for (uint32_t expert = 0; expert < opened; ++expert) slots.push_back(expert);
  slots.insert(slots.end(), uint64_t{blocks - opened} * block_m, 0);
  c.routing = {};
  c.routing.kind = RoutingKind::Explicit;
  c.routing.topk_idx.resize(shape.ranks);
  c.tokens.assign(shape.ranks, 0);
  size_t next = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank)
    while (next < slots.size() && c.tokens[rank] < shape.max_tokens_per_rank) {
      std::vector<int64_t> row(shape.topk, kMaskedExpert);
      for (uint32_t k = 0; k < shape.topk && next < slots.size(); ++k) row[k] = slots[next++];
      c.routing.topk_idx[rank].push_back(std::move(row));
      ++c.tokens[rank];
    }
  MOETWIN_CHECK(next == slots.size());
  set_launches(c, 1);
}

std::optional<Case> find_ring_deadlock(const Shape& shape, const KernelOptions& kernel) {
  const uint64_t safe =
      smallest_safe_ring(shape, {kernel.block_m, kernel.block_n}, kernel.sms_per_rank);
  if (safe == 1 || kernel.scheduler == SchedulerPolicy::Wave) return {};
  Case c;
  c.shape = shape;
  c.kernel = kernel;
  c.kernel.ring_blocks = static_cast<uint32_t>(safe) - 1;
  const PlanResult planned = make_plan(shape, c.kernel, true);
  if (planned.error)
    throw InputError(fmt::format("{}: {} is not {}", planned.error.field, planned.error.value,
                                 planned.error.limit));
  route_blocks_to_rank0(c, static_cast<uint32_t>(safe));
  if (deadlocks(c)) return c;
  c.schedule = directed_schedule(c, planned.plan, static_cast<uint32_t>(safe));
  // Believed only once the schedule that is printed repeats it by itself.
  if (!c.schedule.empty() && c.schedule.size() <= kMaxScheduleStringBytes && deadlocks(c)) return c;
  for (uint32_t seed = 1; seed <= kRandomTries; ++seed) {
    c.schedule = fmt::format("random:{}", seed);
    if (deadlocks(c)) return c;
  }
  return {};
}

}  // namespace moetwin
