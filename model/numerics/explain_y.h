// Which variant explains a y that was computed elsewhere: reading it, and comparing bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/numerics/bench.h"

namespace moetwin::numerics {

/// y [tokens, hidden] as BF16 bits: the tensor `y` of a .safetensors file or a directory of .npy
/// files, or one .npy file. BF16, or F32 whose values are all BF16. Throws InputError.
std::vector<uint16_t> read_y(const std::string& path, uint64_t tokens, uint32_t hidden);

/// How far one variant's y is from a given one. Any two NaN are equal.
struct YComparison {
  const Variant* variant = nullptr;
  uint64_t differing = 0;  ///< elements with other bits
  double relative_rms = 0;
};

/// One a result, the fewest differing elements first, ties in the order of the results.
std::vector<YComparison> compare_with_y(const std::vector<VariantResult>& results,
                                        const std::vector<uint16_t>& y);

/// Elements of y with other bits.
uint64_t differing_elements(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b);

}  // namespace moetwin::numerics
