// One expert's network in double with every stage kept: what a variant's stages are compared with.
// Operands come from any codes and scales or from tensors before quantisation. Routing weights are
// left out, because a variant may apply them anywhere; they are factors of a row.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/shape.h"
#include "model/numerics/variant.h"

namespace moetwin::numerics {

/// Writes 128 weight rows in double, [128, depth], rows 128 * block on.
using WeightRows = std::function<void(uint64_t block, double* out)>;

/// x [rows, depth] times blocks of 128 weight rows: [rows, 128 * blocks].
std::vector<double> multiply_in_double(const std::vector<double>& x, uint64_t rows, uint64_t depth,
                                       const WeightRows& weights, uint64_t blocks);

struct ReferenceStages {
  std::vector<double> linear1;    ///< [rows, 2I]
  std::vector<double> activated;  ///< [rows, I]
  std::vector<double> out;        ///< [rows, H]
};

/// x is [rows, H]. `limit` is the activation limit, infinity: none.
ReferenceStages reference_stages(const Shape& shape, double limit, const std::vector<double>& x,
                                 uint64_t rows, const WeightRows& w1, const WeightRows& w2);

/// What `activated` [rows, depth], times each row's `factor`, becomes when it is rounded to float,
/// quantised by `rule` and decoded again.
std::vector<double> requantise_reference(const RowRule& rule, const std::vector<double>& activated,
                                         uint64_t depth, const std::vector<double>& factor);

}  // namespace moetwin::numerics
