// Whether a launch's token counts fit its shape; the check every maker of inputs begins with.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/check.h"
#include "common/shape.h"

namespace moetwin {

/// Throws InputError for a shape outside its limits.
inline void check_shape(const Shape& shape) {
  if (const ShapeError error = validate(shape)) {
    throw InputError(std::string(error.field) + ": " + std::to_string(error.value) + " is not " +
                     error.limit);
  }
}

/// The sum of `tokens`. Throws InputError as check_shape, for a number of counts that is not
/// shape.ranks and for a count above max_tokens_per_rank.
inline uint64_t check_launch_sizes(const Shape& shape, std::span<const uint32_t> tokens) {
  check_shape(shape);
  if (tokens.size() != shape.ranks) {
    throw InputError("tokens: " + std::to_string(tokens.size()) + " entries; shape.ranks is " +
                     std::to_string(shape.ranks));
  }
  uint64_t total = 0;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    if (tokens[rank] > shape.max_tokens_per_rank) {
      throw InputError("tokens[" + std::to_string(rank) + "]: " + std::to_string(tokens[rank]) +
                       " is above shape.max_tokens_per_rank, " +
                       std::to_string(shape.max_tokens_per_rank));
    }
    total += tokens[rank];
  }
  return total;
}

}  // namespace moetwin
