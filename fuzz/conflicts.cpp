#include "fuzz/conflicts.h"

namespace moetwin {
namespace {

bool adds(SyncOp op) { return op == SyncOp::Add || op == SyncOp::Fetch; }
bool waits(SyncOp op) {
  return op == SyncOp::WaitAtLeast || op == SyncOp::WaitFlip || op == SyncOp::WaitEqual ||
         op == SyncOp::WaitPhase || op == SyncOp::WaitRound || op == SyncOp::WaitCopies;
}

/// Whether a wait would have ended at a word's value.
bool ends_at(const Operation& wait, uint64_t value) {
  const auto word = static_cast<uint32_t>(value);
  const auto wanted = static_cast<uint32_t>(wait.number);
  if (wait.op == SyncOp::WaitAtLeast) return static_cast<int32_t>(word - wanted) >= 0;
  if (wait.op == SyncOp::WaitFlip) return ((word ^ wanted) & 0x80000000u) != 0;
  return word == wanted;
}

Conflict add_then_wait(const Operation& add, const Operation& wait) {
  if (!ends_at(wait, add.before)) return Conflict::Ordered;
  return wait.op == SyncOp::WaitEqual ? Conflict::Race : Conflict::None;
}

Conflict phases(const Operation& earlier, const Operation& later) {
  if (earlier.op == SyncOp::Arrive && later.op == SyncOp::Arrive)
    return earlier.number == later.number ? Conflict::None : Conflict::Race;
  if (earlier.op == SyncOp::Arrive && earlier.number <= later.number) return Conflict::Ordered;
  if (earlier.op == SyncOp::WaitRound || later.op == SyncOp::WaitRound) return Conflict::None;
  if (earlier.op == SyncOp::Arrive) return Conflict::Race;
  // A wait that has ended minds only a whole further phase.
  return later.number > earlier.number && later.completes ? Conflict::Race : Conflict::None;
}

Conflict copies(const Operation& earlier, const Operation& later) {
  const bool lands = earlier.op == SyncOp::Issue && later.op == SyncOp::Land;
  const bool awaited = earlier.op == SyncOp::Land && later.op == SyncOp::WaitCopies;
  return lands || awaited ? Conflict::Ordered : Conflict::None;
}

}  // namespace

Conflict conflict_of(const Operation& earlier, const Operation& later) {
  const bool both_wait = waits(earlier.op) && waits(later.op);
  if (both_wait) return Conflict::None;
  if (earlier.op == SyncOp::Issue || earlier.op == SyncOp::Land || later.op == SyncOp::Land ||
      later.op == SyncOp::Issue)
    return copies(earlier, later);
  if (earlier.op == SyncOp::Write || later.op == SyncOp::Write) return Conflict::Race;
  if (earlier.op == SyncOp::Arrive || later.op == SyncOp::Arrive) return phases(earlier, later);
  if (adds(earlier.op) && waits(later.op)) return add_then_wait(earlier, later);
  if (waits(earlier.op) && adds(later.op))
    return earlier.op == SyncOp::WaitEqual ? Conflict::Race : Conflict::None;
  if (waits(earlier.op) || waits(later.op)) return Conflict::None;  // a wait and a read
  const bool commute = (earlier.op == SyncOp::Read && later.op == SyncOp::Read) ||
                       (earlier.op == SyncOp::Add && later.op == SyncOp::Add);
  return commute ? Conflict::None : Conflict::Race;
}

}  // namespace moetwin
