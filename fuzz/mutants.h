// Generated mutants: every synchronising operation of the role programs, changed in every way that
// makes sense for its kind, one at a time, and whether the checker notices. The operations stand in
// one table, which a test holds against what runs really do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cpu_sim/mutant.h"
#include "model/case.h"

namespace moetwin {

/// What a synchronising call is, which decides how it can be changed.
enum class CallKind : uint8_t {
  NamedBarrier,
  WarpgroupSync,  ///< sync() of an agent of four warps
  MbarrierInit,
  MbarrierArrive,
  MbarrierExpect,
  MbarrierWait,
  WordWait,
  Release,  ///< an addition that publishes
  Relaxed,  ///< an addition whose order does not matter
  Fence,
  BulkCommit,
  BulkWait,
  MmaWait,
  Reset,  ///< a store that makes a word ready for its next use
};

struct SyncSite {
  Step step;
  Role role;  ///< Role::Count: one role only makes the call
  CallKind kind;
};

std::span<const SyncSite> sync_sites();

struct GeneratedMutant {
  std::string id;         ///< operator, step, role: "drop TaskWait load_b"
  std::string operation;  ///< drop, count+1, ...
  SyncSite site;
  Mutant mutant;
};

/// All of them, in the order of the sites.
std::vector<GeneratedMutant> generate_mutants();

/// A run that a mutant is tried on.
struct MutantTrial {
  Case c;
  std::string schedule;
};

/// The trials, cheapest first. Together they reach every site.
std::vector<MutantTrial> mutant_trials();

struct MutantVerdict {
  bool killed = false;
  std::string how;  ///< class and step of the finding, or "y differs"
};

/// Tries a mutant until one trial has a finding or another y than the unchanged program
/// (`expected`, one digest a trial, from expected_digests()).
MutantVerdict try_mutant(const Mutant& mutant, const std::vector<MutantTrial>& trials,
                         const std::vector<std::string>& expected);
std::vector<std::string> expected_digests(const std::vector<MutantTrial>& trials);

/// Why a mutant that no trial kills changes nothing; null for one that should be killed. The table
/// of docs/faults.md.
const char* equivalent_because(const GeneratedMutant& mutant);

}  // namespace moetwin
