// Planted faults of the arithmetic, each seen in the first stage that then differs from the naive
// path, and what the checks on entry keep out, for fuzz/plants.h.
#include <algorithm>

#include "common/number_formats.h"
#include "fuzz/plant_makers.h"

namespace moetwin {
namespace {

using namespace plant_cases;
using Class = FindingClass;

/// The routing weight makes a group's amax * (1/448) one unit above 2^-17.
constexpr const char* kJustAbovePower =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0]]],
        "topk_weights":[[[0.00428412808]]]},"kernel":{"sms_per_rank":1}})";
constexpr const char* kZeroWeight =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0]]],
        "topk_weights":[[[0]]]},"kernel":{"sms_per_rank":1}})";
/// Values of some 1e-38.
constexpr const char* kTinyWeight =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0]]],
        "topk_weights":[[[2e-38]]]},"kernel":{"sms_per_rank":1}})";
/// One token in eight is all zeros.
constexpr const char* kZeroTokens =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":256},"data":{"kind":"extreme"},"kernel":{"sms_per_rank":1}})";
/// A last bit of token 8 decides a code: searched for, among a million elements.
constexpr const char* kLastBitShows =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":9},"data":{"kind":"normal","seed":89},
        "kernel":{"sms_per_rank":1}})";
/// Rows and columns enough that a sum's last bit shows in some BF16 of Linear2.
constexpr const char* kManyRows =
    R"({"shape":{"ranks":1,"experts":4,"topk":2,"hidden":1024,"intermediate":512,
        "max_tokens_per_rank":128},"kernel":{"sms_per_rank":1}})";
/// The first and the last slot, of one expert, cancel but for the one between.
constexpr const char* kCancelling =
    R"({"shape":{"ranks":1,"experts":2,"topk":3,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1,0]]],
        "topk_weights":[[[1,0.001953125,-1]]]},"kernel":{"sms_per_rank":1}})";
constexpr const char* kFarCancelling =
    R"({"shape":{"ranks":1,"experts":2,"topk":3,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1,0]]],
        "topk_weights":[[[16777216,1,-16777216]]]},"kernel":{"sms_per_rank":1}})";

/// S0 without its floor: a group of zeros gets the codes of 0 * (448 / 0).
void entry_inverse_overflows(Problem& problem, KernelArgs&) {
  for (RankInput& rank : problem.ranks)
    for (size_t first = 0; first < rank.x_codes.size(); first += kScaleBlock) {
      const auto begin = rank.x_codes.begin() + static_cast<ptrdiff_t>(first);
      const auto end = begin + kScaleBlock;
      if (std::all_of(begin, end, [](uint8_t code) { return (code & 0x7F) == 0; }))
        std::fill(begin, end, kE4m3Nan);
    }
}

const Plant kPlants[] = {
    differs("F50", "mantissa bits stay in a scale that should be a power of two", kNormal,
            Stage::L1Scales, wrong(LayerFault::MantissaInScale)),
    differs("F51", "2^ceil(log2 s) in binary32 is a binade low just above a power of two",
            kJustAbovePower, Stage::L1, wrong(LayerFault::RoundedLogarithm)),
    differs("F52", "the smallest scale is enforced after rounding to a power of two", kZeroWeight,
            Stage::L1Scales, wrong(LayerFault::ClampAfterRounding)),
    differs("F53a", "448 / amax overflows in the kernel's quantisation", kTinyWeight, Stage::L1,
            wrong(LayerFault::InverseOverflows)),
    differs("F53b", "448 / amax overflows in the input's quantisation", kZeroTokens, Stage::L1, {},
            entry_inverse_overflows),
    differs("F54a", "a NaN is taken into amax", kNan, Stage::L1, wrong(LayerFault::NanInAmax)),
    differs("F54b", "a NaN vanishes from the codes", kNan, Stage::L1, wrong(LayerFault::NanLost)),
    differs("F55", "the running sum is kept in BF16", kCancelling, Stage::Y,
            wrong(LayerFault::Bf16Sum)),
    differs("F56", "rows are summed by expert, not by slot", kFarCancelling, Stage::Y,
            change(MutantKind::ByExpert, Step::CombineLoad)),
    differs("F57a", "one promotion for all of K", kNormal, Stage::L1,
            wrong(LayerFault::PromotedOnce)),
    differs("F57b", "sums over K are kept in FP16", kNormal, Stage::L1,
            wrong(LayerFault::HalfAccumulator)),
    differs("F58a", "the routing weight counts twice", kNormal, Stage::L1,
            wrong(LayerFault::WeightTwice)),
    differs("F58b", "the routing weight is left out", kNormal, Stage::L1,
            wrong(LayerFault::WeightLeftOut)),
    differs("F59", "every other row of Linear2 is promoted by a product and a sum", kManyRows,
            Stage::L2, wrong(LayerFault::Linear2Unfused)),
    differs("F59a", "Linear1 is promoted by a product and a sum", kLastBitShows, Stage::L1,
            wrong(LayerFault::Linear1Unfused)),
};

// What the checks on entry keep out, put behind them.

void set_first_expert(Problem& problem, int32_t id) {
  for (RankInput& rank : problem.ranks)
    if (!rank.topk_idx.empty()) rank.topk_idx[0] = id;
}
void reshape(KernelArgs& args) { args.layout = make_layout(args.shape, args.plan); }

void expert_past_the_last(Problem& problem, KernelArgs& args) {
  set_first_expert(problem, static_cast<int32_t>(args.shape.experts));
}
void expert_two_to_31(Problem& problem, KernelArgs&) { set_first_expert(problem, INT32_MIN); }
void two_tokens(Problem& problem, KernelArgs&) {
  for (RankInput& rank : problem.ranks) rank.num_tokens = 2;
}
void three_experts(Problem& problem, KernelArgs& args) {
  args.shape.experts = 3;
  reshape(args);
  set_first_expert(problem, 2);
}
void hidden_192(Problem&, KernelArgs& args) {
  args.shape.hidden = 192;
  reshape(args);
}
void topk_33(Problem&, KernelArgs& args) { args.shape.topk = 33; }

constexpr Plant refused(const char* id, const char* what, const char* text, const char* names,
                        const char* behind_check, void (*alter)(Problem&, KernelArgs&),
                        Class expected, Step step) {
  return {.id = id,
          .what = what,
          .text = text,
          .answer = PlantAnswer::Refused,
          .expected = expected,
          .step = step,
          .refusal = names,
          .behind_check = behind_check,
          .alter = alter};
}

const Plant kEntry[] = {
    // Expert E lies on rank R.
    refused("F25d", "an expert id that is the number of experts",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[4]]]}})",
            "topk_idx", kOneToken, expert_past_the_last, Class::Bounds, Step::WriteIndex),
    // In 32 bits it is expert 0 wherever it is an index.
    refused("F25e", "an expert id of 2^31",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1},"routing":{"kind":"explicit",
                "topk_idx":[[[2147483648]]]}})",
            "topk_idx", kOneToken, expert_two_to_31, Class::Mismatch, Step::None),
    refused("F60a", "more tokens than the capacity",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1},"tokens":[2]})",
            "tokens[0]", kOneToken, two_tokens, Class::Bounds, Step::CountRoutes),
    // One expert a rank: the third lies on a rank that is none.
    refused("F60b", "experts that do not divide by the ranks",
            R"({"shape":{"ranks":2,"experts":3,"topk":1,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1}})",
            "shape.experts", kOneTokenTwoRanks, three_experts, Class::Bounds, Step::WriteIndex),
    // No tile has the last 64 columns.
    refused("F60c", "a hidden size that is no multiple of 128",
            R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":192,"intermediate":128,
                "max_tokens_per_rank":1}})",
            "shape.hidden", kOneToken, hidden_192, Class::Mismatch, Step::CombineLoad),
    // No warp has lanes for a token, so the walk over tokens stands still.
    refused("F60d", "more than 32 experts a token",
            R"({"shape":{"ranks":1,"experts":64,"topk":33,"hidden":128,"intermediate":128,
                "max_tokens_per_rank":1}})",
            "shape.topk", kOneToken, topk_33, Class::Deadlock, Step::None),
};

}  // namespace

std::span<const Plant> value_plants() { return kPlants; }
std::span<const Plant> entry_plants() { return kEntry; }

}  // namespace moetwin
