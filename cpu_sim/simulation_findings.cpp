// The findings that agents run into, in words.
#include <fmt/format.h>

#include "common/step.h"
#include "cpu_sim/simulation.h"

namespace moetwin {

void Simulation::report(FindingClass kind, const Agent& a, Step step, std::string text,
                        std::string other) {
  for (const Finding& f : findings_)
    if (f.kind == kind && f.step == step && f.rank == a.rank && f.sm == a.sm) return;
  if (findings_.size() >= kMaxFindings) return;
  findings_.push_back({kind, step, a.rank, a.sm, fmt::format("{} {}", role_name(a.role), a.number),
                       std::move(text), std::move(other), launch_of(a.rank)});
}

void Simulation::stop(FindingClass kind, const Agent& a, Step step, std::string text) {
  report(kind, a, step, std::move(text));
  throw StopRun{};
}

void Simulation::stop_endless(const Agent& a) {
  stop(FindingClass::Deadlock, a, Step::None,
       fmt::format("{} still runs after {} events of the run: it waits for nobody and never ends",
                   agent_name(a), probes_.max_events));
}

void Simulation::barrier_fault(const Agent& a, BarrierFault fault, Step step,
                               const std::string& barrier) {
  const auto words = [&]() -> const char* {
    switch (fault) {
      case BarrierFault::NotInitialised:
        return "is used before it is initialised";
      case BarrierFault::InitialisedTwice:
        return "is initialised while it is in use";
      case BarrierFault::ExtraArrival:
        return "gets more arrivals than its phase has";
      case BarrierFault::ByteRange:
        return "has a byte count outside +-(2^20 - 1)";
      case BarrierFault::ExtraBytes:
        return "got more bytes than were announced, so its phase can never end";
      case BarrierFault::Unobserved:
        return "ends a phase before anybody has waited for the one before it";
      case BarrierFault::Lapped:
        return "is one or more whole phases away from the one waited for";
      case BarrierFault::ThreadCount:
        return "is reached with a thread count that differs from the others' or is no multiple "
               "of 32";
      case BarrierFault::Twice:
        return "is reached twice by one agent in one round";
      case BarrierFault::None:
        break;
    }
    return "";
  }();
  stop(FindingClass::Barrier, a, step,
       fmt::format("{} {}: {} {}", agent_name(a), step_words(step), barrier, words));
}

void Simulation::undefined_read(const Agent& a, Step step, const std::string& place,
                                bool ever_written) {
  if (ever_written && !options_.check) return;
  report(FindingClass::Stale, a, step,
         fmt::format("{} {}: reads {}, which {}", agent_name(a), step_words(step), place,
                     ever_written ? "an earlier launch wrote" : "nobody has written"));
}

}  // namespace moetwin
