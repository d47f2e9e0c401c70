#include "fuzz/equivalent_mutants.h"

namespace moetwin {
namespace {

constexpr const char* kBarrierNext =
    "the next call is a named barrier too, and no mbarrier is used between the two";
constexpr const char* kOneWaitLater =
    "the entry was copied before, so it is only freed one wait later";
constexpr const char* kStageWaitNext =
    "the next call waits for a stage; the load comes behind both";
constexpr const char* kMeetingNext =
    "only the meeting of the CTA's dispatch warps comes in between; the arrival at the grid "
    "barrier, which lets others go on, still stands behind the wait";

constexpr EquivalentMutant kEquivalent[] = {
    {"swap StartTogether dispatch", kBarrierNext},
    {"swap StartTogether load_a", kBarrierNext},
    {"swap StartTogether load_b", kBarrierNext},
    {"swap StartTogether math", kBarrierNext},
    {"swap RankWait", kMeetingNext},
    {"swap PullWaitsForRingSlot",
     "the next call announces bytes of the warp's own buffer; the ring slot is written later"},
    {"swap PullBufferFree",
     "the next call announces bytes or fences; the load that overwrites the buffer comes behind"},
    {"swap PullFence", "the next call waits for the warp's own stores and publishes nothing"},
    {"swap PullStored", "the row is published behind both calls"},
    {"swap TaskRelease load_b", kOneWaitLater},
    {"swap TaskRelease math", kOneWaitLater},
    {"swap LoadAWaitsForRows", kStageWaitNext},
    {"swap LoadAWaitsForLinear1", kStageWaitNext},
    {"swap MathFence", "the next call waits for the tensor core; the stage is freed behind both"},
    {"swap MathReleaseStage", "the stage is freed one call later, and nothing is read in between"},
    {"swap DispatchWaitsForMath", kMeetingNext},
    {"swap CombineWait",
     "the next call announces bytes of the warpgroup's own stage; the load of rows comes behind"},
    {"swap CombineTogether",
     "the next call announces bytes; the load that overwrites the stage comes behind both"},
};

}  // namespace

std::span<const EquivalentMutant> equivalent_mutants() { return kEquivalent; }

}  // namespace moetwin
