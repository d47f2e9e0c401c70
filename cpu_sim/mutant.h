// One change to one synchronising call of the role programs, applied by the simulated machine while
// the programs themselves stay as they are. What the checker must catch.
#pragma once

#include <cstdint>

#include "common/machine.h"

namespace moetwin {

enum class MutantKind : uint8_t {
  None,
  Drop,        ///< the call does nothing
  Bytes,       ///< `delta` more bytes announced
  Count,       ///< `delta` more arrivals, threads or units added
  Target,      ///< a wait wants `delta` more
  Parity,      ///< a wait uses the other parity
  LeaderOnly,  ///< a fence is executed by the agent's first lane instead of all
  Order,       ///< a release or acquire is relaxed
  Scope,       ///< the scope of a release or acquire is one narrower: sys, gpu, cta
  Swap,        ///< the call is made behind its next neighbour: a fence behind the arrive that
               ///< follows it. `delta`: behind that many (0: 1)
  LateTarget,  ///< a wait compares with the word as it is when the wait begins
  KeepWords,   ///< a buffer that is laid out anew is not cleared
  AddOne,      ///< an addition of several units adds one
  // From here on values are changed, which planted_machine.h does.
  Unmask,       ///< a masked slot is read as expert 0
  Deduplicate,  ///< dispatch reads an expert that its token has named before as a masked slot
  PoolEnd,      ///< the pool table is read as if the pool ended at row `delta`
  Rows,         ///< a tile is taken with `delta` more rows
  Narrow,       ///< a copy's offset into its region is cut to 32 bits
  ByExpert,     ///< rows are combined in the order of their experts
  RingRow,      ///< metadata is indexed by the ring row where it is written and where rows scatter
  ClearEarly,   ///< region number `delta` is cleared before a named barrier instead of behind it
  Leave,        ///< the agent leaves the kernel at a named barrier
  Rule,         ///< layer fault number `delta` (planted_rules.h)
};

/// Thrown through a role program by MutantKind::Leave.
struct LeaveKernel {};

/// One scope narrower, as MutantKind::Scope makes it. The machine has no clusters yet.
constexpr Scope narrower(Scope scope) { return scope == Scope::Sys ? Scope::Gpu : Scope::Cta; }

/// Every dynamic call at `step` (from the `first`-th on each agent, `last` included) is changed.
struct Mutant {
  MutantKind kind = MutantKind::None;
  Step step = Step::None;
  int64_t delta = 0;
  uint32_t first = 0;
  uint32_t last = UINT32_MAX;
  Role role = Role::Count;        ///< only agents of this role; Count: all
  uint32_t rank = UINT32_MAX;     ///< only agents of this rank; UINT32_MAX: all
  Region region = Region::Count;  ///< dropped stores: only those to this region; Count: all
};

}  // namespace moetwin
