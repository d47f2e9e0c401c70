// Payload tags: what copies carry without tile arithmetic, and what is checked where they land.
#include <fmt/format.h>

#include <algorithm>

#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

bool is_payload(Region region) {
  switch (region) {
    case Region::Tokens:
    case Region::TokenScales:
    case Region::PoolX:
    case Region::Linear1:
    case Region::TapLinear1:
    case Region::CombineRows:
    case Region::Y:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Simulation::carries_tags(const Copy& copy) const {
  return !math() &&
         (copy.from_weights() || is_payload(static_cast<Region>(address_region(copy.global))));
}

/// `to` [copy.rows] comes in without tags; what is no row of a token stays so.
void Simulation::read_tags(Agent& a, const Copy& copy, RowTag* to) {
  if (copy.from_weights()) return;
  const uint32_t hidden = launches_[laid_out_launch_].args.shape.hidden;
  const auto region = static_cast<Region>(address_region(copy.global));
  RankState& owner = ranks_[address_rank(copy.global)];
  const uint64_t offset = address_offset(copy.global);
  switch (copy.kind) {
    case Copy::Kind::Load:
      if (region == Region::Tokens)
        to[0] = row_tag(ranks_[a.rank].launch, address_rank(copy.global),
                        static_cast<uint32_t>(offset / hidden));
      if (region == Region::CombineRows) check_combine(a, copy);
      return;
    case Copy::Kind::Store:
      to[0] = cta(a).tags.pull[a.number];
      return;
    case Copy::Kind::TileLoad: {
      const auto& rows = region == Region::PoolX ? owner.tags.pool_x : owner.tags.linear1;
      std::copy_n(&rows[offset / copy.global_pitch], copy.rows, to);
      return;
    }
    case Copy::Kind::TileStore:
      std::copy_n(cta(a).tags.staging[a.number].begin(), copy.rows, to);
  }
}

void Simulation::write_tags(Agent& a, const Copy& copy, const RowTag* from) {
  if (copy.from_weights()) return;
  const KernelPlan& p = plan();
  const uint32_t hidden = launches_[laid_out_launch_].args.shape.hidden;
  RankState& owner = ranks_[address_rank(copy.global)];
  const uint64_t offset = address_offset(copy.global);
  switch (copy.kind) {
    case Copy::Kind::Load:
      if (a.role == Role::Dispatch) cta(a).tags.pull[a.number] = from[0];
      return;
    case Copy::Kind::Store:
      owner.tags.pool_x[offset / hidden] = from[0];
      if (offset % hidden == 0) ++counts_.rows_pulled;
      return;
    case Copy::Kind::TileLoad: {
      const uint32_t stage = (copy.shared - p.shared.stage_a) / p.stage_a_bytes();
      std::copy_n(from, copy.rows, cta(a).tags.stage[stage].begin());
      cta(a).tags.stage_source[stage] = copy.global;
      return;
    }
    case Copy::Kind::TileStore:
      if (static_cast<Region>(address_region(copy.global)) != Region::Linear1) return;
      std::copy_n(from, copy.rows, &owner.tags.linear1[offset / copy.global_pitch]);
  }
}

void Simulation::check_combine(Agent& a, const Copy& copy) {
  const Shape& shape = launches_[laid_out_launch_].args.shape;
  const CombineRow row = combine_row(shape, address_offset(copy.global));
  const std::vector<CombineTag>& tags = ranks_[a.rank].tags.combine;
  const uint64_t place = uint64_t{row.token} * shape.topk + row.k;
  // Rows of tokens that the rank has not got have no tag.
  const CombineTag found = place < tags.size() ? tags[place] : CombineTag{};
  ++counts_.invariants_checked;
  if (found.tag != row_tag(ranks_[a.rank].launch, a.rank, row.token) ||
      found.bytes != shape.hidden * 2)
    stop(FindingClass::Mismatch, a, copy.step,
         fmt::format("{} is combined before its whole row has arrived", place_name(copy.global)));
}

}  // namespace moetwin
