// From the simulation's agents to what the report of waits (model/wait_report.h) asks of a machine.
#include "cpu_sim/wait_report.h"

#include <fmt/format.h>

#include "cpu_sim/simulation.h"
#include "model/wait_report.h"

namespace moetwin {
namespace {

AgentState state_of(const Agent& a) {
  if (!a.started) return AgentState::NeverRan;
  if (a.finished) return AgentState::Left;
  if (a.wait.kind == Wait::Kind::Launch) return AgentState::NextLaunch;
  return a.wait.kind == Wait::Kind::Nothing ? AgentState::CouldRun : AgentState::Waits;
}

void describe_mbarrier(const Agent& a, const SimMbarrier& bar, WaitingAgent& w) {
  w.waits_for = WaitsFor::MbarrierPhase;
  w.object = a.wait.bar;
  w.awaited.value = a.wait.parity;
  w.arrived = bar.arrived;
  w.progress =
      fmt::format("{} of {} arrivals, {} bytes to come", bar.arrivals, bar.expected, bar.bytes);
  const uint64_t seen = a.phases_seen[a.wait.bar];
  if ((bar.phases & 1) == (a.wait.parity & 1) && seen != 0 && bar.phases + 1 > seen)
    w.progress += "; the phase it waits for is already over";
  w.likely = bar.arrivals != 0 || bar.bytes != 0;
}

void describe_named(const Agent& a, const SimNamedBarrier& bar, WaitingAgent& w) {
  w.waits_for = WaitsFor::NamedBarrier;
  w.object = a.wait.bar;
  w.arrived = bar.arrived;
  w.progress = fmt::format("{} of {} threads arrived", bar.arrived_threads, bar.threads);
  w.likely = true;
}

WaitingAgent describe(Simulation& sim, const Agent& a) {
  WaitingAgent w;
  w.state = state_of(a);
  w.launch = sim.launch_of(a.rank);
  if (w.state != AgentState::Waits) return w;
  w.step = a.wait.step;
  const Cta& cta = sim.cta(a);
  switch (a.wait.kind) {
    case Wait::Kind::Word:
      w.waits_for = WaitsFor::Word;
      w.awaited = a.wait.awaited;
      w.got = sim.word_value(a.wait.address);
      w.place = sim.place_name(a.wait.address);
      break;
    case Wait::Kind::Mbarrier:
      describe_mbarrier(a, cta.mbarriers[a.wait.bar], w);
      break;
    case Wait::Kind::NamedBarrier:
      describe_named(a, cta.named[a.wait.bar], w);
      break;
    default:
      w.waits_for = WaitsFor::BulkStores;
  }
  return w;
}

}  // namespace

std::vector<Finding> explain_deadlock(Simulation& sim) {
  const auto ranks = static_cast<uint32_t>(sim.ranks().size());
  std::vector<WaitingAgent> agents(size_t{ranks} * sim.plan().sms * kAgentsPerCta);
  for (const Agent& a : sim.agents())
    agents[size_t{a.cta} * kAgentsPerCta + a.in_cta] = describe(sim, a);
  std::vector<Finding> findings = explain_waits(sim.plan(), ranks, agents);
  for (Finding& finding : findings) finding.launch = sim.launch_of(finding.rank);
  return findings;
}

}  // namespace moetwin
