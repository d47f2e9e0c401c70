// What a case says about tensor values, parsed (DESIGN section 7).
#pragma once

#include <cstdint>
#include <string>

namespace moetwin {

enum class DataKind : uint8_t { Normal, Outlier, SameSign, HeavyTail, Ties, Extreme, File };

struct DataSpec {
  DataKind kind = DataKind::Normal;
  uint64_t seed = 1;
  bool nan = false;  ///< extreme: NaN codes too
  std::string path;  ///< file: already resolved against the case file
  friend bool operator==(const DataSpec&, const DataSpec&) = default;
};

}  // namespace moetwin
