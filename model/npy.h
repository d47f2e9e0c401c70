// The .npy format: one array, read from bytes. Little endian only: integers in either order of
// storage for routing traces, and rows of any type that a tensor may have. Numpy has no BF16 and no
// FP8: their bits come as two-byte and one-byte items.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/safetensors.h"

namespace moetwin {

struct NpyIntegers {
  std::vector<uint64_t> shape;
  bool is_signed = true;
  uint32_t item_bytes = 8;
  bool column_major = false;       ///< fortran_order
  std::span<const uint8_t> bytes;  ///< into what was parsed

  /// Element of a two-dimensional array, row < shape[0] and column < shape[1]. An unsigned value
  /// above INT64_MAX is given as INT64_MAX.
  int64_t at(uint64_t row, uint64_t column) const;
};

/// Parses a whole file's bytes; `name` stands for the file in messages. Throws InputError for
/// anything but a complete file of versions 1 to 3 that holds such integers.
NpyIntegers parse_npy(std::span<const uint8_t> bytes, const std::string& name);

/// The same for an array in row-major order as a tensor: f4, i4, i8, u1; u2 and V2 are BF16, i1 and
/// V1 are F8_E4M3. Another type is Dtype::Other. Throws InputError for anything but a complete file
/// in that order.
TensorView parse_npy_tensor(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace moetwin
