// From the symmetric buffers that a launch leaves behind to the canonical LayerResult, the same for
// both machines: they only differ in how a byte is read. It also holds what is true of any right
// launch against those bytes: the place of each pool row, and the words that must be zero. It knows
// neither arithmetic nor references.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/symmetric_layout.h"
#include "model/run.h"

namespace moetwin {

/// Copies `bytes` bytes at byte `offset` of a region of `rank`'s buffer to `out`.
using RegionReader =
    std::function<void(uint32_t rank, Region region, uint64_t offset, uint64_t bytes, void* out)>;

/// A launch's result, and what in its bytes contradicts the protocol.
struct CollectedLayer {
  LayerResult result;
  std::vector<Finding> findings;  ///< of class mismatch or overflow, at most kMaxCollectFindings
};

constexpr size_t kMaxCollectFindings = 16;

/// Assembles the result of a finished launch: slots from the slot tables, rows and weights from the
/// metadata, l1 from the taps (left empty unless plan.taps), l2 from the combine rows, y.
/// `tokens` are the real tokens of each rank.
///
/// Findings: more slots received than a table, or more rows than the pool has (overflow,
/// WriteIndex or PoolTableBuild); a slot that names no
/// token of its source rank, or names one twice (mismatch, WriteIndex); a pool row whose metadata
/// is not what slot table and round-robin rule put there (mismatch, PullMetadata).
CollectedLayer collect_result(const Shape& shape, const KernelPlan& plan,
                              const std::vector<uint32_t>& tokens, const RegionReader& read);

/// A finding (stale, CleanupClear) for each region of a rank whose must-be-zero words are not.
std::vector<Finding> check_zero_words(const Shape& shape, const KernelPlan& plan,
                                      const RegionReader& read);

/// What the fused kernel moves between ranks for these routed rows, and the memory it holds for it:
/// the regions that other ranks write or read, and the pool that pulled rows land in.
Traffic kernel_traffic(const Shape& shape, const KernelPlan& plan,
                       const std::vector<RoutedRow>& rows);

}  // namespace moetwin
