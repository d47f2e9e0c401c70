// Searches for one operation and for the quantisers.
#include "tests/numerics_witness.h"

#include "common/number_formats.h"
#include "tests/numerics_draw.h"

namespace moetwin::test {
namespace {

bool differ(const EvalCodes& a, const EvalCodes& b) {
  return !same_bits(a.scale, b.scale) || a.codes != b.codes;
}

bool is_weight_rule(Change change) {
  return change == Change::S1NoFloor || change == Change::S1ScaleByReciprocal ||
         change == Change::S1MultiplyByInverse;
}

}  // namespace

std::optional<std::vector<float>> find_quantiser_witness(Change change) {
  Draw draw(41);
  for (int trial = 0; trial < 20000; ++trial) {
    const bool tiny = trial % 4 == 0;
    const float amax = draw.scale(tiny ? -20 : static_cast<int>(draw.below(9)) - 4);
    std::vector<float> values(128, 0.0f);
    values[0] = amax;
    for (size_t i = 1; i < values.size(); ++i) {
      const float tie = tie_of_codes(draw) * (amax / 448.0f);
      const float beside = moved(tie, static_cast<int>(draw.below(5)) - 2);
      values[i] = beside < amax ? beside * random_sign(draw) : 0.0f;
    }
    const auto evaluate = is_weight_rule(change) ? eval_weight_block : eval_activation_group;
    if (differ(evaluate(values, Change::None), evaluate(values, change))) return values;
  }
  return std::nullopt;
}

std::optional<StepWitness> find_step_witness(Change change) {
  Draw draw(42);
  for (int trial = 0; trial < 20000; ++trial) {
    StepWitness step;
    for (size_t k = 0; k < 32; ++k) {
      const CodePair pair = draw_pair(draw, mix_of(change));
      step.a[k] = pair.a;
      step.b[k] = pair.b;
    }
    const float c_choices[] = {0.0f, -0.0f, normal(draw) * 1000, normal(draw) * 1e6f};
    step.c = c_choices[draw.below(4)];
    if (mix_of(change) != Mix::Normal) step.c = 0;
    if (change == Change::H2aNanTimesZero || change == Change::H2aQuietNan) {
      step.a[3] = 0x7F;
      step.b[3] = 0;
    }
    if (change == Change::H2aInfiniteC) step.c = -kInfinity;
    if (change == Change::H2aNegativeZero) step.a = {};
    const float right = eval_step(step.a.data(), step.b.data(), step.c, Change::None);
    const float wrong = eval_step(step.a.data(), step.b.data(), step.c, change);
    if (!same_bits(right, wrong)) return step;
  }
  return std::nullopt;
}

namespace {

/// Whether the change alters the result for `value`.
bool argument_tells(Change change, float value) {
  if (change >= Change::H2dCorrectlyRounded) {
    return !same_bits(eval_ex2(value, Change::None), eval_ex2(value, change));
  }
  if (change >= Change::H2cCorrectlyRounded) {
    return !same_bits(eval_rcp(value, Change::None), eval_rcp(value, change));
  }
  return eval_e4m3(value, Change::None) != eval_e4m3(value, change);
}

}  // namespace

std::optional<float> find_argument_witness(Change change) {
  Draw draw(43);
  for (int trial = 0; trial < 100000; ++trial) {
    const float choices[] = {
        moved(tie_of_codes(draw), static_cast<int>(draw.below(3)) - 1),
        uniform(draw, 1, 2),
        uniform(draw, -130, 20),
        draw.scale(126),
        float_of_bits(draw.bits() & kFloatMantissaMask),
        1000.0f,
        float_of_bits(0xFFC00000),
    };
    const float value = choices[draw.below(7)];
    if (argument_tells(change, value)) return value;
  }
  return std::nullopt;
}

}  // namespace moetwin::test
