// Section 1 of the contract, the steps of the layer, for tests/numerics_rules.h.
#include "tests/numerics_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace moetwin::test {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

float floor_amax(float amax, bool floored) { return floored ? std::max(amax, 1e-4f) : amax; }

float largest_magnitude(std::span<const float> values) {
  float amax = 0;
  for (const float value : values) amax = std::fabs(value) > amax ? std::fabs(value) : amax;
  return amax;
}

/// A promoted block, with the changes of S2 and S9 that concern the promotion alone.
float promoted(float final, float acc, float a_scale, float w_scale, bool mul_then_add,
               bool one_by_one) {
  if (one_by_one) {
    const float scaled = acc * w_scale;
    return std::fma(a_scale, scaled, final);
  }
  const float scale = a_scale * w_scale;
  if (!mul_then_add) return std::fma(scale, acc, final);
  const float product = scale * acc;
  return product + final;
}

struct Chain {
  size_t first;
  size_t steps;
  bool descending = false;
  bool separate = false;
};

float chained(const EvalOperands& operands, const Chain& chain, float acc, Change change) {
  for (size_t i = 0; i < chain.steps; ++i) {
    const size_t step = chain.descending ? chain.steps - 1 - i : i;
    const size_t at = chain.first + 32 * step;
    if (chain.separate) {
      acc += eval_step(&operands.a[at], &operands.w[at], 0.0f, change);
    } else {
      acc = eval_step(&operands.a[at], &operands.w[at], acc, change);
    }
  }
  return acc;
}

/// Plain RN(m * c448) with the changes of S7; `amax` is m.
float quotient_by_448(float amax, Change change) {
  return change == Change::S7Division ? amax / 448.0f : amax * of_bits(0x3B124925);
}

/// Exponent e of S7.
int scale_exponent(float amax, Change change) {
  const float s = quotient_by_448(amax, change);
  if (std::isinf(s)) return 128;
  if (change == Change::S7RoundedLog2 && s > 0) {
    return static_cast<int>(std::ceil(std::log2(s)));
  }
  const int field = static_cast<int>(bits_of(s) >> 23 & 0xFF);
  bool up = (bits_of(s) & 0x7FFFFF) != 0;
  if (change == Change::S7Unrounded && s > 0) {
    const double exact = double{amax} * double{of_bits(0x3B124925)};
    return static_cast<int>(std::ceil(std::log2(exact)));
  }
  if (change == Change::S7Floor) up = false;
  if (change == Change::S7AlwaysNext && s > 0) up = true;
  return field - 127 + (up ? 1 : 0);
}

struct Scale {
  float scale, inverse;
};

Scale group_scale_of(float amax, Change change) {
  if (change == Change::S7NotPowerOfTwo) {
    const float s = quotient_by_448(amax, change);
    return {s, 1.0f / s};
  }
  int e = scale_exponent(amax, change);
  if (change == Change::S7SmallestScale) e = std::max(e, -126);
  const float scale = e == -127 ? 0.0f : std::ldexp(1.0f, e);
  const float inverse = e == 128 ? of_bits(0xFF800000) : std::ldexp(1.0f, -e);
  return {scale, inverse};
}

}  // namespace

uint16_t eval_bf16(float value) { return eval_output(value, Change::None); }

EvalCodes eval_activation_group(std::span<const float> x, Change change) {
  const float amax = floor_amax(largest_magnitude(x), change != Change::S0NoFloor);
  EvalCodes result;
  result.scale = change == Change::S0ScaleByReciprocal ? amax * (1.0f / 448.0f) : amax / 448.0f;
  const float inverse = change == Change::S0InverseOfAmax ? 448.0f / amax : 1.0f / result.scale;
  for (const float value : x) {
    const float scaled = change == Change::S0DivideByScale ? value / result.scale : value * inverse;
    result.codes.push_back(eval_e4m3(scaled, change));
  }
  return result;
}

EvalCodes eval_weight_block(std::span<const float> w, Change change) {
  const float amax = floor_amax(largest_magnitude(w), change != Change::S1NoFloor);
  EvalCodes result;
  result.scale = change == Change::S1ScaleByReciprocal ? amax * (1.0f / 448.0f) : amax / 448.0f;
  const float inverse = 1.0f / result.scale;
  for (const float value : w) {
    const float scaled =
        change == Change::S1MultiplyByInverse ? value * inverse : value / result.scale;
    result.codes.push_back(eval_e4m3(scaled, change));
  }
  return result;
}

float eval_linear1(const EvalOperands& operands, Change change) {
  const size_t blocks = operands.a_scales.size();
  float final = 0;
  float acc = 0;
  for (size_t i = 0; i < blocks; ++i) {
    const size_t block = change == Change::S2BlocksDescending ? blocks - 1 - i : i;
    const Chain chain{128 * block, 4, change == Change::S2StepsDescending,
                      change == Change::S2StepsSeparate};
    acc = chained(operands, chain, change == Change::S2OnePromotion ? acc : 0.0f, change);
    if (change == Change::S2OnePromotion && i + 1 < blocks) continue;
    final = promoted(final, acc, operands.a_scales[block], operands.w_scales[block],
                     change == Change::S2MulThenAdd, change == Change::S2ScalesOneByOne);
  }
  return final;
}

float eval_linear2(const EvalOperands& operands, Change change) {
  const size_t blocks = operands.w_scales.size();
  float final = 0;
  for (size_t i = 0; i < blocks; ++i) {
    const size_t block = change == Change::S9BlocksDescending ? blocks - 1 - i : i;
    float acc = 0;
    for (size_t j = 0; j < 2; ++j) {
      const size_t half = change == Change::S9HighHalfFirst ? 1 - j : j;
      const Chain chain{128 * block + 64 * half, 2, change == Change::S9StepsDescending};
      acc = chained(operands, chain, change == Change::S9OnePromotion ? acc : 0.0f, change);
      if (change == Change::S9OnePromotion && j == 0) continue;
      final = promoted(final, acc, operands.a_scales[2 * block + half], operands.w_scales[block],
                       change == Change::S9MulThenAdd, change == Change::S9ScalesOneByOne);
    }
  }
  return final;
}

EvalActivation eval_activation(float gate, float up, float limit, float weight, Change change) {
  if (!std::isinf(limit)) {
    if (change == Change::S3NanGateKept) {
      gate = gate > limit ? limit : gate;
    } else {
      gate = gate < limit ? gate : limit;
    }
    if (change == Change::S3GateClampedBelow) gate = gate < -limit ? -limit : gate;
    if (change != Change::S3UpNotClampedBelow) up = up < -limit ? -limit : up;
    if (change == Change::S3NanUpKept) {
      up = up > limit ? limit : up;
    } else {
      up = up < limit ? up : limit;
    }
  }
  const float constant = of_bits(change == Change::S4ConstantNext ? 0xBFB8AA3C : 0xBFB8AA3B);
  const float argument = gate * constant;
  const float exponential = eval_ex2(
      change == Change::S4ArgumentUnrounded ? double{gate} * double{constant} : double{argument},
      change);
  const float denominator = 1.0f + exponential;
  const float sigmoid = eval_rcp(denominator, change);
  const float product = change == Change::S4Divide ? gate / denominator : gate * sigmoid;
  EvalActivation result;
  result.unweighted = product * up;
  if (change == Change::S4UpFirst) result.unweighted = gate * (sigmoid * up);
  if (change == Change::S4ProductUnrounded) {
    result.unweighted = static_cast<float>(double{gate} * double{sigmoid} * double{up});
  }
  result.weighted = result.unweighted * weight;
  if (change == Change::S5None) result.weighted = result.unweighted;
  if (change == Change::S5Twice) result.weighted = result.weighted * weight;
  if (change == Change::S5BeforeUp) result.weighted = product * weight * up;
  if (change == Change::S5RoundedToBf16) {
    result.weighted = of_bits(uint32_t{eval_bf16(result.weighted)} << 16);
  }
  return result;
}

EvalRow eval_requantise(std::span<const EvalActivation> activations, Change change) {
  EvalRow row;
  row.codes.resize(activations.size());
  const size_t group = change == Change::S6GroupOf128 ? 128 : 64;
  for (size_t first = 0; first < activations.size(); first += 64) {
    float amax = 0;
    const size_t begin = first / group * group;
    for (size_t j = begin; j < begin + group; ++j) {
      float value =
          change == Change::S6BeforeWeight ? activations[j].unweighted : activations[j].weighted;
      if (change != Change::S6SignedMaximum) value = std::fabs(value);
      amax = amax < value ? value : amax;
      if (change == Change::S6NanTaken && std::isnan(value)) {
        amax = of_bits(0x7F800000);
      }
    }
    const Scale scale = group_scale_of(amax, change);
    row.scales.push_back(scale.scale);
    for (size_t j = first; j < first + 64; ++j) {
      const float w = activations[j].weighted;
      const float scaled = change == Change::S8DivideByScale ? w / scale.scale : w * scale.inverse;
      row.codes[j] = eval_e4m3(scaled, change);
    }
  }
  return row;
}

uint16_t eval_output(float final, Change change) {
  const uint32_t bits = bits_of(final);
  if (std::isnan(final)) return change == Change::S10QuietNan ? 0x7FC0 : 0x7FFF;
  const uint32_t below = bits & 0xFFFF;
  uint32_t code = bits >> 16;
  const bool odd = (code & 1) != 0;
  bool up = below > 0x8000 || (below == 0x8000 && odd);
  if (change == Change::S10TiesAway) up = below >= 0x8000;
  if (change == Change::S10Cut) up = false;
  if (up) ++code;
  return static_cast<uint16_t>(code);
}

uint16_t eval_combine(std::span<const uint16_t> outputs, std::span<const int32_t> experts,
                      Change change) {
  std::vector<size_t> order(outputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (change == Change::S11SlotsDescending) std::reverse(order.begin(), order.end());
  if (change == Change::S11ExpertsAscending) {
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return experts[a] < experts[b]; });
  }
  float sum = 0;
  double double_sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const float term = of_bits(uint32_t{outputs[order[i]]} << 16);
    double_sum += double{term};
    sum = change == Change::S11StartsFromFirst && i == 0 ? term : sum + term;
    if (change == Change::S11Bf16Sum) sum = of_bits(uint32_t{eval_bf16(sum)} << 16);
  }
  if (change == Change::S11DoubleSum) sum = static_cast<float>(double_sum);
  return eval_output(sum, change == Change::S11Cut ? Change::S10Cut : Change::None);
}

EvalRow eval_linear1_row(const Problem& problem, const ExpertWeights& weights,
                         std::span<const uint8_t> x, std::span<const float> x_scales, float weight,
                         Change change) {
  const size_t hidden = problem.shape.hidden;
  const size_t intermediate = problem.shape.intermediate;
  const size_t blocks = problem.shape.hidden_blocks();
  const auto output = [&](size_t row) {
    const std::span<const uint8_t> codes(&weights.w1_codes[row * hidden], hidden);
    const std::span<const float> scales(&weights.w1_scales[row / 128 * blocks], blocks);
    return eval_linear1({x, x_scales, codes, scales}, change);
  };
  std::vector<EvalActivation> activations;
  for (size_t j = 0; j < intermediate; ++j) {
    activations.push_back(
        eval_activation(output(j), output(intermediate + j), problem.clamp, weight, change));
  }
  return eval_requantise(activations, change);
}

LayerResult eval_layer(const Problem& problem, Change change) {
  const size_t hidden = problem.shape.hidden;
  const size_t intermediate = problem.shape.intermediate;
  const size_t topk = problem.shape.topk;
  LayerResult result;
  for (const RankInput& rank : problem.ranks) {
    for (size_t token = 0; token < rank.num_tokens; ++token) {
      std::vector<std::vector<uint16_t>> rows;
      std::vector<int32_t> experts;
      for (size_t k = 0; k < topk; ++k) {
        const int32_t id = rank.topk_idx[token * topk + k];
        if (id < 0) continue;
        const auto weights = problem.weights->expert(static_cast<uint32_t>(id));
        const EvalRow l1 = eval_linear1_row(
            problem, *weights, std::span(rank.x_codes).subspan(token * hidden, hidden),
            std::span(rank.x_scales).subspan(token * hidden / 128, hidden / 128),
            rank.topk_weights[token * topk + k], change);
        std::vector<uint16_t> l2;
        for (size_t h = 0; h < hidden; ++h) {
          const EvalOperands operands{
              l1.codes, l1.scales,
              std::span(weights->w2_codes).subspan(h * intermediate, intermediate),
              std::span(weights->w2_scales)
                  .subspan(h / 128 * (intermediate / 128), intermediate / 128)};
          l2.push_back(eval_output(eval_linear2(operands, change), change));
        }
        result.l1_codes.insert(result.l1_codes.end(), l1.codes.begin(), l1.codes.end());
        result.l1_scales.insert(result.l1_scales.end(), l1.scales.begin(), l1.scales.end());
        result.l2.insert(result.l2.end(), l2.begin(), l2.end());
        experts.push_back(id);
        rows.push_back(std::move(l2));
      }
      for (size_t h = 0; h < hidden; ++h) {
        std::vector<uint16_t> outputs;
        for (const std::vector<uint16_t>& row : rows) outputs.push_back(row[h]);
        result.y.push_back(eval_combine(outputs, experts, change));
      }
    }
  }
  return result;
}

}  // namespace moetwin::test
