#include "app/case_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "cpu_sim/schedule.h"
#include "fuzz/plants.h"
#include "model/checked_plan.h"
#include "model/mapped_file.h"
#include "model/memory_estimate.h"

namespace moetwin {
namespace {

uint64_t total_tokens(const LaunchSpec& launch) {
  return std::accumulate(launch.tokens.begin(), launch.tokens.end(), uint64_t{0});
}

/// Inputs and every stage of one launch.
uint64_t kept_bytes(const LaunchSpec& launch) {
  const Shape& s = launch.shape;
  const uint64_t tokens = total_tokens(launch);
  const uint64_t token = s.hidden + 4 * s.hidden_blocks() + 8 * uint64_t{s.topk} + 2 * s.hidden;
  const uint64_t row = sizeof(RoutedRow) + 4 + s.intermediate + 4 * s.linear1_scale_groups() +
                       2 * uint64_t{s.hidden};
  return tokens * (token + s.topk * row);
}

/// Touched pages of all ranks' buffers: capacity costs address space only. Each byte has a stamp.
uint64_t buffer_bytes(const LaunchSpec& launch, const KernelPlan& plan) {
  constexpr uint64_t kStamped = 2;
  constexpr uint64_t kPage = 4096;
  const Shape& s = launch.shape;
  const uint64_t tokens = total_tokens(launch);
  const uint64_t rows = tokens * s.topk;
  const uint64_t opened = rows / plan.block_m + std::min<uint64_t>(rows, s.experts);
  const uint64_t in_rings = std::min(opened, uint64_t{plan.ring_blocks} * s.ranks);
  const uint64_t linear1 = s.intermediate + 4 * s.linear1_scale_groups();
  const uint64_t pool_row = s.hidden + 4 * uint64_t{s.hidden_blocks()} + linear1;
  const uint64_t token = 3 * uint64_t{s.hidden} + 4 * s.hidden_blocks() + 8 * uint64_t{s.topk};
  const uint64_t slot_pages = std::min(rows, uint64_t{s.experts} * s.ranks) * kPage;
  const uint64_t words = uint64_t{s.ranks} * (8 * s.experts + 16 * uint64_t{plan.ring_blocks});
  const uint64_t bytes = in_rings * plan.block_m * pool_row +
                         opened * plan.block_m * (sizeof(uint32_t) * 4 + linear1) + tokens * token +
                         rows * (2 * uint64_t{s.hidden} + 4) + slot_pages + words;
  const uint64_t shared = uint64_t{s.ranks} * plan.sms * plan.shared.total;
  return kStamped * (bytes + shared);
}

void check_schedule(const std::string& text, uint32_t ranks) {
  std::vector<std::string_view> roles;
  for (uint32_t role = 0; role < kNumRoles; ++role)
    roles.emplace_back(role_name(static_cast<Role>(role)));
  const Schedule schedule = parse_schedule(text, roles);
  if (schedule.policy == SchedulePolicy::Slow && schedule.rank >= ranks)
    throw InputError(fmt::format("schedule: rank {} of slow:{}@{} is not below shape.ranks, {}",
                                 schedule.rank, schedule.role, schedule.rank, ranks));
}

}  // namespace

KernelPlan plan_of(const Case& c, const LaunchSpec& launch, bool unsafe_ring, bool taps) {
  return checked_plan(launch.shape, c.kernel, unsafe_ring, taps);
}

uint64_t run_bytes(const Case& c, bool simulated, bool references) {
  uint64_t bytes = estimate_memory(c).bytes;
  uint64_t largest = 0;
  uint64_t buffers = 0;
  for (const LaunchSpec& launch : c.launches) {
    const uint64_t kept = kept_bytes(launch);
    largest = std::max(largest, kept);
    bytes += kept;
    if (simulated) buffers = std::max(buffers, buffer_bytes(launch, plan_of(c, launch, true)));
    if (references) bytes += total_tokens(launch) * launch.shape.hidden * sizeof(double);
  }
  // The estimate already holds the largest launch; a reference holds one more of it.
  return bytes + buffers - (references ? 0 : largest);
}

uint64_t protocol_bytes(const Case& c) {
  constexpr uint64_t kStamped = 2;
  constexpr uint64_t kPage = 4096;
  // Stack, list of copies and shared memory of an agent: pages that are touched whatever it does.
  constexpr uint64_t kAgent = 9 * kPage;
  uint64_t inputs = 0;
  uint64_t largest = 0;
  for (const LaunchSpec& launch : c.launches) {
    const Shape& s = launch.shape;
    const KernelPlan plan = plan_of(c, launch, true);
    const uint64_t rows = total_tokens(launch) * s.topk;
    const uint64_t routing = rows * (sizeof(int32_t) + sizeof(float));
    inputs += routing;
    const uint64_t in_rings = uint64_t{plan.ring_blocks} * plan.block_m * s.ranks;
    const uint64_t scales = sizeof(float) * (s.hidden_blocks() + s.linear1_scale_groups());
    const uint64_t slots =
        rows * sizeof(uint32_t) + std::min(rows, uint64_t{s.experts} * s.ranks) * kPage;
    const uint64_t tags = 2 * sizeof(uint64_t) * in_rings + 12 * rows;
    const uint64_t agents = uint64_t{s.ranks} * plan.sms * (kWarpgroupWarps + plan.math_warpgroups);
    const uint64_t opened = rows / plan.block_m + std::min<uint64_t>(rows, s.experts);
    largest = std::max(largest, kStamped * (routing + slots + 16 * opened * plan.block_m +
                                            std::min(rows, in_rings) * scales) +
                                    tags + agents * kAgent);
  }
  return inputs + largest;
}

void check_case(const Case& c, const Backend& backend, const CaseChecks& checks) {
  if (!c.plant.empty() && !backend.simulated)
    throw InputError(
        fmt::format("plant: only backend 'sim' has planted faults, not '{}'", backend.name));
  if (!c.plant.empty() && !is_plant(c.plant))
    throw InputError(fmt::format("plant: '{}' is not a planted fault (moetwin faults --list)",
                                 one_line(c.plant, 60)));
  check_schedule(checks.schedule.empty() ? c.schedule : checks.schedule, c.shape.ranks);
  for (const LaunchSpec& launch : c.launches) plan_of(c, launch, checks.unsafe_ring);
  const auto needed = [&](const Case& of) {
    return checks.math ? std::max(estimate_memory(of).bytes,
                                  run_bytes(of, backend.simulated, checks.references))
                       : protocol_bytes(of);
  };
  MemoryNeed need = estimate_memory(c);
  need.bytes = needed(c);
  Case smallest_ring = c;
  smallest_ring.kernel.ring_blocks = 0;
  if (need.bytes > checks.memory_limit && needed(smallest_ring) <= checks.memory_limit) {
    need.driver = "kernel.ring_blocks";
    need.driver_value = c.kernel.ring_blocks;
  }
  refuse_over_limit(need, checks.memory_limit);
}

}  // namespace moetwin
