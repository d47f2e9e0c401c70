// Planted faults of synchronisation, of deadlocks and of rings and tables, for fuzz/plants.h. The
// step that a verdict names follows from the protocol (docs/protocol.md): where two accesses lose
// their order, both are named, because the schedule decides which of them comes second.
#include "fuzz/plant_makers.h"

namespace moetwin {
namespace {

using namespace plant_cases;
using Class = FindingClass;
using Kind = MutantKind;

constexpr Mutant leaves(uint32_t rank) {
  Mutant mutant = change(Kind::Leave, Step::CountTogether, 0, 0, UINT32_MAX, Role::Dispatch);
  mutant.rank = rank;
  return mutant;
}

uint64_t& offset_of(KernelArgs& args, Region region) {
  return args.layout.offsets[static_cast<uint32_t>(region)];
}
uint64_t& bytes_of(KernelArgs& args, Region region) {
  return args.layout.bytes[static_cast<uint32_t>(region)];
}
void half_a_slot_table(Problem&, KernelArgs& args) { bytes_of(args, Region::SlotTable) /= 2; }
void slots_for_half_the_tokens(Problem&, KernelArgs& args) { args.shape.max_tokens_per_rank /= 2; }
void slots_for_distinct_experts(Problem&, KernelArgs& args) {
  bytes_of(args, Region::SlotTable) /= args.shape.topk;
}
void barrier_inside_message(Problem&, KernelArgs& args) {
  offset_of(args, Region::RankBarrierSignal) = offset_of(args, Region::RecvCount);
}
void size_forgotten(Problem&, KernelArgs& args) {
  offset_of(args, Region::XEmpty) = offset_of(args, Region::XFull);
}
void totals_in_32_bits(Problem&, KernelArgs& args) {
  for (uint64_t& bytes : args.layout.bytes) bytes = static_cast<uint32_t>(bytes);
}
void one_linear1_tile_less(Problem&, KernelArgs& args) { --args.plan.tiles.n1; }
void one_linear2_tile_less(Problem&, KernelArgs& args) { --args.plan.tiles.n2; }
void one_linear2_tile_more(Problem&, KernelArgs& args) { ++args.plan.tiles.n2; }

const Plant kPlants[] = {
    pair("F01", "a combine stage is refilled while lanes still read it", kThreeSlots, Class::Race,
         Step::CombineLoad, Step::CombineSum, drop(Step::CombineTogether)),
    pair("F02a", "a tile of many threads is published without a proxy fence", kOneBlock,
         Class::Proxy, Step::Linear1Store, Step::Linear1Epilogue, drop(Step::Linear1Fence)),
    pair("F02b", "the fence in front of a tile store is executed by one lane", kOneBlock,
         Class::Proxy, Step::Linear1Store, Step::Linear1Epilogue,
         change(Kind::LeaderOnly, Step::Linear1Fence)),
    pair("F02c", "every thread fences, but nobody waits for the others", kOneBlock, Class::Race,
         Step::Linear1Store, Step::Linear1Epilogue, drop(Step::Linear1Together)),
    pair("F02d", "pulled scale factors are published without a proxy fence", kOneBlock,
         Class::Proxy, Step::LoadAScales, Step::PullScales, drop(Step::PullFence)),
    pair("F03", "a stage is released before the tensor core has read it", kOneStage, Class::Race,
         Step::LoadATile, Step::MathMma, change(Kind::Swap, Step::MathMmaWait, 2)),
    pair("F04", "a consumer arrives first and fences then", kOneStage, Class::Proxy,
         Step::LoadAScales, Step::MathReadScales, change(Kind::Swap, Step::MathFence, 2)),
    finding("F05a", "the grid barrier's target is read after the own arrival", kTwoRanks,
            Class::Deadlock, Step::GridWait, change(Kind::LateTarget, Step::GridWait)),
    finding("F05b", "the rank barrier's phase does not advance", kTwoRanks, Class::Deadlock,
            Step::RankWait, drop(Step::RankAdvance)),
    finding("F05c", "the rank barrier's sign is not flipped", kTwoRanks, Class::Deadlock,
            Step::RankWait, change(Kind::Count, Step::RankSignal, 2, 2)),
    // Load A alone waits for the freed entries; without it their second phase ends unobserved.
    finding("F06a", "a queue entry is overwritten while its readers still need it", kLaps,
            Class::Barrier, Step::TaskRelease, drop(Step::TaskWaitsForEntry)),
    pair("F06b", "a pull buffer is refilled while its store still reads it", kTwoChunks,
         Class::Race, Step::PullLoad, Step::PullStore, drop(Step::PullBufferFree)),
    // The stage's one phase of two arrivals gets a third: load A announces without end.
    finding("F06c", "a stage is refilled without waiting for its readers", kOneStage,
            Class::Barrier, Step::LoadAExpect, drop(Step::LoadAWaitsForStage)),
    finding("F07a", "a named barrier is reached with a wrong count", kTwoRanks, Class::Barrier,
            Step::PoolTableReady, change(Kind::Count, Step::PoolTableReady, 32, 0, 0, Role::LoadB)),
    finding("F07b", "a named barrier is reached by one role's branch only", kTwoRanks,
            Class::Deadlock, Step::PoolTableReady,
            change(Kind::Drop, Step::PoolTableReady, 0, 0, UINT32_MAX, Role::LoadB)),
    finding("F10", "the pull stops at the mean load", kHotRank, Class::Deadlock,
            Step::LoadAWaitsForRows,
            change(Kind::PoolEnd, Step::PoolTableReady, 128, 0, UINT32_MAX, Role::Dispatch)),
    finding("F11a", "a rank without tokens never launches", kEmptyRankNeverStarts, Class::Residency,
            Step::RankWait, {}),
    finding("F11b", "the dispatch warps of a rank without tokens leave early", kEmptyRank,
            Class::Deadlock, Step::RankWait, leaves(1)),
    finding("F12", "a CTA of the grid barrier can never become resident", kHeldSm, Class::Residency,
            Step::GridWait, {}),
    finding("F14", "the producer skips a tile that the consumer takes", kLaps, Class::Deadlock,
            Step::MathWaitsForStage, drop(Step::LoadBExpect, 0, 0)),
    altered("F20a", "a slot table for half the tokens, without a bound", kHotExpert, Class::Bounds,
            Step::WriteIndex, half_a_slot_table),
    altered("F20b", "the write into a full slot table is refused before it happens", kHotExpert,
            Class::Overflow, Step::WriteIndex, slots_for_half_the_tokens),
    {.id = "F21a",
     .what = "a ring one block short of the smallest safe one",
     .text = kShortRing,
     .expected = Class::Deadlock,
     .step = Step::DispatchWaitsForMath,
     .unsafe_ring = true},
    pair("F21b", "a ring slot's rows are overwritten before they have been read", kLaps,
         Class::Race, Step::PullStore, Step::LoadATile, drop(Step::PullWaitsForRingSlot)),
    pair("F21c", "a ring slot's Linear1 rows are overwritten before they have been read",
         kLapsTwoSms, Class::Race, Step::Linear1Store, Step::LoadATile,
         drop(Step::Linear1WaitsForRingSlot)),
    pair("F22a", "the wait for a block's rows forgets the lap", kLaps, Class::Race, Step::PullStore,
         Step::LoadATile, change(Kind::Target, Step::LoadAWaitsForRows, -64)),
    // An expert's last row does not stand for the padding of its block.
    finding("F22b", "the last, partial block never fills", kLaps, Class::Deadlock,
            Step::LoadAWaitsForRows, change(Kind::AddOne, Step::PullPublishRow)),
    pair("F22c", "a row counts twice, so a block is full too early", kLaps, Class::Race,
         Step::PullStore, Step::LoadATile, change(Kind::Count, Step::PullPublishRow, 1)),
    // The pull waits for Linear1 to have read the ring row's codes, not for its epilogue.
    pair("F23", "metadata is indexed by the ring row", kLaps, Class::Race, Step::PullMetadata,
         Step::MathReadRows, change(Kind::RingRow, Step::PullMetadata)),
    finding("F24a", "an expert that a token names twice is sent one row", kDuplicates,
            Class::Mismatch, Step::CombineLoad, change(Kind::Deduplicate, Step::CountRoutes)),
    altered("F24b", "a slot table sized for distinct experts", kDuplicates, Class::Bounds,
            Step::WriteIndex, slots_for_distinct_experts),
    finding("F25a", "masked slots are counted", kMasked, Class::Stale, Step::PullFindSource,
            change(Kind::Unmask, Step::CountRoutes)),
    // They take the places of routed slots, whose rows then never come.
    finding("F25b", "masked slots are written", kMasked, Class::Mismatch, Step::CombineLoad,
            change(Kind::Unmask, Step::WriteIndex)),
    finding("F25c", "masked slots are combined", kMasked, Class::Mismatch, Step::CombineLoad,
            change(Kind::Unmask, Step::CombineReadRoutes)),
    finding("F26", "more rows are counted than written", kTwoRanks, Class::Stale,
            Step::PullFindSource, change(Kind::Count, Step::ClaimSlots, 1)),
    finding("F40", "a row's place is computed in 32 bits", kFarRows, Class::Mismatch,
            Step::CombineLoad, change(Kind::Narrow, Step::CombineLoad)),
    altered("F41", "the bytes of a region are counted in 32 bits", kFarRows, Class::Bounds,
            Step::Linear2Scatter, totals_in_32_bits, true),
    altered("F42a", "a barrier word lies inside the message it guards", kTwoRanks, Class::Deadlock,
            Step::RankWait, barrier_inside_message),
    // Tiles that have been read count as rows that have come.
    {.id = "F42b",
     .what = "a region's size is forgotten in the sum of offsets",
     .text = kLaps,
     .expected = Class::Race,
     .step = Step::PullStore,
     .other = Step::LoadATile,
     .alter = size_forgotten},
    altered("F43a", "one Linear1 tile of a block is never scheduled", kOneBlock, Class::Stale,
            Step::MathMmaWait, one_linear1_tile_less, true),
    altered("F43b", "one Linear2 tile of a block is never scheduled", kOneBlock, Class::Mismatch,
            Step::CombineLoad, one_linear2_tile_less),
    altered("F43c", "one Linear2 tile too many is scheduled", kOneBlock, Class::Bounds,
            Step::MathReadScales, one_linear2_tile_more),
    finding("F43d", "the experts of a last wave that is not full are left out", kUnevenWaves,
            Class::Mismatch, Step::CombineLoad,
            change(Kind::PoolEnd, Step::PoolTableReady, 128, 0, UINT32_MAX, Role::LoadA)),
    finding("F44", "a warp's lanes take one token more than they can hold", kSixSlots,
            Class::Mismatch, Step::CombineLoad, wrong(LayerFault::LaneMapRoundedUp)),
};

}  // namespace

std::span<const Plant> synchronisation_plants() { return kPlants; }

}  // namespace moetwin
