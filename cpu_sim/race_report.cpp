// The checker's findings in words, and its map of the simulated world.
#include "cpu_sim/race_report.h"

#include <fmt/format.h>

#include "common/machine.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

/// How a region is remembered.
ShadowShape region_shape(Region region, const Shape& shape) {
  switch (region) {
    case Region::PoolX:
      return {kBlockK, 64, shape.hidden, true};
    case Region::Linear1:
    case Region::TapLinear1:
      return {kLinear1ScaleGroup, 64, shape.intermediate};
    case Region::Tokens:
    case Region::Y:
      return {16, 64};
    case Region::CombineRows:
      return {kStagedRowBytes, 16, 0, true};  // what math copies at a time, whole
    case Region::Metadata:
      return {16, 16, 0, true};
    case Region::PoolXScales:
      return {4, 64, 0, true};
    case Region::Linear1Scales:
    case Region::TapLinear1Scales:
      return {4, 64};
    case Region::SendCount:
      return {8, 1};
    case Region::TokenScales:
    case Region::TopkIdx:
    case Region::TopkWeights:
      return {4, 8};
    default:
      return {4, 1};
  }
}

std::string site_name(const Simulation& sim, const RaceSite& site, const RaceTopology& topology) {
  if (topology.is_host(site.agent))
    return fmt::format("the host of rank {}", topology.rank_of(site.agent));
  const std::string name = sim.agent_name(sim.agents()[site.agent]);
  if (site.who.first_lane() || is_async(site.kind)) return name;
  const uint32_t warps = site.who.warps();
  if (sim.agents()[site.agent].warps > 1 && std::has_single_bit(warps))
    return fmt::format("{} warp {}", name, std::countr_zero(warps));
  return name;
}

const char* does(AccessKind kind) {
  switch (kind) {
    case AccessKind::Read:
      return "reads";
    case AccessKind::Write:
      return "writes";
    case AccessKind::AtomicRead:
      return "polls";
    case AccessKind::AtomicAdd:
      return "adds to";
    case AccessKind::LoadRead:
      return "starts a bulk load that reads";
    case AccessKind::LoadWrite:
      return "starts a bulk load that overwrites";
    case AccessKind::StoreRead:
      return "starts a bulk store that reads";
    case AccessKind::StoreWrite:
      return "starts a bulk store that overwrites";
    case AccessKind::MmaRead:
      return "starts a tensor-core product that reads";
  }
  return "";
}

std::string step_of(const RaceSite& site) {
  return site.step == Step::None ? "before the launch" : step_name(site.step);
}

/// Where in a region the bytes lie, in the protocol's terms.
std::string region_place(const Simulation& sim, const RaceRange& place) {
  const KernelPlan& plan = sim.plan();
  const Shape& shape = sim.launch(place.owner).args.shape;
  const auto region = static_cast<Region>(place.region);
  const uint64_t element = place.offset / region_info(region).element_bytes;
  const auto ring_row = [&](uint64_t row) {
    return fmt::format("row {} of ring slot {}", row % plan.block_m, row / plan.block_m);
  };
  switch (region) {
    case Region::PoolX:
      return ring_row(element / shape.hidden);
    case Region::Linear1:
      return ring_row(element / shape.intermediate);
    case Region::PoolXScales:
      return ring_row(element / (uint64_t{shape.hidden_blocks()} * plan.block_m) * plan.block_m +
                      element % plan.block_m);
    case Region::Linear1Scales:
      return ring_row(element / (uint64_t{shape.linear1_scale_groups()} * plan.block_m) *
                          plan.block_m +
                      element % plan.block_m);
    case Region::XFull:
    case Region::XEmpty:
    case Region::Linear1Full:
    case Region::Linear1Empty:
      return fmt::format("ring slot {}", element);
    case Region::SendCount:
      return fmt::format("expert {}", element);
    case Region::RecvCount:
      return fmt::format("local expert {}, source rank {}", element / shape.ranks,
                         element % shape.ranks);
    case Region::SlotTable: {
      const uint64_t table = element / shape.slots_per_source();
      return fmt::format("local expert {}, source rank {}, slot {}", table / shape.ranks,
                         table % shape.ranks, element % shape.slots_per_source());
    }
    case Region::Metadata:
      return fmt::format("pool row {}", element);
    case Region::Tokens:
    case Region::Y:
      return fmt::format("token {}", element / shape.hidden);
    case Region::TokenScales:
      return fmt::format("token {}", element / shape.hidden_blocks());
    case Region::TopkIdx:
    case Region::TopkWeights:
      return fmt::format("token {}, k {}", element / shape.topk, element % shape.topk);
    case Region::CombineRows: {
      const uint64_t row = element / shape.hidden;
      return fmt::format("k {}, token {}", row / shape.max_tokens_per_rank,
                         row % shape.max_tokens_per_rank);
    }
    default:
      return "";
  }
}

std::string place_words(const Simulation& sim, const RaceRange& place) {
  const uint32_t mbarriers = sim.plan().shared.mbarriers;
  const bool mbarrier = place.space == RaceSpace::Shared && place.offset >= mbarriers;
  if (mbarrier)
    return fmt::format("{} of rank {} SM {}",
                       sim.mbarrier_name(static_cast<uint32_t>(place.offset - mbarriers) / 8),
                       place.owner / sim.plan().sms, place.owner % sim.plan().sms);
  if (place.space == RaceSpace::Shared)
    return fmt::format("{} of rank {} SM {}", sim.shared_name(static_cast<uint32_t>(place.offset)),
                       place.owner / sim.plan().sms, place.owner % sim.plan().sms);
  const std::string where = region_place(sim, place);
  const std::string name = sim.place_name(pack_address(place.owner, place.region, place.offset));
  return where.empty() ? name : fmt::format("{} ({})", name, where);
}

/// What the remedy would be, as a sentence; empty if no change that was tried is one.
std::string remedy_words(const Simulation& sim, const RaceFinding& finding,
                         const std::string& first) {
  const Remedy& remedy = finding.remedy;
  const char* step = step_name(remedy.step);
  switch (remedy.kind) {
    case Remedy::Kind::None:
      return "";
    case Remedy::Kind::WiderScope:
      return fmt::format("Would be ordered if {} had scope sys", step);
    case Remedy::Kind::Stronger:
      return fmt::format("Would be ordered if {} released or acquired", step);
    case Remedy::Kind::EveryLane:
      return fmt::format("Would be ordered if every lane executed the fence {}", step);
    case Remedy::Kind::FenceEarlier:
      return fmt::format("Would be ordered if {} stood before {}", step, step_name(remedy.other));
    case Remedy::Kind::FenceBefore:
      return fmt::format("Would be ordered if every lane of {} executed a proxy fence before {}",
                         first, step);
    case Remedy::Kind::Together:
      return fmt::format("Would be ordered if the warps of {} met before {}", first, step);
    case Remedy::Kind::AccessEarlier:
      return fmt::format("Would be ordered if {} stood before {}", step_of(finding.first), step);
    case Remedy::Kind::FirstWaits:
      return fmt::format(
          "Would be ordered if {} waited for its {} before {}", first,
          finding.first.kind == AccessKind::MmaRead ? "tensor-core product" : "bulk stores", step);
    case Remedy::Kind::SecondWaits:
      return fmt::format("Would be ordered if {} waited for {} first", step_of(finding.second),
                         sim.mbarrier_name(remedy.object));
    case Remedy::Kind::SecondAcquires:
      return fmt::format("Would be ordered if {} came behind an acquire of what {} releases",
                         step_of(finding.second), step);
  }
  return "";
}

}  // namespace

RaceTopology race_topology(const KernelArgs& args, bool math) {
  const KernelPlan& plan = args.plan;
  RaceTopology topology;
  topology.ranks = args.shape.ranks;
  topology.sms = plan.sms;
  topology.warps.assign(kWarpgroupWarps, 1);
  topology.warps.resize(kWarpgroupWarps + plan.math_warpgroups, kWarpgroupWarps);
  topology.mbarriers = plan.num_mbarriers();
  topology.mbarrier_offset = plan.shared.mbarriers;
  topology.named_barriers = kNumNamedBarriers;
  const SharedLayout& s = plan.shared;
  const auto piece = [&](uint32_t begin, uint32_t end, ShadowShape shape) {
    topology.shared.push_back({begin, end - begin, shape});
  };
  piece(s.stage_a, s.stage_b, {kBlockK});
  piece(s.stage_b, s.staging, {2 * kBlockK});
  // Values are stored one or two at a time, payload tags stand for whole rows of 64 bytes or more.
  piece(s.staging, s.stage_scales, {math ? 2u : 16u});
  piece(s.stage_scales, s.pull_buffer, {4});
  piece(s.pull_buffer, s.expert_counter, {16});
  piece(s.expert_counter, s.pool_table, {4, 1});
  piece(s.pool_table, s.task_queue, {4, 2});
  piece(s.task_queue, s.mbarriers, {4, 8});
  piece(s.mbarriers, s.total, {8, 1});
  for (uint32_t r = 0; r < kNumRegions; ++r) {
    const auto region = static_cast<Region>(r);
    topology.regions.push_back({0, args.layout.size(region), region_shape(region, args.shape)});
  }
  return topology;
}

namespace {

/// Of an access that is still under way, for all its rank's host knows, when a launch has ended.
Finding leaving_finding(const Simulation& sim, const RaceTopology& topology,
                        const RaceFinding& finding) {
  const Agent& agent = sim.agents()[finding.first.agent];
  Finding result;
  result.kind = finding.kind;
  result.step = finding.first.step;
  result.rank = agent.rank;
  result.sm = agent.sm;
  result.role = fmt::format("{} {}", role_name(agent.role), agent.number);
  result.other = fmt::format("the end of the launch on rank {}", finding.place.owner);
  result.text = fmt::format(
      "{} {} {} at {}, and nothing orders that before {}, when its host may free the memory or use "
      "it anew",
      site_name(sim, finding.first, topology), does(finding.first.kind),
      place_words(sim, finding.place), step_of(finding.first), result.other);
  return result;
}

}  // namespace

Finding race_finding(const Simulation& sim, const RaceTopology& topology,
                     const RaceFinding& finding) {
  if (finding.leaving) return leaving_finding(sim, topology, finding);
  const std::string first = site_name(sim, finding.first, topology);
  const std::string second = site_name(sim, finding.second, topology);
  const char* relation = "not ordered behind";
  if (finding.kind == FindingClass::Proxy) relation = "ordered, but without a proxy fence, behind";
  if (finding.kind == FindingClass::Scope) relation = "ordered at too narrow a scope behind";
  std::string other =
      fmt::format("{}, which {} them at {}{}", first, does(finding.first.kind),
                  step_of(finding.first), finding.pending ? " and has not been waited for" : "");
  std::string text =
      fmt::format("{} {} {} at {}, {} {}", second, does(finding.second.kind),
                  place_words(sim, finding.place), step_of(finding.second), relation, other);
  const std::string remedy = remedy_words(sim, finding, first);
  if (!remedy.empty()) text += ". " + remedy;
  Finding result;
  result.kind = finding.kind;
  result.step = finding.second.step;
  const Agent& agent = sim.agents()[finding.second.agent];
  result.rank = agent.rank;
  result.sm = agent.sm;
  result.role = fmt::format("{} {}", role_name(agent.role), agent.number);
  result.text = std::move(text);
  result.other = std::move(other);
  return result;
}

}  // namespace moetwin
