#include "tests/numerics_hallmarks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/float_ops.h"
#include "model/numerics/bench.h"
#include "model/numerics/combine.h"
#include "model/numerics/expert.h"
#include "model/numerics/product.h"
#include "model/numerics/quantisation.h"
#include "model/numerics/small_floats.h"
#include "model/tensor_core.h"
#include "tests/sample_problem.h"

namespace moetwin::test {
namespace {

using namespace numerics;

/// One product of a row and a weight row; both are E4M3 values.
struct Term {
  uint32_t channel;
  float a;
  float b;
};

enum class Which : uint8_t { Linear1, Linear2 };

/// Element (0, 0) of Linear1 or Linear2 over `depth` channels, all others zero, rows' scales
/// `scale`, weights' 1.
float dot(const Variant& v, Which which, uint32_t depth, const std::vector<Term>& terms,
          float scale = 1) {
  const bool first = which == Which::Linear1;
  const RowRule& rule = first ? v.ffn.x : v.ffn.l1;
  CodedRows a{CodeFormat::E4m3, rule.group, std::vector<uint8_t>(depth, 0),
              std::vector<float>(groups_of(depth, rule.group), scale)};
  CodedMatrix w{CodeFormat::E4m3, v.ffn.weights.columns,
                std::vector<uint8_t>(size_t{depth} * kScaleBlock, 0),
                std::vector<float>(groups_of(depth, v.ffn.weights.columns), 1.0f)};
  for (const Term& term : terms) {
    a.codes[term.channel] = encode_e4m3(term.a);
    w.codes[term.channel] = encode_e4m3(term.b);
  }
  std::vector<float> final;
  Product(v.ffn.sum, first ? v.ffn.sum.linear1_span : v.ffn.sum.linear2_span, 1, depth)
      .multiply(a, w, 0, final);
  return final[0];
}

constexpr float kBig = 448.0f * 448.0f;

/// Whether a product of 1 at `channel` survives beside 448 * 448 at channel 0: it does where a
/// promotion lies between.
bool keeps(const Variant& v, Which which, uint32_t depth, uint32_t channel) {
  return dot(v, which, depth, {{0, 448, 448}, {channel, 1, 1}}) == kBig + 1;
}

/// What 1, `small` and -1 in three blocks of 128 channels sum to.
float sum_of_three(const Variant& v, float small) {
  return dot(v, Which::Linear1, 384, {{0, 1, 1}, {128, small, 1}, {256, -1, 1}});
}

/// Whether the value 2^-20 at `channel` keeps a code beside 1 at channel 0.
bool keeps_code(const RowRule& rule, uint32_t channel) {
  std::vector<float> x(256, 0.0f);
  x[0] = 1;
  x[channel] = 0x1p-20f;
  return (code_rows(rule, x.data(), 1, 256).codes[channel] & 0x7F) != 0;
}

/// The scale of a row of 128 channels whose largest is `amax`.
float scale_of(const RowRule& rule, float amax) {
  std::vector<float> x(128, 0.0f);
  x[5] = -amax;
  return code_rows(rule, x.data(), 1, 128).scales[0];
}

/// A block of weights that are all `value` but one that is `amax`, coded by a rule.
CodedMatrix coded_block(const WeightRule& rule, float value, float amax) {
  std::vector<float> w(kScaleBlock * kScaleBlock, value);
  w[77] = amax;
  return code_matrix(rule, w.data(), kScaleBlock, kScaleBlock);
}

/// One expert with drawn weights and two rows, the second with another routing weight.
ExpertStages drawn_expert(const Variant& v, float second_weight = 1) {
  const Shape shape = {1, 1, 1, 256, 128, 2};
  const auto weights = draw_weights(shape, 3, Codes::Common)->expert(0);
  Draw draw(9);
  CodedRows x{CodeFormat::E4m3, kScaleBlock, std::vector<uint8_t>(512), {1, 2, 1, 2}};
  for (uint32_t i = 0; i < 256; ++i) x.codes[i] = x.codes[256 + i] = draw_code(draw, Codes::Common);
  CodedWeights w;
  w.w1.codes = weights->w1_codes;
  w.w1.scales = weights->w1_scales;
  w.w2.codes = weights->w2_codes;
  w.w2.scales = weights->w2_scales;
  return expert_stages(v.ffn, shape, std::numeric_limits<float>::infinity(), x, w,
                       {1.0f, second_weight});
}

bool rows_have_equal_codes(const ExpertStages& stages) {
  const auto half = static_cast<int64_t>(stages.l1.codes.size() / 2);
  return std::equal(stages.l1.codes.begin(), stages.l1.codes.begin() + half,
                    stages.l1.codes.begin() + half);
}

bool rows_have_equal_l2(const ExpertStages& stages) {
  const auto half = static_cast<int64_t>(stages.l2.size() / 2);
  return std::equal(stages.l2.begin(), stages.l2.begin() + half, stages.l2.begin() + half);
}

/// The largest error of an activated value against double from the same gate and up, in units of
/// 2^-24 of the value: a rounding is one at most.
double swiglu_error(const Variant& v) {
  const ExpertStages stages = drawn_expert(v);
  double worst = 0;
  for (uint32_t i = 0; i < 128; ++i) {
    const double gate = stages.linear1[i];
    const double exact = gate / (1 + std::exp(-gate)) * double{stages.linear1[128 + i]};
    if (exact == 0 || std::abs(gate) > 20) continue;
    worst = std::max(worst, std::abs(stages.activated[i] / exact - 1) * 0x1p24);
  }
  return worst;
}

struct Arriving {
  float value;
  uint32_t expert;
  uint32_t rank;
};

/// The first element of y for slots whose rows are `value` in that element.
float combined(const Variant& v, const std::vector<Arriving>& arriving) {
  std::vector<std::vector<uint16_t>> rows;
  std::vector<CombineSlot> slots;
  for (const Arriving& slot : arriving)
    rows.push_back(std::vector<uint16_t>(1, encode_bf16(slot.value)));
  for (size_t i = 0; i < rows.size(); ++i)
    slots.push_back({arriving[i].expert, arriving[i].rank, 1, rows[i].data()});
  uint16_t y = 0;
  combine_token(v.combine, slots, 1, &y);
  return decode_bf16(y);
}

constexpr float kHuge = 0x1p24f;

/// y of a token with zero activations: every l1 group is all zero.
bool zero_token_is_nan(const Variant& v) {
  Problem problem = blank_problem({1, 1, 1, 128, 128, 1}, {1});
  problem.weights = draw_weights(problem.shape, 1, Codes::Common);
  problem.ranks[0].topk_idx[0] = 0;
  const std::vector<uint16_t> y = run_bench(problem, std::nullopt, {&v})[0].y;
  return std::all_of(y.begin(), y.end(), [](uint16_t code) { return code == kBf16Nan; });
}

/// A product of 1 in the first of three groups, whose rows' scales are these.
float across_groups(const Variant& v, const std::array<float, 3>& scales) {
  CodedRows a{CodeFormat::E4m3, kScaleBlock, std::vector<uint8_t>(384, 0),
              std::vector<float>(scales.begin(), scales.end())};
  CodedMatrix w{CodeFormat::E4m3, kScaleBlock, std::vector<uint8_t>(384 * kScaleBlock, 0),
                std::vector<float>(3, 1.0f)};
  a.codes[0] = w.codes[0] = encode_e4m3(1);
  std::vector<float> final;
  Product(v.ffn.sum, kScaleBlock, 1, 384).multiply(a, w, 0, final);
  return final[0];
}

/// The same by the published rule, step by step.
float carried_across(const std::array<float, 3>& scales, bool by_ratio) {
  const std::array<uint8_t, kTensorCoreK> zeros{};
  float final = 1;
  for (size_t group = 0; group < scales.size(); ++group) {
    const float reciprocal = rcp_approx(scales[group]);
    if (group > 0) final *= by_ratio ? scales[group - 1] * reciprocal : reciprocal;
    for (int step = 0; step < 4; ++step)
      final = tensor_core_step(zeros.data(), zeros.data(), final);
    if (!by_ratio || group + 1 == scales.size()) final *= scales[group];
  }
  return final;
}

/// Whether a sum crosses groups by one published rule, for scales that tell it from the other.
bool crosses_groups(const Variant& v, bool by_ratio) {
  uint32_t telling = 0;
  for (float second = 1; second < 30; ++second) {
    for (float third = 1; third < 30; ++third) {
      const std::array<float, 3> scales = {1.1f, second * 0.7f, third * 0.3f};
      const float expected = carried_across(scales, by_ratio);
      if (across_groups(v, scales) != expected) return false;
      telling += expected != carried_across(scales, !by_ratio) ? 1 : 0;
    }
  }
  return telling > 0;
}

const std::vector<Hallmark> kAccumulation = {
    {"reuse-rescale", "NaN for an all-zero group; a sum is divided and multiplied by each scale",
     [](const Variant& v) { return zero_token_is_nan(v) && crosses_groups(v, false); }},
    {"reuse-rescale-ratio", "NaN for an all-zero group; a sum is multiplied by ratios of scales",
     [](const Variant& v) { return zero_token_is_nan(v) && crosses_groups(v, true); }},
    {"promote-32", "a small product survives one step later",
     [](const Variant& v) { return keeps(v, Which::Linear1, 128, 32); }},
    {"promote-64", "a small product of Linear1 survives two steps later, not one",
     [](const Variant& v) {
       return keeps(v, Which::Linear1, 128, 64) && !keeps(v, Which::Linear1, 128, 32);
     }},
    {"promote-128", "a small product of Linear2 is lost two steps later, not four",
     [](const Variant& v) {
       return !keeps(v, Which::Linear2, 256, 64) && keeps(v, Which::Linear2, 256, 128);
     }},
    {"promote-256", "a small product is lost four steps later, not eight",
     [](const Variant& v) {
       return !keeps(v, Which::Linear1, 512, 128) && keeps(v, Which::Linear1, 512, 256);
     }},
    {"promote-whole", "a small product is lost wherever it is",
     [](const Variant& v) {
       return !keeps(v, Which::Linear1, 512, 256) && !keeps(v, Which::Linear2, 512, 256);
     }},
    {"promote-unfused", "a product and its negative, each rounded, leave nothing",
     [](const Variant& v) {
       const float scale = 1 + 0x1p-23f;
       const std::vector<Term> terms = {
           {0, -1, 1}, {1, -0x1p-6f, 0x1p-7f}, {128, 1, 1}, {129, 0x1p-6f, 0x1p-7f}};
       return dot(v, Which::Linear1, 256, terms, scale) == 0;
     }},
    {"accumulate-exact", "a small product survives in the same step",
     [](const Variant& v) { return keeps(v, Which::Linear1, 128, 1); }},
    {"accumulate-fp16", "448 * 448 overflows",
     [](const Variant& v) {
       return std::isinf(dot(v, Which::Linear1, 128, {{0, 448, 448}}, 0x1p-8f));
     }},
    {"sum-bf16", "1, 2^-9, -1 sum to 0",
     [](const Variant& v) { return sum_of_three(v, 0x1p-9f) == 0; }},
    {"sum-fp16", "1, 2^-9, -1 sum to 2^-9; a step further 1, 2^-9 * 2^-3, -1 to 0",
     [](const Variant& v) {
       const float small =
           dot(v, Which::Linear1, 384, {{0, 1, 1}, {128, 0x1p-9f, 0x1p-3f}, {256, -1, 1}});
       return sum_of_three(v, 0x1p-9f) == 0x1p-9f && small == 0;
     }},
};

const std::vector<Hallmark> kQuantisation = {
    {"group-32", "a small value keeps its code 32 channels from a large one",
     [](const Variant& v) { return keeps_code(v.ffn.x, 32) && keeps_code(v.ffn.l1, 32); }},
    {"group-64", "a small value of x keeps its code 64 channels from a large one, not 32",
     [](const Variant& v) { return keeps_code(v.ffn.x, 64) && !keeps_code(v.ffn.x, 32); }},
    {"group-128", "a small Linear1 output is flushed 64 channels from a large one, not 128",
     [](const Variant& v) { return !keeps_code(v.ffn.l1, 64) && keeps_code(v.ffn.l1, 128); }},
    {"group-row", "a small value is flushed wherever in the row it is",
     [](const Variant& v) { return !keeps_code(v.ffn.x, 255) && !keeps_code(v.ffn.l1, 255); }},
    {"scale-pow2", "scales of x and weights are powers of two, at or above amax / 448",
     [](const Variant& v) {
       return scale_of(v.ffn.x, 300) == 1 && scale_of(v.ffn.x, 500) == 2 &&
              coded_block(v.ffn.weights, 1, 500).scales[0] == 2;
     }},
    {"scale-pow2-nearest", "amax 600 has the scale 1 and is cut to 448",
     [](const Variant& v) {
       const CodedMatrix w = coded_block(v.ffn.weights, 1, 600);
       return scale_of(v.ffn.x, 600) == 1 && scale_of(v.ffn.x, 700) == 2 && w.scales[0] == 1 &&
              w.codes[77] == kE4m3MaxCode;
     }},
    {"floor-1e-10", "amax 1e-6 has a scale of its own, all zeros have one above 0",
     [](const Variant& v) {
       return scale_of(v.ffn.x, 1e-6f) == 1e-6f / 448 && scale_of(v.ffn.x, 0) == 1e-10f / 448 &&
              coded_block(v.ffn.weights, 0, 0).scales[0] == 1e-10f / 448;
     }},
    {"floor-none", "zeros become NaN codes",
     [](const Variant& v) {
       const std::vector<float> zeros(128, 0.0f);
       return code_rows(v.ffn.x, zeros.data(), 1, 128).codes[0] == kE4m3Nan &&
              (coded_block(v.ffn.weights, 0, 0).codes[0] & 0x7F) == kE4m3Nan;
     }},
    {"l1-scale-fp32", "Linear1's scale is amax / 448",
     [](const Variant& v) { return scale_of(v.ffn.l1, 500) == 500.0f / 448; }},
    {"l1-scale-nearest", "amax 600 of Linear1 has the scale 1",
     [](const Variant& v) { return scale_of(v.ffn.l1, 600) == 1; }},
    {"l1-floor-1e-4", "all zeros of Linear1 have the scale 2^-22, the power above 1e-4 / 448",
     [](const Variant& v) { return scale_of(v.ffn.l1, 0) == 0x1p-22f; }},
    {"l1-floor-1e-10", "all zeros of Linear1 have the scale 2^-42, the power above 1e-10 / 448",
     [](const Variant& v) { return scale_of(v.ffn.l1, 0) == 0x1p-42f; }},
    {"l1-e5m2", "2^-20 keeps a code beside 1 in a group of Linear1, and 9 / 8 has none",
     [](const Variant& v) {
       std::vector<float> x(64, 0.0f);
       x[0] = 1;
       x[1] = 1.125f;
       const CodedRows coded = code_rows(v.ffn.l1, x.data(), 1, 64);
       return keeps_code(v.ffn.l1, 1) && coded.codes[0] == coded.codes[1];
     }},
    {"e5m2", "2^-20 keeps a code beside 1 in x, and in weights",
     [](const Variant& v) {
       return keeps_code(v.ffn.x, 1) &&
              (coded_block(v.ffn.weights, 0x1p-20f, 1).codes[0] & 0x7F) != 0;
     }},
    {"mxfp4-weights", "beside 6, the weight 2.4 becomes 2 and 0.2 becomes 0",
     [](const Variant& v) {
       const auto decoded = [&v](float value) {
         const CodedMatrix w = coded_block(v.ffn.weights, value, 6);
         return decode_e4m3(w.codes[78]) * w.scales[0];
       };
       return decoded(2.4f) == 2 && decoded(0.2f) == 0 && decoded(0.3f) == 0.5f;
     }},
};

const std::vector<Hallmark> kEpilogue = {
    {"linear1-bf16", "gate and up have no bits below BF16",
     [](const Variant& v) {
       const std::vector<float> linear1 = drawn_expert(v).linear1;
       return std::all_of(linear1.begin(), linear1.end(),
                          [](float value) { return round_to_bf16(value) == value; });
     }},
    {"swiglu-exact", "the activation is within five roundings of double",
     [](const Variant& v) { return swiglu_error(v) <= 5; }},
    {"weight-at-scatter", "codes of Linear1 do not depend on the routing weight, rows do",
     [](const Variant& v) {
       const ExpertStages stages = drawn_expert(v, 3);
       return rows_have_equal_codes(stages) && !rows_have_equal_l2(stages);
     }},
    {"weight-at-combine", "neither codes of Linear1 nor rows depend on the routing weight",
     [](const Variant& v) { return rows_have_equal_l2(drawn_expert(v, 3)); }},
    {"combine-by-expert", "2^24, 1, -2^24 give 1 where their experts are 0, 2, 1",
     [](const Variant& v) {
       return combined(v, {{kHuge, 0, 0}, {1, 2, 0}, {-kHuge, 1, 0}}) == 1;
     }},
    {"combine-by-rank", "1 and 2^-9 of one rank travel as 1",
     [](const Variant& v) {
       return combined(v, {{1, 0, 0}, {0x1p-9f, 1, 0}, {-1, 2, 1}}) == 0 &&
              combined(v, {{1, 0, 0}, {0x1p-9f, 1, 1}, {-1, 2, 2}}) == 0x1p-9f;
     }},
    {"combine-pairwise", "2^24, 1, 1, -2^24 give 1",
     [](const Variant& v) {
       return combined(v, {{kHuge, 0, 0}, {1, 1, 0}, {1, 2, 0}, {-kHuge, 3, 0}}) == 1;
     }},
    {"combine-bf16", "1, 2^-9, -1 give 0, whatever their ranks",
     [](const Variant& v) {
       return combined(v, {{1, 0, 0}, {0x1p-9f, 1, 1}, {-1, 2, 2}}) == 0;
     }},
    {"combine-fp8", "2^-20 is flushed beside 1 in the same row",
     [](const Variant& v) {
       std::vector<uint16_t> row(128, 0);
       row[0] = encode_bf16(1);
       row[1] = encode_bf16(0x1p-20f);
       std::vector<uint16_t> y(128);
       combine_token(v.combine, {{0, 0, 1, row.data()}}, 128, y.data());
       return y[0] == row[0] && y[1] == 0;
     }},
};

}  // namespace

const std::vector<Hallmark>& hallmarks() {
  static const std::vector<Hallmark> kAll = [] {
    std::vector<Hallmark> all = kAccumulation;
    all.insert(all.end(), kQuantisation.begin(), kQuantisation.end());
    all.insert(all.end(), kEpilogue.begin(), kEpilogue.end());
    return all;
  }();
  return kAll;
}

}  // namespace moetwin::test
