// The list of planted faults, for fuzz/plants.h. How they are run and judged is plants.cpp.
#include <algorithm>

#include "fuzz/plants.h"

namespace moetwin {
namespace {

// Cases, each the smallest that shows its plants.

/// Six tokens of three slots, wide enough for four warps: later rows reuse the first ones' stages.
constexpr const char* kThreeSlots =
    R"({"shape":{"ranks":1,"experts":4,"topk":3,"hidden":1024,"intermediate":128,
        "max_tokens_per_rank":6},"kernel":{"sms_per_rank":1}})";
/// One block of rows and two blocks of K.
constexpr const char* kOneBlock =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":256,
        "max_tokens_per_rank":64},"kernel":{"sms_per_rank":1}})";
/// As above, with a stage that is used again at once.
constexpr const char* kOneStage =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":256,
        "max_tokens_per_rank":64},"kernel":{"sms_per_rank":1,"stages":1}})";
/// Several laps of a ring, the last block not full.
constexpr const char* kLaps =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":300},"kernel":{"sms_per_rank":1,"stages":2}})";
/// Rows of more than one pull chunk.
constexpr const char* kTwoChunks =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":8192,"intermediate":128,
        "max_tokens_per_rank":2},"kernel":{"sms_per_rank":1}})";
/// Several laps shared by two SMs, so that one may be ahead.
constexpr const char* kLapsTwoSms =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":600},"kernel":{"sms_per_rank":2,"stages":2}})";
/// Two ranks of two SMs that need each other, two launches without the host between them.
constexpr const char* kTwoRanks =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":8},"kernel":{"sms_per_rank":2},"launches":2})";
constexpr const char* kLateRank =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":8},"kernel":{"sms_per_rank":2},"launches":2,
        "world":{"late_rank":1,"late_steps":100000}})";
constexpr const char* kMasked =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":2},"routing":{"kind":"explicit",
        "topk_idx":[[[1,-1],[2,3]],[[-1,-1],[0,1]]]},"kernel":{"sms_per_rank":1}})";
constexpr const char* kHotRank =
    R"({"shape":{"ranks":4,"experts":16,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":64},"routing":{"kind":"hot_rank","rank":0,"share":1},
        "kernel":{"sms_per_rank":2}})";
constexpr const char* kHotExpert =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":4},"tokens":[4,4],"routing":{"kind":"hot_expert","expert":1,
        "share":1},"kernel":{"sms_per_rank":1}})";
constexpr const char* kDuplicates =
    R"({"shape":{"ranks":1,"experts":4,"topk":4,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[3,3,3,3]]]},
        "kernel":{"sms_per_rank":1}})";
constexpr const char* kEmptyRank =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":5},"tokens":[5,0],"kernel":{"sms_per_rank":1}})";
constexpr const char* kEmptyRankNeverStarts =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":5},"tokens":[5,0],"kernel":{"sms_per_rank":1},
        "world":{"held_sms":[[1,0]]}})";
constexpr const char* kHeldSm =
    R"({"shape":{"ranks":1,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":4},"kernel":{"sms_per_rank":4},"world":{"held_sms":[[0,3]]}})";
constexpr const char* kGridOfTwo =
    R"({"shape":{"ranks":1,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":4},"kernel":{"sms_per_rank":2}})";
/// Rows whose bytes lie past 2^32 from the start of their region.
constexpr const char* kFarRows =
    R"({"shape":{"ranks":1,"experts":8,"topk":8,"hidden":2048,"intermediate":128,
        "max_tokens_per_rank":200000},"tokens":[1],"kernel":{"sms_per_rank":1}})";
constexpr const char* kShortRing =
    R"({"shape":{"ranks":1,"experts":2,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1]]]},
        "kernel":{"sms_per_rank":1,"ring_blocks":1}})";

constexpr Mutant change(MutantKind kind, Step step, int64_t delta = 0, uint32_t first = 0,
                        uint32_t last = UINT32_MAX, Role role = Role::Count) {
  return {kind, step, delta, first, last, role};
}
constexpr Mutant drop(Step step, uint32_t first = 0, uint32_t last = UINT32_MAX) {
  return change(MutantKind::Drop, step, 0, first, last);
}
constexpr Mutant clear_early(Region region, Step step) {
  return change(MutantKind::ClearEarly, step, static_cast<int64_t>(region), 0, 0);
}
constexpr Mutant keep(Region region) {
  Mutant mutant = drop(Step::CleanupClear);
  mutant.region = region;
  return mutant;
}
constexpr Mutant leaves(uint32_t rank) {
  Mutant mutant = change(MutantKind::Leave, Step::CountTogether, 0, 0, UINT32_MAX, Role::Dispatch);
  mutant.rank = rank;
  return mutant;
}

constexpr Plant finding(const char* id, const char* what, const char* text, FindingClass expected,
                        Step step, Mutant mutant) {
  return {id, what, text, PlantAnswer::Finding, expected, step, "", mutant, nullptr, false, false};
}
constexpr Plant altered(const char* id, const char* what, const char* text, FindingClass expected,
                        Step step, void (*alter)(Problem&, KernelArgs&), bool math = false) {
  return {id, what, text, PlantAnswer::Finding, expected, step, "", {}, alter, false, math};
}
constexpr Plant refused(const char* id, const char* what, const char* text, const char* names) {
  return {id,      what,  text, PlantAnswer::Refused, FindingClass::Mismatch, Step::None, names, {},
          nullptr, false, false};
}
constexpr Plant accepted(const char* id, const char* what, const char* text) {
  return {id,      what,  text, PlantAnswer::Accepted, FindingClass::Mismatch, Step::None, "", {},
          nullptr, false, true};
}

// What the kernel is started with, wrong.

uint64_t& offset_of(KernelArgs& args, Region region) {
  return args.layout.offsets[static_cast<uint32_t>(region)];
}
uint64_t& bytes_of(KernelArgs& args, Region region) {
  return args.layout.bytes[static_cast<uint32_t>(region)];
}

void pool_bound_from_mean(Problem&, KernelArgs& args) {
  bytes_of(args, Region::Metadata) /= args.shape.ranks * args.shape.num_local_experts();
}
void half_a_slot_table(Problem&, KernelArgs& args) { bytes_of(args, Region::SlotTable) /= 2; }
void slots_for_half_the_tokens(Problem&, KernelArgs& args) { args.shape.max_tokens_per_rank /= 2; }
void slots_for_distinct_experts(Problem&, KernelArgs& args) {
  bytes_of(args, Region::SlotTable) /= args.shape.topk;
}
void duplicates_dropped(Problem& problem, KernelArgs& args) {
  for (RankInput& rank : problem.ranks)
    for (size_t i = 0; i < rank.topk_idx.size(); ++i)
      for (size_t before = i - i % args.shape.topk; before < i; ++before)
        if (rank.topk_idx[i] == rank.topk_idx[before]) rank.topk_idx[i] = kMaskedExpert;
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
void weights_twice(Problem& problem, KernelArgs&) {
  for (RankInput& rank : problem.ranks)
    for (float& weight : rank.topk_weights) weight *= weight;
}
void weights_left_out(Problem& problem, KernelArgs&) {
  for (RankInput& rank : problem.ranks)
    std::fill(rank.topk_weights.begin(), rank.topk_weights.end(), 1.0f);
}

using Class = FindingClass;
using Kind = MutantKind;

const Plant kPlants[] = {
    finding("F01", "a combine stage is refilled while lanes still read it", kThreeSlots,
            Class::Race, Step::CombineLoad, drop(Step::CombineTogether)),
    finding("F02a", "a tile of many threads is published without a proxy fence", kOneBlock,
            Class::Proxy, Step::Linear1Store, drop(Step::Linear1Fence)),
    finding("F02b", "the fence in front of a tile store is executed by one lane", kOneBlock,
            Class::Proxy, Step::Linear1Store, change(Kind::LeaderOnly, Step::Linear1Fence)),
    finding("F02c", "every thread fences, but nobody waits for the others", kOneBlock, Class::Race,
            Step::Linear1Store, drop(Step::Linear1Together)),
    finding("F02d", "pulled scale factors are published without a proxy fence", kOneBlock,
            Class::Proxy, Step::LoadAScales, drop(Step::PullFence)),
    finding("F03", "a stage is released before the tensor core has read it", kOneStage, Class::Race,
            Step::LoadATile, change(Kind::Swap, Step::MathMmaWait, 2)),
    finding("F04", "a consumer arrives first and fences then", kOneStage, Class::Proxy,
            Step::LoadAScales, change(Kind::Swap, Step::MathFence, 2)),
    finding("F05a", "the grid barrier's target is read after the own arrival", kTwoRanks,
            Class::Deadlock, Step::GridWait, change(Kind::LateTarget, Step::GridWait)),
    finding("F05b", "the rank barrier's phase does not advance", kTwoRanks, Class::Deadlock,
            Step::RankWait, drop(Step::RankAdvance)),
    finding("F05c", "the rank barrier's sign is not flipped", kTwoRanks, Class::Deadlock,
            Step::RankWait, change(Kind::Count, Step::RankSignal, 2, 2)),
    finding("F06a", "a queue entry is overwritten while its readers still need it", kLaps,
            Class::Barrier, Step::TaskRelease, drop(Step::TaskWaitsForEntry)),
    finding("F06b", "a pull buffer is refilled while its store still reads it", kTwoChunks,
            Class::Race, Step::PullLoad, drop(Step::PullBufferFree)),
    finding("F06c", "a stage is refilled without waiting for its readers", kOneStage,
            Class::Barrier, Step::LoadAExpect, drop(Step::LoadAWaitsForStage)),
    finding("F07a", "a named barrier is reached with a wrong count", kTwoRanks, Class::Barrier,
            Step::PoolTableReady, change(Kind::Count, Step::PoolTableReady, 32, 0, 0, Role::LoadB)),
    finding("F07b", "a named barrier is reached by one role's branch only", kTwoRanks,
            Class::Deadlock, Step::PoolTableReady,
            change(Kind::Drop, Step::PoolTableReady, 0, 0, UINT32_MAX, Role::LoadB)),
    altered("F10", "the pool is sized for the mean load", kHotRank, Class::Bounds,
            Step::PullMetadata, pool_bound_from_mean),
    {"F11a",
     "a rank without tokens never launches",
     kEmptyRankNeverStarts,
     PlantAnswer::Finding,
     Class::Residency,
     Step::RankWait,
     "",
     {},
     nullptr,
     false,
     false},
    finding("F11b", "the dispatch warps of a rank without tokens leave early", kEmptyRank,
            Class::Deadlock, Step::RankWait, leaves(1)),
    {"F12",
     "a CTA of the grid barrier can never become resident",
     kHeldSm,
     PlantAnswer::Finding,
     Class::Residency,
     Step::GridWait,
     "",
     {},
     nullptr,
     false,
     false},
    finding("F14", "the producer skips a tile that the consumer takes", kLaps, Class::Deadlock,
            Step::MathWaitsForStage, drop(Step::LoadBExpect, 0, 0)),
    altered("F20a", "a slot table for half the tokens, without a bound", kHotExpert, Class::Bounds,
            Step::WriteIndex, half_a_slot_table),
    altered("F20b", "the write into a full slot table is refused before it happens", kHotExpert,
            Class::Overflow, Step::WriteIndex, slots_for_half_the_tokens),
    {"F21a",
     "a ring one block short of the smallest safe one",
     kShortRing,
     PlantAnswer::Finding,
     Class::Deadlock,
     Step::DispatchWaitsForMath,
     "",
     {},
     nullptr,
     true,
     false},
    finding("F21b", "a ring slot's rows are overwritten before they have been read", kLaps,
            Class::Race, Step::PullStore, drop(Step::PullWaitsForRingSlot)),
    finding("F21c", "a ring slot's Linear1 rows are overwritten before they have been read",
            kLapsTwoSms, Class::Race, Step::Linear1Store, drop(Step::Linear1WaitsForRingSlot)),
    finding("F22a", "the wait for a block's rows forgets the lap", kLaps, Class::Race,
            Step::PullStore, change(Kind::Target, Step::LoadAWaitsForRows, -64)),
    finding("F22b", "the last, partial block never fills", kLaps, Class::Deadlock,
            Step::LoadAWaitsForRows, change(Kind::Count, Step::PullPublishRow, -1, 149, 149)),
    finding("F22c", "a row counts twice, so a block is full too early", kLaps, Class::Race,
            Step::PullStore, change(Kind::Count, Step::PullPublishRow, 1)),
    finding("F23", "metadata is indexed by the ring row", kLaps, Class::Race, Step::PullMetadata,
            change(Kind::RingRow, Step::PullMetadata)),
    altered("F24a", "an expert that a token names twice counts once", kDuplicates, Class::Mismatch,
            Step::None, duplicates_dropped, true),
    altered("F24b", "a slot table sized for distinct experts", kDuplicates, Class::Bounds,
            Step::WriteIndex, slots_for_distinct_experts),
    finding("F25a", "masked slots are counted", kMasked, Class::Stale, Step::PullFindSource,
            change(Kind::Unmask, Step::CountRoutes)),
    finding("F25b", "masked slots are written", kMasked, Class::Mismatch, Step::CombineLoad,
            change(Kind::Unmask, Step::WriteIndex)),
    finding("F25c", "masked slots are combined", kMasked, Class::Mismatch, Step::CombineLoad,
            change(Kind::Unmask, Step::CombineReadRoutes)),
    refused("F25d", "an expert id that is the number of experts",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[4]]]}})",
            "topk_idx"),
    refused("F25e", "an expert id of 2^31",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1},"routing":{"kind":"explicit",
                "topk_idx":[[[2147483648]]]}})",
            "topk_idx"),
    finding("F26", "more rows are counted than written", kTwoRanks, Class::Stale,
            Step::PullFindSource, change(Kind::Count, Step::ClaimSlots, 1)),
    finding("F30", "two barriers in a row share one flag word", kLateRank, Class::Deadlock,
            Step::RankWait, drop(Step::RankAdvance, 0, 0)),
    finding("F32", "rows of a peer may land after they were to be complete", kLateRank, Class::Race,
            Step::Linear2Scatter, drop(Step::RankWait, 1, 1)),
    finding("F33a", "XFull is cleared while load A still waits on it", kLaps, Class::Deadlock,
            Step::LoadAWaitsForRows, clear_early(Region::XFull, Step::DispatchWaitsForMath)),
    finding("F33b", "XEmpty is cleared while the pull of another SM still waits on it", kTwoRanks,
            Class::Race, Step::CleanupClear,
            clear_early(Region::XEmpty, Step::DispatchWaitsForMath)),
    finding("F33c", "Linear1Full is cleared while load A still waits on it", kOneBlock, Class::Race,
            Step::CleanupClear, clear_early(Region::Linear1Full, Step::DispatchWaitsForMath)),
    finding("F33d", "Linear1Empty is cleared while math still waits on it", kLaps, Class::Deadlock,
            Step::Linear1WaitsForRingSlot,
            clear_early(Region::Linear1Empty, Step::DispatchWaitsForMath)),
    finding("F33e", "the task counter is cleared while tiles are still claimed", kTwoRanks,
            Class::Race, Step::TaskClaim,
            clear_early(Region::TaskCounter, Step::DispatchWaitsForMath)),
    finding("F33f", "send counts are cleared before they have been sent", kTwoRanks, Class::Race,
            Step::CleanupClear, clear_early(Region::SendCount, Step::GridTogether)),
    finding("F33g", "XFull is left as it is for the next launch", kTwoRanks, Class::Stale,
            Step::CleanupClear, keep(Region::XFull)),
    finding("F33h", "send counts are left as they are for the next launch", kTwoRanks, Class::Stale,
            Step::CleanupClear, keep(Region::SendCount)),
    finding("F33i", "the task counter is left as it is for the next launch", kTwoRanks,
            Class::Stale, Step::CleanupClear, keep(Region::TaskCounter)),
    finding("F40", "a row's place is computed in 32 bits", kFarRows, Class::Mismatch,
            Step::CombineLoad, change(Kind::Narrow, Step::CombineLoad)),
    altered("F41", "the bytes of a region are counted in 32 bits", kFarRows, Class::Bounds,
            Step::Linear2Scatter, totals_in_32_bits, true),
    altered("F42a", "a barrier word lies inside the message it guards", kTwoRanks, Class::Deadlock,
            Step::RankWait, barrier_inside_message),
    altered("F42b", "a region's size is forgotten in the sum of offsets", kLaps, Class::Race,
            Step::PullStore, size_forgotten),
    altered("F43a", "one Linear1 tile of a block is never scheduled", kOneBlock, Class::Stale,
            Step::MathMmaWait, one_linear1_tile_less, true),
    altered("F43b", "one Linear2 tile of a block is never scheduled", kOneBlock, Class::Mismatch,
            Step::CombineLoad, one_linear2_tile_less),
    altered("F43c", "one Linear2 tile too many is scheduled", kOneBlock, Class::Bounds,
            Step::MathReadScales, one_linear2_tile_more),
    altered("F58a", "the routing weight counts twice", kTwoRanks, Class::Mismatch, Step::None,
            weights_twice, true),
    altered("F58b", "the routing weight is left out", kTwoRanks, Class::Mismatch, Step::None,
            weights_left_out, true),
    refused("F60a", "more tokens than the capacity",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1},"tokens":[2]})",
            "tokens[0]"),
    refused("F60b", "experts that do not divide by the ranks",
            R"({"shape":{"ranks":2,"experts":3,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1}})",
            "shape.experts"),
    refused("F60c", "a hidden size that is no multiple of 128",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":192,"intermediate":128,
                "max_tokens_per_rank":1}})",
            "shape.hidden"),
    refused("F60d", "more than 32 experts a token",
            R"({"shape":{"ranks":1,"experts":64,"topk":33,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1}})",
            "shape.topk"),
    accepted("A03", "scales read into registers, a fence, then the arrival", kOneStage),
    accepted("A10", "all load on one rank", kHotRank),
    accepted("A11", "a rank without tokens", kEmptyRank),
    accepted("A12", "a grid that fits beside the held SM", kGridOfTwo),
    accepted("A13", "a rank that starts very late", kLateRank),
    accepted("A20", "all load on one expert", kHotExpert),
    accepted("A24", "one expert four times in one token", kDuplicates),
    accepted("A25", "masked slots", kMasked),
    accepted("A40", "rows past 2^32 bytes", kFarRows),
};

}  // namespace

std::span<const Plant> all_plants() { return kPlants; }

}  // namespace moetwin
