#define EIGEN_DONT_PARALLELIZE
#include "model/numerics/reference.h"

#include <Eigen/Dense>
#include <cmath>
#include <limits>

#include "common/check.h"
#include "model/numerics/quantisation.h"

namespace moetwin::numerics {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// S3 and S4 in double.
double activate(double gate, double up, double limit) {
  if (limit < std::numeric_limits<double>::infinity()) {
    gate = gate < limit ? gate : limit;
    up = up < -limit ? -limit : up;
    up = up < limit ? up : limit;
  }
  return gate / (1.0 + std::exp(-gate)) * up;
}

}  // namespace

std::vector<double> multiply_in_double(const std::vector<double>& x, uint64_t rows, uint64_t depth,
                                       const WeightRows& weights, uint64_t blocks) {
  MOETWIN_CHECK(x.size() == rows * depth);
  std::vector<double> out(rows * blocks * kScaleBlock);
  const auto size = [](uint64_t count) { return static_cast<Eigen::Index>(count); };
  const Eigen::Map<const Matrix> operand(x.data(), size(rows), size(depth));
  Eigen::Map<Matrix> result(out.data(), size(rows), size(blocks * kScaleBlock));
  Matrix w(kScaleBlock, depth);
  for (uint64_t block = 0; block < blocks; ++block) {
    weights(block, w.data());
    result.middleCols(size(block * kScaleBlock), kScaleBlock).noalias() = operand * w.transpose();
  }
  return out;
}

ReferenceStages reference_stages(const Shape& shape, double limit, const std::vector<double>& x,
                                 uint64_t rows, const WeightRows& w1, const WeightRows& w2) {
  const uint64_t intermediate = shape.intermediate;
  ReferenceStages stages;
  stages.linear1 =
      multiply_in_double(x, rows, shape.hidden, w1, 2 * uint64_t{shape.intermediate_blocks()});
  stages.activated.resize(rows * intermediate);
  for (uint64_t row = 0; row < rows; ++row) {
    const double* gate = stages.linear1.data() + row * 2 * intermediate;
    for (uint64_t i = 0; i < intermediate; ++i)
      stages.activated[row * intermediate + i] = activate(gate[i], gate[intermediate + i], limit);
  }
  stages.out = multiply_in_double(stages.activated, rows, intermediate, w2, shape.hidden_blocks());
  return stages;
}

std::vector<double> requantise_reference(const RowRule& rule, const std::vector<double>& activated,
                                         uint64_t depth, const std::vector<double>& factor) {
  const uint64_t rows = factor.size();
  MOETWIN_CHECK(activated.size() == rows * depth);
  std::vector<float> rounded(activated.size());
  for (uint64_t i = 0; i < activated.size(); ++i)
    rounded[i] = static_cast<float>(activated[i] * factor[i / depth]);
  const CodedRows coded = code_rows(rule, rounded.data(), rows, depth);
  const uint64_t groups = groups_of(depth, rule.group);
  std::vector<double> decoded(activated.size());
  for (uint64_t row = 0; row < rows; ++row) {
    decode_row(rule.format, coded.codes.data() + row * depth, coded.scales.data() + row * groups,
               rule.group, depth, decoded.data() + row * depth);
  }
  return decoded;
}

}  // namespace moetwin::numerics
