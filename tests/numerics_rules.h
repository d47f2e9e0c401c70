// The arithmetic contract written a second time, for tests: scalar, slow, in double where that is
// exact, and with every rule replaceable by a slightly wrong one. It shares no arithmetic with
// common/ and model/, so that it and they can only agree by both following NUMERICS.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/problem.h"

namespace moetwin::test {

/// One rule changed. The first letters name the rule: a step of the layer (S0 to S11) or an
/// operation (H2a tensor core, H2b E4M3 conversion, H2c reciprocal, H2d exponential).
enum class Change : uint8_t {
  None,
  S0NoFloor,
  S0ScaleByReciprocal,
  S0InverseOfAmax,
  S0DivideByScale,
  S1NoFloor,
  S1ScaleByReciprocal,
  S1MultiplyByInverse,
  S2MulThenAdd,
  S2ScalesOneByOne,
  S2BlocksDescending,
  S2OnePromotion,
  S2StepsSeparate,
  S2StepsDescending,
  S3NanGateKept,
  S3NanUpKept,
  S3GateClampedBelow,
  S3UpNotClampedBelow,
  S4ConstantNext,
  S4ArgumentUnrounded,
  S4Divide,
  S4UpFirst,
  S4ProductUnrounded,
  S5None,
  S5Twice,
  S5BeforeUp,
  S5RoundedToBf16,
  S6NanTaken,
  S6GroupOf128,
  S6BeforeWeight,
  S6SignedMaximum,
  S7Division,
  S7Unrounded,
  S7Floor,
  S7AlwaysNext,
  S7RoundedLog2,
  S7SmallestScale,
  S7NotPowerOfTwo,
  S8DivideByScale,
  S9HighHalfFirst,
  S9OnePromotion,
  S9MulThenAdd,
  S9ScalesOneByOne,
  S9BlocksDescending,
  S9StepsDescending,
  S10Cut,
  S10TiesAway,
  S10QuietNan,
  S11Bf16Sum,
  S11SlotsDescending,
  S11ExpertsAscending,
  S11StartsFromFirst,
  S11Cut,
  S11DoubleSum,
  H2aBits12,
  H2aBits14,
  H2aTwoHalves,
  H2aAlignFloor,
  H2aAlignNearest,
  H2aResultBits12,
  H2aResultBits14,
  H2aResultBits23,
  H2aResultFloor,
  H2aResultNearest,
  H2aZeroC,
  H2aZeroProducts,
  H2aNormalisedProduct,
  H2aNormalisedSubnormals,
  H2aCAddedAfter,
  H2aCUncut,
  H2aNegativeZero,
  H2aNanTimesZero,
  H2aQuietNan,
  H2aInfiniteC,
  H2bTiesAway,
  H2bCut,
  H2bFlushSubnormals,
  H2bOverflowToNan,
  H2bNanKeepsSign,
  H2cCorrectlyRounded,
  H2cRoundingConstant,
  H2cExactSquare,
  H2cSubnormalsKept,
  H2cSubnormalInputRead,
  H2dCorrectlyRounded,
  H2dRoundingConstant,
  H2dExactSquare,
  H2dNegated,
  H2dArgumentNearest,
  H2dSubnormalsKept,
};

/// Where a change shows: in the codes of the quantiser, in the bits of one operation, or in a stage
/// of the whole layer.
enum class Seen : uint8_t { Quantiser, Operation, Layer, OperationAndLayer };

struct ChangeInfo {
  Change change;
  const char* id;
  Seen seen;
  const char* what;  ///< what the changed rule does
};

/// All changes but None, in the order of the enumeration.
std::span<const ChangeInfo> all_changes();

inline bool seen_in_layer(const ChangeInfo& info) {
  return info.seen == Seen::Layer || info.seen == Seen::OperationAndLayer;
}
inline bool seen_in_operation(const ChangeInfo& info) {
  return info.seen == Seen::Operation || info.seen == Seen::OperationAndLayer;
}

// The operations of section 2. Unless said otherwise, a change that is not of the function's own
// rule has no effect.

float eval_step(const uint8_t* a, const uint8_t* b, float c, Change change);
uint8_t eval_e4m3(float value, Change change);
float eval_e4m3_value(uint8_t code);
uint16_t eval_bf16(float value);
/// `value` is a double so that an argument that was not rounded can be given.
float eval_ex2(double value, Change change);
float eval_rcp(float value, Change change);

/// S0 for one group of 128 and S1 for one block, given as one list: scale and codes.
struct EvalCodes {
  float scale = 0;
  std::vector<uint8_t> codes;
};
EvalCodes eval_activation_group(std::span<const float> x, Change change);
EvalCodes eval_weight_block(std::span<const float> w, Change change);

/// One output of Linear1 (S2, `block` 128) or Linear2 (S9, `block` 64): a row of codes with a scale
/// a block, a weight row with a scale a 128 channels.
struct EvalOperands {
  std::span<const uint8_t> a;
  std::span<const float> a_scales;
  std::span<const uint8_t> w;
  std::span<const float> w_scales;
};
float eval_linear1(const EvalOperands& operands, Change change);
float eval_linear2(const EvalOperands& operands, Change change);

/// S3 to S5 for one column: `unweighted` is the value before S5.
struct EvalActivation {
  float unweighted = 0;
  float weighted = 0;
};
EvalActivation eval_activation(float gate, float up, float limit, float weight, Change change);

/// S6 to S8 for a row: codes [I] and scales [I / 64].
struct EvalRow {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};
EvalRow eval_requantise(std::span<const EvalActivation> activations, Change change);

/// S2 to S8 for a row; gate rows of W1 first.
EvalRow eval_linear1_row(const Problem& problem, const ExpertWeights& weights,
                         std::span<const uint8_t> x, std::span<const float> x_scales, float weight,
                         Change change);

/// S10, and S11 over the routed slots of one element in ascending order of slots.
uint16_t eval_output(float final, Change change);
uint16_t eval_combine(std::span<const uint16_t> outputs, std::span<const int32_t> experts,
                      Change change);

/// The whole layer: l1_codes, l1_scales, l2 and y of a LayerResult, in its order.
LayerResult eval_layer(const Problem& problem, Change change);

}  // namespace moetwin::test
