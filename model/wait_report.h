// A hang in words, the same for every machine: who waits at which step for what, wanted and got,
// who could have ended the wait and why that one has not. Machines fill in what they know of each
// agent; the sentences, their order and who provides what are decided here (and in
// common/wait_table.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/machine.h"
#include "common/wait_table.h"
#include "model/run.h"

namespace moetwin {

enum class AgentState : uint8_t {
  Left,        ///< has left the kernel
  Absent,      ///< its whole rank is not there; `remark` says why
  NeverRan,    ///< its SM is not resident
  NextLaunch,  ///< is done and waits for the next launch
  CouldRun,
  Waits,
};

/// What an agent waits for.
enum class WaitsFor : uint8_t {
  MbarrierPhase,
  NamedBarrier,
  Word,
  BulkStores,
  TableBound,  ///< no wait: an index past its table stopped the agent
};

/// One agent as its machine left it. Fields past `state` say nothing but where it is Waits.
struct WaitingAgent {
  AgentState state = AgentState::Left;
  std::optional<uint32_t> launch = {};  ///< of its rank; told where ranks are in different ones
  Step step = Step::None;
  WaitsFor waits_for = WaitsFor::Word;
  uint32_t object = 0;    ///< place of the mbarrier, NamedBarrier, or expert of the table
  Awaited awaited{};      ///< of a word; of an mbarrier `value` is the parity, of a table its size
  uint32_t got = 0;       ///< of a word; of a table the index
  std::string place;      ///< a word's name
  AgentMask arrived = 0;  ///< at the barrier, as far as the machine can tell
  std::string progress;   ///< of the barrier's phase, where the machine can tell
  bool likely = false;    ///< among waits that nobody has left, tell this one earlier
  std::string remark;     ///< put behind its sentence; of an absent rank: why
};

/// "mbarrier full[2]": the mbarrier at a place of the CTA's array.
std::string mbarrier_name(const KernelPlan& plan, uint32_t bar);

/// "rank 0 SM 1 math 0".
std::string agent_name(uint32_t rank, uint32_t sm, Role role, uint32_t number);

/// At most six findings, one a (rank, step) that agents wait at: an index past its table first
/// (class overflow), then waits on an SM that is not resident (residency), then (deadlock) waits
/// that somebody who has left cannot end any more, then likely ones. `agents` are
/// [ranks * sms][kAgentsPerCta].
std::vector<Finding> explain_waits(const KernelPlan& plan, uint32_t ranks,
                                   const std::vector<WaitingAgent>& agents);

}  // namespace moetwin
