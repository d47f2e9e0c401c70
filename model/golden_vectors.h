// Recorded tensor-core vectors: blocks of codes, C and D as a card gave them, compared with both
// forms of the model. The file format is that of NUMERICS 2a.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moetwin {

/// One recorded output that a form of the model computes differently.
struct GoldenVectorDifference {
  std::string block;  ///< name of the block in the file
  uint32_t row = 0;
  uint32_t column = 0;
  uint32_t recorded = 0;  ///< bits of D
  uint32_t definition = 0;
  uint32_t tile = 0;
};

struct GoldenVectorReport {
  std::vector<std::string> blocks;  ///< names in the order of the file
  uint64_t total = 0;               ///< outputs compared
  uint64_t differences = 0;         ///< outputs that at least one form computes differently
  std::optional<GoldenVectorDifference> first;
};

/// Reads and compares a file. Throws InputError if it cannot be read, is cut off, or says something
/// of itself that the format does not allow.
GoldenVectorReport check_golden_vectors(const std::string& path);

}  // namespace moetwin
