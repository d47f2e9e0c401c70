// The second witness: the layer in double from the same codes and scales, with no requantisation
// and no rounding between the steps, and the error of a result against it. It says how good the
// arithmetic contract is; equality of bits is not its business.
#pragma once

#include <cstdint>
#include <vector>

#include "model/data_spec.h"
#include "model/problem.h"

namespace moetwin {

struct Float64Options {
  uint32_t threads = 0;  ///< OpenMP threads; 0: as many as OpenMP gives. Never changes a bit.
};

/// y of the layer in double: [sum of tokens, H], ranks in order.
struct Float64Result {
  Shape shape;
  std::vector<uint32_t> tokens;  ///< [R]
  std::vector<double> y;         ///< [sum of tokens, H]
};

/// Runs the layer in double from the quantised tensors of `problem`, activation limit included.
Float64Result run_float64(const Problem& problem, const Float64Options& options = {});

/// Runs the layer in double from the tensors before quantisation: x as `x_data` makes it, weights
/// as `weight_data` does, everything else from `problem`. Both must have such a form
/// (has_unquantised).
Float64Result run_float64_unquantised(const Problem& problem, const DataSpec& x_data,
                                      const DataSpec& weight_data,
                                      const Float64Options& options = {});

/// How far a BF16 result lies from a reference. Elements that are not finite on either side are
/// counted and left out of every other number. With a zero reference, relative_rms is 0 if the
/// result is zero too and infinite if not.
struct ErrorMetrics {
  double relative_rms = 0;  ///< sqrt(sum (y - ref)^2 / sum ref^2)
  double max_abs = 0;       ///< largest |y - ref|
  uint32_t worst_rank = 0;  ///< where max_abs is (the first such place)
  uint32_t worst_token = 0;
  uint32_t worst_column = 0;
  double cosine = 1;     ///< y . ref / (|y| |ref|); 1 if both are zero, 0 if one is
  double calc_diff = 0;  ///< 1 - 2 y . ref / (|y|^2 + |ref|^2); 0 if both are zero
  uint64_t non_finite_result = 0;
  uint64_t non_finite_reference = 0;
};

/// `result` and `reference` must come from the same shape and tokens.
ErrorMetrics error_against(const Float64Result& reference, const LayerResult& result);

}  // namespace moetwin
