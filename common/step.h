// The steps of the protocol: every synchronising call of a role program carries one, so that
// reports, coverage, mutants and traces speak of "pull waits for a ring slot", not of an address.
// Free on the GPU. One list: enumerator and words stand side by side.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace moetwin {

// X(enumerator, "what the agent does, as the end of the sentence: dispatch warp 0 ...")
#define MOETWIN_STEPS(X)                                                                   \
  X(None, "is between steps")                                                              \
  X(InitBarriers, "initialises the CTA's mbarriers")                                       \
  X(StartTogether, "waits for the CTA's mbarriers to be initialised")                      \
  X(RegisterBudget, "changes its register budget")                                         \
  X(CountClear, "clears the CTA's expert counters")                                        \
  X(CountRoutes, "counts its tokens' experts")                                             \
  X(CountTogether, "waits for the other dispatch warps at the count")                      \
  X(ClaimSlots, "claims slot ranges on the experts")                                       \
  X(ClaimTogether, "waits for the other dispatch warps at the claim")                      \
  X(WriteIndex, "writes token indices into the slot tables of the experts' ranks")         \
  X(GridArrive, "arrives at the grid barrier")                                             \
  X(GridWait, "waits for the grid barrier")                                                \
  X(GridTogether, "waits for the other dispatch warps around the grid barrier")            \
  X(BroadcastCounts, "sends its counts to the experts' ranks")                             \
  X(RankTogether, "waits for the other dispatch warps before the rank barrier")            \
  X(RankPhase, "reads the phase of the rank barrier")                                      \
  X(RankSignal, "signals every rank at the rank barrier")                                  \
  X(RankWait, "waits for every rank at the rank barrier")                                  \
  X(RankAdvance, "advances the phase of the rank barrier")                                 \
  X(PoolTableBuild, "builds the pool table of the CTA")                                    \
  X(PoolTableReady, "waits for the pool table of the CTA")                                 \
  X(PullFindSource, "looks up the source of a pool row")                                   \
  X(PullWaitsForRingSlot, "waits until the ring slot's earlier block has been read")       \
  X(PullLoad, "pulls a token's codes from its rank into shared memory")                    \
  X(PullWaitsForChunk, "waits for a pulled chunk to land")                                 \
  X(PullStore, "stores a pulled chunk into the pool ring")                                 \
  X(PullCommit, "commits its pool store")                                                  \
  X(PullBufferFree, "waits until its pull buffer has been read")                           \
  X(PullStored, "waits until its pool row is written")                                     \
  X(PullScales, "copies a token's scale factors into the pool ring")                       \
  X(PullMetadata, "writes a pool row's TokenSrcMetadata")                                  \
  X(PullFence, "fences its generic writes for the async proxy")                            \
  X(PullTogether, "waits for its own lanes before it publishes a row")                     \
  X(PullPublishRow, "publishes a pool row")                                                \
  X(TaskClaim, "claims the next tile")                                                     \
  X(TaskWaitsForEntry, "waits for a free entry of the task queue")                         \
  X(TaskPublish, "publishes a tile to the CTA")                                            \
  X(TaskWait, "waits for the CTA's next tile")                                             \
  X(TaskRelease, "frees an entry of the task queue")                                       \
  X(LoadAWaitsForRows, "waits for all rows of a pool block")                               \
  X(LoadAWaitsForLinear1, "waits for all Linear1 tiles of a pool block")                   \
  X(LoadAWaitsForStage, "waits for a free stage for operand A")                            \
  X(LoadAExpect, "announces the bytes of operand A and its scales")                        \
  X(LoadATile, "loads a tile of operand A")                                                \
  X(LoadAScales, "loads the scale factors of operand A")                                   \
  X(LoadBWaitsForStage, "waits for a free stage for operand B")                            \
  X(LoadBExpect, "announces the bytes of operand B")                                       \
  X(LoadBTile, "loads a tile of operand B (weights)")                                      \
  X(MathWaitsForStage, "waits for a full stage")                                           \
  X(MathReadScales, "reads scale factors")                                                 \
  X(MathReadRows, "reads where the rows of its tile come from")                            \
  X(MathMma, "runs its tile multiply-accumulate")                                          \
  X(MathMmaWait, "waits for its tile multiply-accumulate")                                 \
  X(MathFence, "fences its reads of a stage for the async proxy")                          \
  X(MathReleaseStage, "frees a stage")                                                     \
  X(MathReleaseBlock, "reports a pool block's ring slot as read")                          \
  X(Linear1WaitsForRingSlot, "waits until Linear2 has read the ring slot's earlier block") \
  X(Linear1StagingFree, "waits for its own warps before it overwrites its staging tile")   \
  X(Linear1Epilogue, "runs the Linear1 epilogue")                                          \
  X(Linear1StoreScales, "stores the scale factors of a Linear1 tile")                      \
  X(Linear1Fence, "fences its Linear1 tile for the async proxy")                           \
  X(Linear1Together, "waits for its own warps before it stores a Linear1 tile")            \
  X(Linear1Store, "stores a Linear1 tile into the ring")                                   \
  X(Linear1Stored, "waits until its Linear1 tile is written")                              \
  X(Linear1Publish, "publishes a Linear1 tile")                                            \
  X(Linear2StagingFree, "waits for its own warps before it stages its first rows")         \
  X(Linear2Epilogue, "rounds a Linear2 tile to BF16")                                      \
  X(Linear2Scatter, "scatters BF16 rows to the tokens' ranks")                             \
  X(MathFenceAll, "fences its scattered rows for the async proxy")                         \
  X(MathDone, "reports that the CTA's math is done")                                       \
  X(DispatchWaitsForMath, "waits until the CTA's math is done")                            \
  X(CombineRelease, "lets the combine start")                                              \
  X(CombineWait, "waits until every rank's rows have arrived")                             \
  X(CombineReadRoutes, "reads which slots of a token are routed")                          \
  X(CombineLoad, "loads a row to combine")                                                 \
  X(CombineWaitsForRow, "waits for a row to combine")                                      \
  X(CombineSum, "adds a row in slot order")                                                \
  X(CombineFence, "fences its reads of a combine stage for the async proxy")               \
  X(CombineTogether, "waits for its own warps before it reuses a combine stage")           \
  X(CombineWriteY, "writes y")                                                             \
  X(CleanupClear, "clears a word for the next launch")

enum class Step : uint8_t {
#define MOETWIN_STEP_ENUMERATOR(name, words) name,
  MOETWIN_STEPS(MOETWIN_STEP_ENUMERATOR)
#undef MOETWIN_STEP_ENUMERATOR
      Count,
};

constexpr uint32_t kNumSteps = static_cast<uint32_t>(Step::Count);

#if !defined(__CUDA_ARCH__)
/// The enumerator's name, as case files, mutants and coverage print it.
constexpr const char* step_name(Step step) {
  constexpr const char* kNames[] = {
#define MOETWIN_STEP_NAME(name, words) #name,
      MOETWIN_STEPS(MOETWIN_STEP_NAME)
#undef MOETWIN_STEP_NAME
  };
  return kNames[static_cast<uint32_t>(step)];
}

/// What the agent does there, as the end of a sentence that begins with the agent.
constexpr const char* step_words(Step step) {
  constexpr const char* kWords[] = {
#define MOETWIN_STEP_WORDS(name, words) words,
      MOETWIN_STEPS(MOETWIN_STEP_WORDS)
#undef MOETWIN_STEP_WORDS
  };
  return kWords[static_cast<uint32_t>(step)];
}
#endif

}  // namespace moetwin
