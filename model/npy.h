// The .npy format: one array of integers, read from bytes. Only what a routing trace needs: little
// endian integers of 1 to 8 bytes, either order of storage.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

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

}  // namespace moetwin
