// Tensors of a launch: activations and expert weights, generated or read, quantised and not. Part
// of case format 1: a value depends on (seed, rank, token, column) or (seed, expert, matrix, row,
// column) alone, whatever the number of tokens, the thread count or the order of the calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/shape.h"
#include "model/data_spec.h"
#include "model/problem.h"

namespace moetwin {

/// Fills x_codes [tokens, H] and x_scales [tokens, H/128] of each rank and leaves the rest of
/// `ranks` as it is, after making it one entry a rank. Kind file reads rows of x.codes and
/// x.scales, or quantises those of x, in order of `tokens`. Throws InputError for counts or files
/// that do not fit the shape.
void make_activations(const DataSpec& spec, const Shape& shape, std::span<const uint32_t> tokens,
                      std::vector<RankInput>& ranks);

/// Weights of any expert on demand. An expert's weights are made by the first who asks, shared
/// while anyone holds them, and made again (with equal bits) after that. Calls for different
/// experts run in parallel; one call uses the OpenMP team unless it is already inside one. Kind
/// file opens the data file at once, and throws InputError if it does not fit the shape.
std::shared_ptr<const WeightSource> make_weights(const DataSpec& spec, const Shape& shape);

/// Whether the tensors exist in a form before quantisation: generated ones do, and those of a data
/// file that holds x, w1 and w2. For kinds that choose codes directly (ties, in part, and extreme)
/// that form is code times scale. Throws InputError if the file cannot be read.
bool has_unquantised(const DataSpec& spec);

/// What tensors before quantisation are made from; both must have them.
struct UnquantisedSpecs {
  DataSpec x;
  DataSpec weights;
};

/// x before quantisation: `x[rank]` is [tokens, H]. `spec` must have it.
void make_unquantised_activations(const DataSpec& spec, const Shape& shape,
                                  std::span<const uint32_t> tokens,
                                  std::vector<std::vector<float>>& x);

/// One expert's weights before quantisation, rows as in ExpertWeights.
struct UnquantisedExpert {
  std::vector<float> w1;  ///< [2I, H]
  std::vector<float> w2;  ///< [H, I]
};

/// `spec` must have unquantised tensors; `expert` < shape.experts.
UnquantisedExpert make_unquantised_expert(const DataSpec& spec, const Shape& shape,
                                          uint32_t expert);

}  // namespace moetwin
