// The front door of every backend: what a run may be asked for and what it gives back. The
// simulator, the naive path and the GPU are started with a case and these options and answer with
// the same result, so that they can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/step.h"
#include "model/problem.h"

namespace moetwin {

struct RunOptions {
  uint32_t threads = 0;      ///< worker threads for tile arithmetic; 0: all cores
  std::string schedule;      ///< overrides the case's own when not empty
  bool check = false;        ///< race, proxy, scope, stale and barrier-rule checks too
  bool math = true;          ///< false: payload tags in place of tile arithmetic (--no-math)
  bool unsafe_ring = false;  ///< accept a ring below the smallest safe one
  bool full_k_loop = false;  ///< --k-loop full
  bool record = false;       ///< schedule_string lists every choice, whatever the policy was
  std::string trace_path;    ///< empty: no timeline
  WeightMaker weights;       ///< empty: every run makes its own
};

/// What kind of mistake a finding is; the names are those of the JSON output.
enum class FindingClass : uint8_t {
  Mismatch,
  Race,
  Proxy,
  Scope,
  Barrier,
  Deadlock,
  Bounds,
  Stale,
  Overflow,
  Ring,
  Residency,
  Slow,  ///< a note: does not make a run fail
  Count,
};

constexpr const char* finding_class_name(FindingClass c) {
  constexpr const char* kNames[] = {"mismatch", "race",     "proxy",     "scope",
                                    "barrier",  "deadlock", "bounds",    "stale",
                                    "overflow", "ring",     "residency", "slow"};
  return kNames[static_cast<uint32_t>(c)];
}

/// One verdict. `text` says in the protocol's words what happened at `step`; `other` is the second
/// site of a race or the agent that should have acted, empty if there is none.
struct Finding {
  FindingClass kind = FindingClass::Mismatch;
  Step step = Step::None;
  uint32_t rank = 0;
  uint32_t sm = 0;
  std::string role;  ///< as in role_name(), with the agent's number: "dispatch 1"
  std::string text;
  std::string other;
  std::optional<uint32_t> launch = {};  ///< from 0; none: the case has one, or it is not known
};

/// What a run without tile arithmetic counts.
struct ProtocolCounts {
  uint64_t events = 0;  ///< control events: memory operations, barriers, copies
  uint64_t rows_pulled = 0;
  uint64_t tiles = 0;
  uint64_t rows_combined = 0;       ///< tokens summed, over all chunks once
  uint64_t invariants_checked = 0;  ///< payload tags compared with what they should be
  uint64_t peak_bytes = 0;          ///< simulated memory that was touched
};

struct RunResult {
  std::vector<LayerResult> launches;  ///< one a launch; empty if the run ended in a deadlock
  std::vector<Finding> findings;
  std::string schedule_digest;  ///< 32 hex digits; simulator only
  std::string schedule_string;  ///< given to --schedule it repeats the run; simulator only
  /// By the clock of the timed schedule, from the end of the launch before on, of the launches that
  /// ended; no other schedule has any.
  std::vector<uint64_t> launch_nanoseconds;
  std::string state_digest;  ///< y, stages and must-be-zero words of every rank; simulator only
  ProtocolCounts counts;
  uint64_t lost_trace_events = 0;  ///< of a card's timeline: agents' logs were full
  double seconds = 0;
  uint32_t threads = 1;

  /// Whether the run counts as failed: any finding but slow.
  bool failed() const {
    for (const Finding& f : findings)
      if (f.kind != FindingClass::Slow) return true;
    return false;
  }
};

}  // namespace moetwin
