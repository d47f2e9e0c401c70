#include "tests/numerics_rules.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <numeric>
#include <stdexcept>

namespace moetwin::test {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

constexpr uint32_t kNanBits = 0x7FFFFFFF;

enum class Cut { TowardZero, Floor, Nearest };

double cut(double value, Cut how) {
  if (how == Cut::Floor) return std::floor(value);
  return how == Cut::Nearest ? std::nearbyint(value) : std::trunc(value);
}

/// A multiple of 2^unit near `value`.
double cut_to(double value, int unit, Cut how) {
  return std::ldexp(cut(std::ldexp(value, -unit), how), unit);
}

struct Term {
  double value;
  int exponent;
};

bool is_nan_code(uint8_t code) { return (code & 0x7F) == 0x7F; }

int code_exponent(uint8_t code, Change change) {
  const int field = (code >> 3) & 0xF;
  if (field == 0 && (code & 7) != 0 && change == Change::H2aNormalisedSubnormals) {
    return std::ilogb(eval_e4m3_value(code));
  }
  return std::max(field, 1) - 7;
}

std::vector<Term> terms_of(const uint8_t* a, const uint8_t* b, size_t count, Change change) {
  std::vector<Term> terms;
  for (size_t k = 0; k < count; ++k) {
    const double value = double{eval_e4m3_value(a[k])} * double{eval_e4m3_value(b[k])};
    int exponent = code_exponent(a[k], change) + code_exponent(b[k], change);
    if (change == Change::H2aNormalisedProduct && value != 0) {
      exponent = std::max(exponent, std::ilogb(value));
    }
    if (value == 0 && change != Change::H2aZeroProducts) continue;
    terms.push_back({value, exponent});
  }
  return terms;
}

/// Sum and cut of section 2a; `terms` of products, C apart.
float aligned_sum(const std::vector<Term>& terms, float c, Change change) {
  const int c_exponent = c == 0 ? 0 : std::max(std::ilogb(c), -126);
  int largest = -126;
  for (const Term& term : terms) largest = std::max(largest, term.exponent);
  if (c != 0 || change == Change::H2aZeroC) largest = std::max(largest, c_exponent);
  const int bits = change == Change::H2aBits12 ? 12 : change == Change::H2aBits14 ? 14 : 13;
  const Cut how = change == Change::H2aAlignFloor     ? Cut::Floor
                  : change == Change::H2aAlignNearest ? Cut::Nearest
                                                      : Cut::TowardZero;
  double sum = 0;
  bool any_negative = std::signbit(c);
  for (const Term& term : terms) {
    sum += cut_to(term.value, largest - bits, how);
    any_negative = any_negative || term.value < 0;
  }
  sum += change == Change::H2aCUncut ? double{c} : cut_to(c, largest - bits, how);
  if (sum == 0) return change == Change::H2aNegativeZero && any_negative ? -0.0f : 0.0f;
  const int result_bits = change == Change::H2aResultBits12   ? 12
                          : change == Change::H2aResultBits14 ? 14
                          : change == Change::H2aResultBits23 ? 23
                                                              : 13;
  const Cut result_how = change == Change::H2aResultFloor     ? Cut::Floor
                         : change == Change::H2aResultNearest ? Cut::Nearest
                                                              : Cut::TowardZero;
  const int unit = std::max(std::ilogb(sum), -126) - result_bits;
  return static_cast<float>(cut_to(sum, unit, result_how));
}

struct Segment {
  int64_t c0, c1, c2;
};

std::vector<Segment> read_segments(const std::string& name) {
  std::ifstream file(std::string(MOETWIN_TEST_DATA) + "/" + name);
  std::string line;
  std::getline(file, line);
  std::vector<Segment> segments;
  int64_t index = 0;
  char comma = 0;
  Segment segment{};
  while (file >> index >> comma >> segment.c0 >> comma >> segment.c1 >> comma >> segment.c2) {
    segments.push_back(segment);
  }
  if (segments.empty()) throw std::runtime_error(name + ": no coefficients");
  return segments;
}

/// The folded squarer: bit i of x adds x shifted right by 18 - i, and the sum loses its last bit.
int64_t square(int64_t x, bool exact) {
  if (exact) return x * x >> 19;
  int64_t sum = 0;
  for (int i = 0; i < 17; ++i) {
    if ((x >> i & 1) != 0) sum += x >> (18 - i);
  }
  return sum >> 1;
}

/// `bits` as a float's bits, or what overflow and ftz make of it.
float scaled_bits(int64_t bits, bool subnormals_kept) {
  constexpr int64_t kUnit = int64_t{1} << 23;
  if (bits >= 255 * kUnit) return of_bits(0x7F800000);
  if (bits >= kUnit) return of_bits(static_cast<uint32_t>(bits));
  if (!subnormals_kept) return 0;
  const int64_t below = (kUnit - 1 - bits) / kUnit;
  const float normal = of_bits(static_cast<uint32_t>(bits + below * kUnit));
  return std::ldexp(normal, static_cast<int>(-below));
}

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

float eval_e4m3_value(uint8_t code) {
  if (is_nan_code(code)) return std::nanf("");
  const int field = (code >> 3) & 0xF;
  const float mantissa = static_cast<float>(code & 7) / 8;
  const float size = field == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, field - 7);
  return (code & 0x80) != 0 ? -size : size;
}

float eval_step(const uint8_t* a, const uint8_t* b, float c, Change change) {
  bool any_nan = std::isnan(c);
  for (size_t k = 0; k < 32; ++k) {
    const bool is_nan = is_nan_code(a[k]) || is_nan_code(b[k]);
    const bool other_zero = (a[k] & 0x7F) == 0 || (b[k] & 0x7F) == 0;
    any_nan = any_nan || (is_nan && !(other_zero && change == Change::H2aNanTimesZero));
  }
  if (any_nan) return of_bits(change == Change::H2aQuietNan ? 0x7FC00000 : kNanBits);
  if (std::isinf(c)) return change == Change::H2aInfiniteC ? of_bits(kNanBits) : c;
  std::array<uint8_t, 32> finite_a;
  for (size_t k = 0; k < 32; ++k) finite_a[k] = is_nan_code(a[k]) ? 0 : a[k];
  std::array<uint8_t, 32> finite_b;
  for (size_t k = 0; k < 32; ++k) finite_b[k] = is_nan_code(b[k]) ? 0 : b[k];
  if (change == Change::H2aTwoHalves) {
    const float half =
        aligned_sum(terms_of(finite_a.data(), finite_b.data(), 16, change), c, change);
    return aligned_sum(terms_of(finite_a.data() + 16, finite_b.data() + 16, 16, change), half,
                       change);
  }
  const std::vector<Term> terms = terms_of(finite_a.data(), finite_b.data(), 32, change);
  if (change == Change::H2aCAddedAfter) return aligned_sum(terms, 0.0f, change) + c;
  return aligned_sum(terms, c, change);
}

uint8_t eval_e4m3(float value, Change change) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) {
    return change == Change::H2bNanKeepsSign ? static_cast<uint8_t>(0x7F | sign) : 0x7F;
  }
  const double size = std::fabs(double{value});
  const int exponent = size < 0x1p-6 ? -6 : std::isinf(value) ? 1024 : std::ilogb(size);
  if (change == Change::H2bFlushSubnormals && size < 0x1p-6) return sign;
  if (exponent > 8) {
    return change == Change::H2bOverflowToNan ? 0x7F : static_cast<uint8_t>(0x7E | sign);
  }
  const double units = std::ldexp(size, 3 - exponent);
  double kept = std::nearbyint(units);
  if (change == Change::H2bTiesAway) kept = std::floor(units + 0.5);
  if (change == Change::H2bCut) kept = std::floor(units);
  // Units of the lowest normal exponent continue the subnormal ones, and a full significand of 16
  // units is the next exponent's 8.
  const int code = (exponent + 6) * 8 + static_cast<int>(kept);
  if (code > 0x7E) {
    return change == Change::H2bOverflowToNan ? 0x7F : static_cast<uint8_t>(0x7E | sign);
  }
  return static_cast<uint8_t>(code | sign);
}

uint16_t eval_bf16(float value) { return eval_output(value, Change::None); }

float eval_ex2(double value, Change change) {
  static const std::vector<Segment> segments = read_segments("mufu_ex2.csv");
  if (std::isnan(value)) return of_bits(kNanBits);
  if (std::fabs(value) >= 512) return value > 0 ? of_bits(0x7F800000) : 0.0f;
  if (change == Change::H2dCorrectlyRounded) return static_cast<float>(std::exp2(value));
  const double units = std::ldexp(std::fabs(value), 23);
  const int64_t t = static_cast<int64_t>(
      change == Change::H2dArgumentNearest ? std::nearbyint(units) : std::trunc(units));
  int64_t j = t;
  if (std::signbit(value)) {
    const bool whole = (t & 0x7FFFFF) == 0 || change == Change::H2dNegated;
    j = whole ? -t : -t - 1;
  }
  const int64_t fraction = j & 0x7FFFFF;
  const Segment& segment = segments[static_cast<size_t>(fraction >> 17)];
  const int64_t low = fraction & 0x1FFFF;
  const int64_t rounding = change == Change::H2dRoundingConstant ? 0x4000 : 0x77E2;
  const int64_t quadratic = (segment.c0 << 13) + segment.c1 * low +
                            segment.c2 * square(low, change == Change::H2dExactSquare) + rounding;
  return scaled_bits(0x3F000000 + (quadratic >> 15) + ((j >> 23) << 23),
                     change == Change::H2dSubnormalsKept);
}

float eval_rcp(float value, Change change) {
  static const std::vector<Segment> segments = read_segments("mufu_rcp.csv");
  if (std::isnan(value)) return of_bits(kNanBits);
  const float sign = std::copysign(1.0f, value);
  const float size = std::fabs(value);
  if (size < 0x1p-126f && !(size > 0 && change == Change::H2cSubnormalInputRead)) {
    return sign * of_bits(0x7F800000);
  }
  if (change == Change::H2cSubnormalInputRead && size < 0x1p-126f) return 1.0f / value;
  if (std::isinf(value)) return sign * 0.0f;
  if (change == Change::H2cCorrectlyRounded) {
    const float exact = 1.0f / size;
    return sign * (exact < 0x1p-126f ? 0.0f : exact);
  }
  const int64_t mantissa = bits_of(size) & 0x7FFFFF;
  const int64_t exponent = static_cast<int64_t>(bits_of(size) >> 23) - 127;
  const Segment& segment = segments[static_cast<size_t>(mantissa >> 16)];
  const int64_t low = mantissa & 0xFFFF;
  const int64_t rounding = change == Change::H2cRoundingConstant ? 0x4000 : 0x47E7;
  const int64_t quadratic = (segment.c0 << 13) + segment.c1 * low +
                            segment.c2 * square(2 * low, change == Change::H2cExactSquare) +
                            rounding;
  return sign * scaled_bits(0x3E800000 + (quadratic >> 15) - (exponent << 23),
                            change == Change::H2cSubnormalsKept);
}

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
