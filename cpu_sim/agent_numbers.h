// How agents are numbered: CTA by CTA, the roles of a CTA in the order of its warps. Landings of an
// agent's copies have a number of their own behind all agents.
#pragma once

#include <cstdint>

#include "common/kernel_plan.h"

namespace moetwin {

constexpr uint32_t agents_per_cta(const KernelPlan& plan) {
  return kWarpgroupWarps + plan.math_warpgroups;
}

/// An agent by what it is.
struct AgentPlace {
  uint32_t rank = 0;
  uint32_t sm = 0;
  Role role = Role::Dispatch;
  uint32_t number = 0;  ///< within its role
  bool landing = false;
};

constexpr AgentPlace agent_place(const KernelPlan& plan, uint32_t ranks, uint32_t id) {
  const uint32_t in_all = ranks * plan.sms * agents_per_cta(plan);
  AgentPlace place;
  place.landing = id >= in_all;
  id %= in_all;
  const uint32_t cta = id / agents_per_cta(plan);
  const uint32_t in_cta = id % agents_per_cta(plan);
  place.rank = cta / plan.sms;
  place.sm = cta % plan.sms;
  if (in_cta < kDispatchWarps) {
    place.number = in_cta;
  } else if (in_cta < kWarpgroupWarps) {
    place.role = in_cta == kDispatchWarps ? Role::LoadA : Role::LoadB;
  } else {
    place.role = Role::Math;
    place.number = in_cta - kWarpgroupWarps;
  }
  return place;
}

}  // namespace moetwin
