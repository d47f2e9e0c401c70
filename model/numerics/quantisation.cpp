#include "model/numerics/quantisation.h"

#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "common/epilogue_math.h"
#include "model/numerics/small_floats.h"

namespace moetwin::numerics {
namespace {

constexpr uint64_t kMxfp4Group = 32;

/// The power of two nearest to a / 448 (S7 with another rounding).
GroupScale nearest_scale(float amax) {
  const float quotient = mul_rn(amax, kInverseE4m3Max);
  const uint32_t bits = bits_of_float(quotient);
  const uint32_t half = 1u << (kFloatMantissaBits - 1);
  const uint32_t biased = ((bits + half) >> kFloatMantissaBits) & 0xFF;
  return {float_of_bits(biased << kFloatMantissaBits),
          float_of_bits((2 * kFloatBias - biased) << kFloatMantissaBits)};
}

/// Scale and the factor that quantises by it. Weights divide by the scale instead where it is
/// plain.
GroupScale scale_of(CodeFormat format, ScaleRule rule, float floor, float amax) {
  const float raised = amax < floor ? floor : amax;
  if (rule == ScaleRule::Plain) {
    const float scale = div_rn(raised, largest_value(format));
    return {scale, div_rn(1.0f, scale)};
  }
  // 57344 is 128 times 448.
  const float as_e4m3 = format == CodeFormat::E4m3 ? raised : raised * 0x1p-7f;
  return rule == ScaleRule::PowerOfTwoUp ? group_scale(as_e4m3) : nearest_scale(as_e4m3);
}

/// Counts what became of `size` values that share a scale.
void count_group(CodeFormat format, const float* values, const uint8_t* codes, uint64_t size,
                 float scale, CodeCounts& counts) {
  // Half a unit above the largest value still rounds to it and is no cut.
  const float tie = format == CodeFormat::E4m3 ? 464.0f : 61440.0f;
  const float limit = tie * scale;
  const CodeValues& decoded = code_values(format);
  counts.values += size;
  for (uint64_t i = 0; i < size; ++i) {
    const float value = decoded[codes[i]];
    if (std::isnan(value)) {
      ++counts.non_finite;
    } else if (value == 0) {
      counts.flushed += values[i] != 0 ? 1 : 0;
    } else if (magnitude(values[i]) >= limit) {
      ++counts.saturated;
    }
  }
}

float amax_of(const float* values, uint64_t count, float amax) {
  for (uint64_t i = 0; i < count; ++i) amax = amax_step(amax, values[i]);
  return amax;
}

struct GroupPlace {
  uint64_t begin;
  uint64_t size;
};

/// Where a row's group lies among all elements.
GroupPlace group_place(uint64_t row, uint64_t group, uint32_t width, uint64_t depth) {
  const uint64_t begin = width == kWhole ? 0 : group * width;
  const uint64_t end = width == kWhole ? depth : std::min(begin + width, depth);
  return {row * depth + begin, end - begin};
}

/// One block of 128 rows and the columns [begin, end) of a matrix.
float code_block(const WeightRule& rule, const float* w, uint64_t depth, uint64_t begin,
                 uint64_t end, uint8_t* codes) {
  float amax = 0;
  for (uint64_t row = 0; row < kScaleBlock; ++row)
    amax = amax_of(w + row * depth + begin, end - begin, amax);
  const GroupScale scale = scale_of(rule.format, rule.scale, rule.floor, amax);
  for (uint64_t row = 0; row < kScaleBlock; ++row) {
    for (uint64_t at = row * depth + begin; at < row * depth + end; ++at) {
      const float scaled = rule.scale == ScaleRule::Plain ? div_rn(w[at], scale.scale)
                                                          : mul_rn(w[at], scale.inverse);
      codes[at] = encode_code(rule.format, scaled);
    }
  }
  return scale.scale;
}

}  // namespace

void CodeCounts::add(const CodeCounts& other) {
  values += other.values;
  saturated += other.saturated;
  flushed += other.flushed;
  non_finite += other.non_finite;
}

CodedRows code_rows(const RowRule& rule, const float* x, uint64_t rows, uint64_t depth) {
  CodedRows coded{rule.format, rule.group, {}, {}};
  const uint64_t groups = groups_of(depth, rule.group);
  coded.codes.resize(rows * depth);
  coded.scales.resize(rows * groups);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t group = 0; group < groups; ++group) {
      const auto [begin, size] = group_place(row, group, rule.group, depth);
      const float amax = amax_of(x + begin, size, 0.0f);
      const GroupScale scale = scale_of(rule.format, rule.scale, rule.floor, amax);
      coded.scales[row * groups + group] = scale.scale;
      for (uint64_t at = begin; at < begin + size; ++at) {
        coded.codes[at] = encode_code(rule.format, mul_rn(x[at], scale.inverse));
      }
    }
  }
  return coded;
}

void round_through_mxfp4(const float* w, uint64_t count, float* out) {
  for (uint64_t begin = 0; begin < count; begin += kMxfp4Group) {
    const uint64_t end = std::min(begin + kMxfp4Group, count);
    float amax = 0;
    bool finite = true;
    for (uint64_t i = begin; i < end; ++i) {
      amax = amax_step(amax, w[i]);
      finite = finite && std::isfinite(w[i]);
    }
    if (amax == 0 || !finite) {
      std::copy(w + begin, w + end, out + begin);
      continue;
    }
    constexpr int kLargestExponent = 2;  // of E2M1
    const int exponent = std::ilogb(amax) - kLargestExponent;
    for (uint64_t i = begin; i < end; ++i)
      out[i] = std::ldexp(round_to_e2m1(std::ldexp(w[i], -exponent)), exponent);
  }
}

CodedMatrix code_matrix(const WeightRule& rule, const float* w, uint64_t rows, uint64_t depth) {
  MOETWIN_CHECK(rows % kScaleBlock == 0);
  CodedMatrix coded{rule.format, rule.columns, {}, {}};
  const uint64_t groups = groups_of(depth, rule.columns);
  const uint64_t width = rule.columns == kWhole ? depth : rule.columns;
  coded.codes.resize(rows * depth);
  coded.scales.resize(rows / kScaleBlock * groups);
  std::vector<float> rounded;
  if (rule.through_mxfp4) rounded.resize(kScaleBlock * depth);
  for (uint64_t block = 0; block < rows / kScaleBlock; ++block) {
    const float* values = w + block * kScaleBlock * depth;
    if (rule.through_mxfp4) {
      for (uint64_t row = 0; row < kScaleBlock; ++row)
        round_through_mxfp4(values + row * depth, depth, rounded.data() + row * depth);
      values = rounded.data();
    }
    for (uint64_t group = 0; group < groups; ++group) {
      coded.scales[block * groups + group] =
          code_block(rule, values, depth, group * width, std::min((group + 1) * width, depth),
                     coded.codes.data() + block * kScaleBlock * depth);
    }
  }
  return coded;
}

CodeCounts count_codes(const CodedRows& coded, const float* x, uint64_t depth) {
  CodeCounts counts;
  const uint64_t groups = groups_of(depth, coded.group);
  for (uint64_t i = 0; i < coded.scales.size(); ++i) {
    const auto [begin, size] = group_place(i / groups, i % groups, coded.group, depth);
    count_group(coded.format, x + begin, coded.codes.data() + begin, size, coded.scales[i], counts);
  }
  return counts;
}

CodeCounts count_codes(const CodedMatrix& coded, const float* w, uint64_t depth) {
  CodeCounts counts;
  const uint64_t groups = groups_of(depth, coded.columns);
  for (uint64_t row = 0; row < coded.codes.size() / depth; ++row) {
    for (uint64_t group = 0; group < groups; ++group) {
      const auto [begin, size] = group_place(row, group, coded.columns, depth);
      count_group(coded.format, w + begin, coded.codes.data() + begin, size,
                  coded.scales[row / kScaleBlock * groups + group], counts);
    }
  }
  return counts;
}

void decode_row(CodeFormat format, const uint8_t* codes, const float* scales, uint32_t group,
                uint64_t depth, double* out) {
  const CodeValues& values = code_values(format);
  const uint64_t width = group == kWhole ? depth : group;
  for (uint64_t begin = 0; begin < depth; begin += width) {
    const double scale = scales[begin / width];
    for (uint64_t i = begin; i < std::min(begin + width, depth); ++i)
      out[i] = double{values[codes[i]]} * scale;
  }
}

}  // namespace moetwin::numerics
