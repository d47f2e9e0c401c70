// Tensors of data kind file: x.codes and x.scales, w1 and w2 codes and scales, and the same tensors
// before quantisation, x, w1 and w2 in F32 or BF16. Where a file has only the latter, codes are
// made of them by S0 and S1. Shapes are those of DESIGN section 7: x [tokens, H], w1 [E, 2I, H], w2
// [E, H, I].
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/shape.h"
#include "model/data.h"
#include "model/problem.h"

namespace moetwin {

/// Fills x_codes and x_scales of each rank; `total` is the sum of `tokens`. Throws InputError for a
/// file that does not fit.
void read_activations(const std::string& path, const Shape& shape, std::span<const uint32_t> tokens,
                      uint64_t total, std::vector<RankInput>& ranks);

/// Throws InputError at once for a file that does not fit.
std::shared_ptr<const WeightSource> read_weights(const std::string& path, const Shape& shape);

/// Whether the file holds x, w1 and w2.
bool file_has_unquantised(const std::string& path);

void read_unquantised_activations(const std::string& path, const Shape& shape,
                                  std::span<const uint32_t> tokens, uint64_t total,
                                  std::vector<std::vector<float>>& x);
UnquantisedExpert read_unquantised_expert(const std::string& path, const Shape& shape,
                                          uint32_t expert);

}  // namespace moetwin
