// Planted faults between one launch and the next, and the right programs, for fuzz/plants.h.
#include "fuzz/plant_makers.h"

namespace moetwin {
namespace {

using namespace plant_cases;
using Class = FindingClass;

constexpr Mutant keep(Region region) {
  Mutant mutant = drop(Step::CleanupClear);
  mutant.region = region;
  return mutant;
}

/// Words that last from launch to launch come behind the payload, so that they move with its size.
void counters_behind_payload(Problem&, KernelArgs& args) {
  constexpr uint64_t kAlignment = 1024;
  SymmetricLayout& layout = args.layout;
  uint64_t at = 0;
  for (const bool lasting : {false, true})
    for (uint32_t region = 0; region < kNumRegions; ++region) {
      if ((region_info(static_cast<Region>(region)).persistence != Persistence::Launch) != lasting)
        continue;
      layout.offsets[region] = at;
      at += (layout.bytes[region] + kAlignment - 1) / kAlignment * kAlignment;
    }
}

constexpr const char* kSlotMaskedLater =
    R"({"shape":{"ranks":1,"experts":2,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1]]]},
        "kernel":{"sms_per_rank":1},
        "launches":[{},{"routing":{"topk_idx":[[[0,-1]]]}}]})";
constexpr const char* kThreeSizes =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":3},"routing":{"kind":"explicit","topk_idx":[[[0],[0],[0]]],
        "topk_weights":[[[1],[16],[256]]]},"kernel":{"sms_per_rank":1}})";

const Plant kPlants[] = {
    finding("F30", "two barriers in a row share one flag word", kLateRank, Class::Deadlock,
            Step::RankWait, drop(Step::RankAdvance, 0, 0)),
    {.id = "F31",
     .what = "counters move when the shape changes and are not cleared where they come to lie",
     .text = kTwoShapes,
     .expected = Class::Stale,
     .step = Step::ClaimSlots,
     .mutant = change(MutantKind::KeepWords, Step::None),
     .alter = counters_behind_payload},
    pair("F32", "rows of a peer may land after they were to be complete", kLateRank, Class::Race,
         Step::Linear2Scatter, Step::CombineLoad, drop(Step::RankWait, 1, 1)),
    finding("F32b", "a peer's last signal may land after the launch, when the memory is gone",
            kTwoRanks, Class::Race, Step::RankSignal, drop(Step::RankWait, 2, 2)),
    finding("F33a", "XFull is cleared while load A still waits on it", kLaps, Class::Deadlock,
            Step::LoadAWaitsForRows, clear_early(Region::XFull, Step::DispatchWaitsForMath)),
    // What waits on a word that is cleared too early also adds to it: nothing orders the two.
    pair("F33b", "XEmpty is cleared while the pull of another SM still waits on it", kLapsTwoSms,
         Class::Race, Step::CleanupClear, Step::MathReleaseBlock,
         clear_early(Region::XEmpty, Step::DispatchWaitsForMath)),
    pair("F33c", "Linear1Full is cleared while load A still waits on it", kOneBlock, Class::Race,
         Step::CleanupClear, Step::Linear1Publish,
         clear_early(Region::Linear1Full, Step::DispatchWaitsForMath)),
    finding("F33d", "Linear1Empty is cleared while math still waits on it", kLaps, Class::Deadlock,
            Step::Linear1WaitsForRingSlot,
            clear_early(Region::Linear1Empty, Step::DispatchWaitsForMath)),
    pair("F33e", "the task counter is cleared while tiles are still claimed", kTwoRanks,
         Class::Race, Step::TaskClaim, Step::CleanupClear,
         clear_early(Region::TaskCounter, Step::DispatchWaitsForMath)),
    pair("F33f", "send counts are cleared before they have been sent", kTwoRanks, Class::Race,
         Step::CleanupClear, Step::ClaimSlots, clear_early(Region::SendCount, Step::GridTogether)),
    finding("F33g", "XFull is left as it is for the next launch", kTwoRanks, Class::Stale,
            Step::CleanupClear, keep(Region::XFull)),
    finding("F33h", "send counts are left as they are for the next launch", kTwoRanks, Class::Stale,
            Step::CleanupClear, keep(Region::SendCount)),
    finding("F33i", "the task counter is left as it is for the next launch", kTwoRanks,
            Class::Stale, Step::CleanupClear, keep(Region::TaskCounter)),
    {.id = "F34a",
     .what = "masked slots are combined times zero, which leaves an earlier launch's NaN a NaN",
     .text = kSlotMaskedLater,
     .expected = Class::Stale,
     .step = Step::CombineSum,
     .mutant = wrong(LayerFault::MaskedByFactor),
     .math = true},
    differs("F34b", "amax is taken over a tile's rows together", kThreeSizes, Stage::L1,
            wrong(LayerFault::AmaxOverTile)),
    finding("F34c", "the mask of a tile's rows is off by one", kThreeRows, Class::Stale,
            Step::MathReadScales,
            change(MutantKind::Rows, Step::TaskWait, 1, 0, UINT32_MAX, Role::Math)),
};

constexpr Plant accepted(const char* id, const char* what, const char* text) {
  return {.id = id, .what = what, .text = text, .answer = PlantAnswer::Accepted, .math = true};
}

const Plant kRight[] = {
    accepted("A03", "scales read into registers, a fence, then the arrival", kOneStage),
    accepted("A10", "all load on one rank", kHotRank),
    accepted("A11a", "a second rank without tokens", kEmptyRank),
    accepted("A11b", "a first rank without tokens", kFirstRankEmpty),
    accepted("A11c", "no tokens at all", kNoTokens),
    accepted("A12", "a grid that fits beside the held SM", kGridOfTwo),
    accepted("A13", "a rank that starts very late", kLateRank),
    accepted("A20", "all load on one expert", kHotExpert),
    accepted("A24", "one expert four times in one token", kDuplicates),
    accepted("A25", "masked slots", kMasked),
    accepted("A31", "another shape in the same buffer", kTwoShapes),
    accepted("A34", "padding rows that are computed", kThreeRows),
    accepted("A40", "rows past 2^32 bytes", kFarRows),
    accepted("A43", "experts that do not fill the last wave", kUnevenWaves),
    accepted("A44", "six slots a token", kSixSlots),
    accepted("A54", "NaN codes", kNan),
};

}  // namespace

std::span<const Plant> launch_plants() { return kPlants; }
std::span<const Plant> right_programs() { return kRight; }

}  // namespace moetwin
