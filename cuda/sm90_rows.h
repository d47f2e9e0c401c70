// How the rows of a warpgroup's 64 x 128 tile lie: which thread owns which columns of which row in
// the accumulator, where a staged row's bytes are in shared memory, and which thread copies which
// part of a staged row. Device code.
#pragma once

#include "common/epilogue_math.h"
#include "common/kernel_plan.h"
#include "cuda/ptx.h"
#include "cuda/wgmma.h"

namespace moetwin {

/// Two rows of a thread's part of a 64 x 128 tile; one of them at a time in for_rows().
constexpr uint32_t kRowsPerThread = 2;
constexpr uint32_t kRowStep = 8;       ///< between the two
constexpr uint32_t kLanesPerRow = 4;   ///< that share a row of the tile
constexpr uint32_t kVectorBytes = 16;  ///< most bytes a thread moves at once
/// Parts of staged rows that a thread copies.
constexpr uint32_t kRowCopies = kStagingBytes / kVectorBytes / kWarpgroupThreads;

/// Of the sixteen of the warpgroup's 64 rows that this warp multiplies, stages and copies.
__device__ __forceinline__ uint32_t first_row_of_warp() {
  return threadIdx.x / kWarpLanes % kWarpgroupWarps * kRowsPerWarp;
}

/// A value for each of a thread's rows.
template <class T>
struct OwnedRowValues {
  T value[kRowsPerThread];
  /// Places may be run-time numbers: registers cannot be indexed.
  __device__ __forceinline__ T operator[](uint32_t place) const {
    return place == 0 ? value[0] : value[1];
  }
  __device__ __forceinline__ void set(uint32_t place, const T& v) {
    if (place == 0)
      value[0] = v;
    else
      value[1] = v;
  }
};

/// total += product times its row's scale and its chunk's, moetwin::promote() of every value.
/// Chunks of eight columns alternate between two weight scales. Neighbours in the code share a
/// factor, so that a warp reads it once for two of them; left to itself the compiler mixes them.
__device__ __forceinline__ void promote_tile(AccumulatorTile& total, const AccumulatorTile& product,
                                             const OwnedRowValues<float>& row_scales, float even,
                                             float odd) {
  MOETWIN_UNROLL
  for (uint32_t factor = 0; factor < 2 * kRowsPerThread; ++factor) MOETWIN_UNROLL
  for (uint32_t chunk = factor % 2; chunk < AccumulatorTile::kChunks; chunk += 2) MOETWIN_UNROLL
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t at = 4 * chunk + 2 * (factor / 2) + i;
    const float scale = mul_rn(row_scales.value[factor / 2], chunk % 2 == 0 ? even : odd);
    ptx::fma_in_order(total.value[at], product.value[at], scale);
  }
}

/// A pair of neighbouring columns of one row.
struct ColumnPair {
  float low;
  float high;
};

/// One row of a tile as its owner sees it: columns 8 * p + 2 * (lane % 4) + {0, 1}.
class Sm90Row {
 public:
  /// Moves the second row's values to where the first one's were.
  static __device__ __forceinline__ void show_second(AccumulatorTile& tile) {
    MOETWIN_UNROLL
    for (uint32_t chunk = 0; chunk < AccumulatorTile::kChunks; ++chunk) {
      tile.value[4 * chunk] = tile.value[4 * chunk + 2];
      tile.value[4 * chunk + 1] = tile.value[4 * chunk + 3];
    }
  }

  /// `first`: register of the row's first value.
  __device__ __forceinline__ Sm90Row(const AccumulatorTile& tile, uint32_t place, uint32_t first)
      : tile_(tile), place_(place), first_(first) {}

  __device__ __forceinline__ ColumnPair pair(uint32_t p) const {
    return {tile_.value[4 * p + first_], tile_.value[4 * p + first_ + 1]};
  }
  /// Column of pair p inside its half of 64 columns.
  __device__ __forceinline__ uint32_t half_column(uint32_t p) const {
    return 8 * p + 2 * (threadIdx.x % kLanesPerRow);
  }
  __device__ __forceinline__ uint32_t place() const { return place_; }
  /// Inside the warpgroup's 64 rows.
  __device__ __forceinline__ uint32_t index() const {
    return first_row_of_warp() + threadIdx.x % kWarpLanes / kLanesPerRow + kRowStep * place_;
  }
  /// The largest of the row's owners' values.
  __device__ __forceinline__ float max(float value) const {
    value = amax_step(value, __shfl_xor_sync(ptx::kAllLanes, value, 1));
    return amax_step(value, __shfl_xor_sync(ptx::kAllLanes, value, 2));
  }

 private:
  const AccumulatorTile& tile_;
  uint32_t place_;
  uint32_t first_;
};

/// Calls f(row) for both rows of a thread. The first time, an epilogue costs what its code costs to
/// fetch. With `kOneCopy`, for kernels of few tokens, there is one copy of it, and the second row
/// moves to where it reads the first; else there are two, and nothing moves.
template <bool kOneCopy, class F>
__device__ __forceinline__ void each_row(const AccumulatorTile& tile, F&& f) {
  if constexpr (kOneCopy) {
    AccumulatorTile rows = tile;
    MOETWIN_NO_UNROLL
    for (uint32_t place = 0; place < kRowsPerThread; ++place) {
      f(Sm90Row(rows, place, 0));
      if (place == 0) Sm90Row::show_second(rows);
    }
  } else {
    MOETWIN_UNROLL
    for (uint32_t place = 0; place < kRowsPerThread; ++place) f(Sm90Row(tile, place, 2 * place));
  }
}

/// Staged rows are swizzled as tile stores of their width expect them: 16-byte units of
/// neighbouring rows lie in different banks.
__device__ __forceinline__ constexpr uint32_t staged_byte(uint32_t row, uint32_t row_bytes,
                                                          uint32_t byte) {
  const uint32_t turn = row_bytes == kLinear1ScaleGroup ? row / 2 % 4 : row % 8;
  return row * row_bytes + (byte ^ turn * kVectorBytes);
}

/// A warp copies its own staged rows in parts of 16 bytes, neighbours in a row by neighbouring
/// threads: the row of this thread's part number i, and the part's place in it.
__device__ __forceinline__ uint32_t copied_row(uint32_t i) {
  constexpr uint32_t kParts = kStagedRowBytes / kVectorBytes;
  return first_row_of_warp() + threadIdx.x % kWarpLanes / kParts + i * (kWarpLanes / kParts);
}
__device__ __forceinline__ uint32_t copied_byte() {
  return threadIdx.x % (kStagedRowBytes / kVectorBytes) * kVectorBytes;
}

/// Values of the rows, and places of the parts of rows, that a thread copies.
template <class T>
struct CopiedRowValues {
  T value[kRowCopies];
};
struct CopiedRowPlaces {
  uint64_t address[kRowCopies];
};

/// Stages kStagedColumns columns from `first` on, sixteen at a time: four matrices of 8 x 8, of
/// each half of the columns the warp's rows 0 to 7 and 8 to 15.
template <class F>
__device__ __forceinline__ void stage_columns(const AccumulatorTile& tile, uint32_t first,
                                              Shared<uint8_t> staging, F&& bf16) {
  constexpr uint32_t kColumns = 16;
  const uint32_t lane = threadIdx.x % kWarpLanes;
  const uint32_t row = first_row_of_warp() + lane % kRowsPerWarp;
  MOETWIN_UNROLL
  for (uint32_t column = 0; column < kStagedColumns; column += kColumns) {
    uint32_t words[4];
    MOETWIN_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t chunk = (first + column) / 8 + i / 2;
      const float* const pair = &tile.value[4 * chunk + 2 * (i % 2)];
      words[i] = bf16(pair[0]) | static_cast<uint32_t>(bf16(pair[1])) << 16;
    }
    const uint32_t byte = 2 * column + lane / 16 * kVectorBytes;
    ptx::store_matrices(ptx::shared_pointer(staging + staged_byte(row, kStagedRowBytes, byte)),
                        words);
  }
  __syncwarp();
}

}  // namespace moetwin
