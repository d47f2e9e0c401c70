// Two rows of epochs beside each other: how they compare, and the larger of each pair. Whose rows
// they are, and when one stands for the other, is race_clocks.h's business.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moetwin {

/// Rows have a multiple of so many epochs.
constexpr uint32_t kEpochLanes = 16;

/// How two rows of epochs compare.
struct RowOrder {
  bool behind;  ///< the first has an epoch below the second's
  bool ahead;   ///< the first has an epoch above the second's
};

RowOrder compare_rows(const uint32_t* first, const uint32_t* second, size_t epochs);

/// Raises the epochs of `first` to those of `second`; how they compared before.
RowOrder raise_row(uint32_t* first, const uint32_t* second, size_t epochs);

}  // namespace moetwin
