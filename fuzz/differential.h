// One case on two machines, judged: findings of either side, the first stage in which their results
// part, and a relation that needs no second machine. Which cases are tried, and what is done about
// a verdict, is decided elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/relations.h"
#include "fuzz/signals.h"
#include "model/case.h"
#include "model/run.h"

namespace moetwin {

/// A machine by name. `run` is for those that this folder does not know; the simulator ("sim") and
/// the naive path ("naive") leave it empty.
struct FuzzSide {
  std::string name;
  std::function<RunResult(const Case& c, const RunOptions& options)> run = {};
  bool simulated() const { return name == "sim"; }
};

/// What a finding is known by: two of the same cause are one.
struct Cause {
  std::string kind;  ///< a finding's class, "refused" or "internal"
  std::string site;  ///< the step; of a mismatch the stage, of a relation its name
  std::string role;  ///< without a number, or the side; empty: none

  bool none() const { return kind.empty(); }
  friend auto operator<=>(const Cause&, const Cause&) = default;
};

/// "race at Linear1Store, math"
std::string cause_text(const Cause& cause);

struct JudgeOptions {
  FuzzSide left{"sim"};
  FuzzSide right{"naive"};
  bool math = true;                  ///< false: only the simulator runs, and its counts are judged
  bool check = false;                ///< the checker on simulated sides
  bool unsafe_ring = false;          ///< accept a ring below the smallest safe one
  std::optional<Relation> relation;  ///< to hold the simulator to as well
  uint64_t relation_seed = 0;
  bool record = false;             ///< keep the simulator's schedule as a list of choices
  WeightMaker weights;             ///< empty: made anew
  SimulationPool* pool = nullptr;  ///< of this thread; null: none
};

struct Judged {
  Cause cause;                  ///< of the first finding; none where the case is fine
  Finding finding;              ///< the same in words
  std::vector<Finding> later;   ///< what else that simulated side found
  uint64_t rows = 0;            ///< routed, of all launches
  Signals signals;              ///< of the simulated sides
  std::string schedule_string;  ///< repeats the simulator's run, where `record`
  bool related = false;         ///< the relation applied and was checked
};

/// Runs and compares. Nothing a case does ends in an exception: a refusal is a cause, and so is a
/// broken invariant (only NoDeviceError and the like of a side of one's own pass). Thread safe.
Judged judge_case(const Case& c, const JudgeOptions& options);

/// Whether `text`, as of a finding's other access, says that something happens "at STEP".
bool names_step(const std::string& text, const std::string& step);

/// Whether `judged` has a finding of the class and the site of `wanted`, which is then its cause
/// and finding, the first or not. Of two accesses that nothing orders, which of them comes second
/// and is the site is up to the schedule: the same two the other way round are the same finding.
bool keep_verdict(const Judged& wanted, Judged& judged);

/// Most events of a run that is judged: what goes on behind them is a finding.
constexpr uint64_t kMaxFuzzEvents = 20'000'000;

}  // namespace moetwin
