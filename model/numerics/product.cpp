// Threads work on different experts, so Eigen multiplies with one.
#define EIGEN_DONT_PARALLELIZE
#include "model/numerics/product.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "common/check.h"
#include "common/epilogue_math.h"
#include "model/numerics/small_floats.h"
#include "model/numerics/wide_steps.h"
#include "model/tensor_core.h"

namespace moetwin::numerics {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows' scales and the weight block's for the group that a channel lies in.
struct Scales {
  const float* row;
  uint64_t row_stride;
  float weight;

  float product(uint64_t r) const { return mul_rn(row[r * row_stride], weight); }
};

Scales scales_at(const CodedRows& a, const CodedMatrix& w, uint64_t block, uint64_t depth,
                 uint64_t channel) {
  const uint64_t groups = groups_of(depth, a.group);
  return {a.scales.data() + group_at(channel, a.group), groups,
          w.scales[block * groups_of(depth, w.columns) + group_at(channel, w.columns)]};
}

/// Chained steps from what acc holds. An element that is not finite stays so whatever the products
/// are (NUMERICS 2a), so the chain is spared it; a NaN among the codes still wins over infinity.
void chain_steps(const uint8_t* a, uint64_t pitch, uint64_t rows, const uint8_t* weights,
                 uint32_t steps, std::vector<float>& acc) {
  std::vector<std::pair<size_t, float>> kept;
  for (size_t i = 0; i < acc.size(); ++i) {
    if (std::isfinite(acc[i])) continue;
    kept.emplace_back(i, std::isnan(acc[i]) ? float_of_bits(kHardwareNanBits) : acc[i]);
    acc[i] = 0;
  }
  tile_steps_from(a, pitch, static_cast<uint32_t>(rows), weights, pitch, kProductColumns, steps,
                  acc.data());
  for (const auto& [at, value] : kept)
    if (!std::isnan(acc[at])) acc[at] = value;
}

}  // namespace

Product::Product(const SumRule& rule, uint32_t span, uint64_t rows, uint64_t depth)
    : rule_(rule),
      span_(span == kWhole ? depth : span),
      rows_(rows),
      depth_(depth),
      accumulator_(rows * kProductColumns) {
  MOETWIN_CHECK(span_ % kTensorCoreK == 0 && depth % kTensorCoreK == 0);
}

void Product::multiply(const CodedRows& a, const CodedMatrix& w, uint64_t block,
                       std::vector<float>& final) {
  MOETWIN_CHECK(a.group == kWhole || a.group % span_ == 0 || a.group >= depth_);
  MOETWIN_CHECK(w.columns == kWhole || w.columns % span_ == 0 || w.columns >= depth_);
  const bool e4m3 = a.format == CodeFormat::E4m3 && w.format == CodeFormat::E4m3;
  MOETWIN_CHECK(e4m3 || rule_.accumulator == Accumulator::TensorCore);
  final.assign(rows_ * kProductColumns, 0.0f);
  const bool kept_in_core = rule_.accumulator == Accumulator::ReuseRescale ||
                            rule_.accumulator == Accumulator::ReuseRescaleRatio;
  kept_in_core ? reuse(a, w, block, final.data()) : promote_spans(a, w, block, final.data());
}

float Product::round_sum(float sum) const {
  if (rule_.running == RunningSum::Bf16) return round_to_bf16(sum);
  if (rule_.running == RunningSum::Fp16) return round_to_fp16(sum);
  return sum;
}

void Product::promote_spans(const CodedRows& a, const CodedMatrix& w, uint64_t block,
                            float* final) {
  for (uint64_t begin = 0; begin < depth_; begin += span_) {
    accumulate({begin, std::min(begin + span_, depth_)}, a, w, block);
    const Scales scales = scales_at(a, w, block, depth_, begin);
    for (uint64_t row = 0; row < rows_; ++row) {
      const float row_scale = scales.row[row * scales.row_stride];
      for (uint64_t at = row * kProductColumns; at < (row + 1) * kProductColumns; ++at) {
        const float sum = rule_.fused
                              ? promote(final[at], accumulator_[at], row_scale, scales.weight)
                              : add_rn(mul_rn(scales.product(row), accumulator_[at]), final[at]);
        final[at] = round_sum(sum);
      }
    }
  }
}

void Product::accumulate(const Span& span, const CodedRows& a, const CodedMatrix& w,
                         uint64_t block) {
  const uint8_t* rows = a.codes.data() + span.begin;
  const uint8_t* weights = w.codes.data() + block * kProductColumns * depth_ + span.begin;
  const auto count = static_cast<uint32_t>(rows_);
  const auto steps = static_cast<uint32_t>((span.end - span.begin) / kTensorCoreK);
  if (rule_.accumulator == Accumulator::Exact) {
    accumulate_exactly(span, a, w, block);
  } else if (rule_.accumulator == Accumulator::TensorCoreFp16) {
    accumulate_in_fp16(span, a, weights);
  } else if (a.format == CodeFormat::E4m3 && w.format == CodeFormat::E4m3) {
    tile_steps(rows, depth_, count, weights, depth_, kProductColumns, steps, accumulator_.data());
  } else {
    wide_tile_steps({a.format, rows, depth_, count}, {w.format, weights, depth_, kProductColumns},
                    steps, accumulator_.data());
  }
}

/// In double, where a sum of E4M3 products of up to 2^15 channels is exact: 18 fraction bits below
/// the point, 17 + 16 above.
void Product::accumulate_exactly(const Span& span, const CodedRows& a, const CodedMatrix& w,
                                 uint64_t block) {
  const CodeValues& values = code_values(a.format);
  const auto width = static_cast<Eigen::Index>(span.end - span.begin);
  const auto decode = [&](const uint8_t* codes, Matrix& out) {
    for (Eigen::Index row = 0; row < out.rows(); ++row)
      for (Eigen::Index k = 0; k < width; ++k)
        out(row, k) = values[codes[static_cast<uint64_t>(row) * depth_ + static_cast<uint64_t>(k)]];
  };
  Matrix x(rows_, width);
  Matrix weights(kProductColumns, width);
  decode(a.codes.data() + span.begin, x);
  decode(w.codes.data() + block * kProductColumns * depth_ + span.begin, weights);
  Eigen::Map<Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
      accumulator_.data(), static_cast<Eigen::Index>(rows_), kProductColumns) =
      (x * weights.transpose()).cast<float>();
}

void Product::accumulate_in_fp16(const Span& span, const CodedRows& a, const uint8_t* weights) {
  std::fill(accumulator_.begin(), accumulator_.end(), 0.0f);
  for (uint64_t k = span.begin; k < span.end; k += kTensorCoreK) {
    chain_steps(a.codes.data() + k, depth_, rows_, weights + (k - span.begin), 1, accumulator_);
    for (float& value : accumulator_) value = round_to_fp16(value);
  }
}

/// The accumulator is scaled to the next group's units before that group's steps, and to the
/// result's after the last. R stands for the hardware's reciprocal.
void Product::reuse(const CodedRows& a, const CodedMatrix& w, uint64_t block, float* final) {
  const bool by_ratio = rule_.accumulator == Accumulator::ReuseRescaleRatio;
  std::fill(accumulator_.begin(), accumulator_.end(), 0.0f);
  const uint8_t* weights = w.codes.data() + block * kProductColumns * depth_;
  const auto rescale = [&](uint64_t row, float factor) {
    for (uint64_t at = row * kProductColumns; at < (row + 1) * kProductColumns; ++at)
      accumulator_[at] = mul_rn(accumulator_[at], factor);
  };
  for (uint64_t begin = 0; begin < depth_; begin += span_) {
    const Scales now = scales_at(a, w, block, depth_, begin);
    for (uint64_t row = 0; row < rows_ && begin > 0; ++row) {
      float factor = rcp_approx(now.product(row));
      if (by_ratio) {
        const Scales before = scales_at(a, w, block, depth_, begin - span_);
        // Inside one block of weights only the rows' scales change.
        factor = begin % kScaleBlock == 0 ? mul_rn(before.product(row), factor)
                                          : mul_rn(before.row[row * before.row_stride],
                                                   rcp_approx(now.row[row * now.row_stride]));
      }
      rescale(row, factor);
    }
    const auto steps = static_cast<uint32_t>(std::min(span_, depth_ - begin) / kTensorCoreK);
    chain_steps(a.codes.data() + begin, depth_, rows_, weights + begin, steps, accumulator_);
    if (by_ratio && begin + span_ < depth_) continue;
    for (uint64_t row = 0; row < rows_; ++row) rescale(row, now.product(row));
  }
  std::copy(accumulator_.begin(), accumulator_.end(), final);
}

}  // namespace moetwin::numerics
