// The tensor core's E4M3 x E4M3 -> F32 step (NUMERICS 2a) in two forms: the definition, one output
// element in plain integers, and the tile form that the simulator and the naive path use, in SIMD
// lanes. Tests hold both equal, bit for bit, on every instruction set the machine has. Promotion of
// a tile by its scales (S2, S9) is here too, because it runs over the same tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace moetwin {

/// Products of one tensor-core step.
constexpr uint32_t kTensorCoreK = 32;
/// Fraction bits that alignment and result keep.
constexpr int32_t kTensorCoreFractionBits = 13;

/// The definition: one step for one output element, 32 products of codes and `c`. Any codes and any
/// `c`, NaN and infinity included.
float tensor_core_step(const uint8_t* a, const uint8_t* b, float c);

/// `steps` chained steps for a tile, from +0. Row r of A is a[r * a_pitch ...], column j of B is
/// b[j * b_pitch ...], each 32 * steps codes. Writes acc [rows, n], dense. No size needs to be a
/// multiple of anything; 0 steps give +0. Thread safe; the result does not depend on the machine.
void tile_steps(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b, size_t b_pitch,
                uint32_t n, uint32_t steps, float* acc);

/// The same, but the chain of each element starts from what acc [rows, n] holds on entry.
void tile_steps_from(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b,
                     size_t b_pitch, uint32_t n, uint32_t steps, float* acc);

/// Both operands of a tile in the layout of the lanes, packed once to be multiplied often.
class PackedTile {
 public:
  /// As for tile_steps(), whose operands are copied. Takes 6 bytes a code of A and 5 of B.
  PackedTile(const uint8_t* a, size_t a_pitch, uint32_t rows, const uint8_t* b, size_t b_pitch,
             uint32_t n, uint32_t steps);
  ~PackedTile();
  PackedTile(PackedTile&&) noexcept;

  /// Writes acc [rows, n], dense: what tile_steps() gives. Thread safe.
  void multiply(float* acc) const;

 private:
  struct Packed;
  std::unique_ptr<Packed> packed_;
};

/// The scales of one block of a tile: row r's activation scale is row[r * row_stride], column j's
/// weight scale is column[j].
struct TileScales {
  const float* row;
  size_t row_stride;
  const float* column;
};

/// promote() of common/epilogue_math.h for every element: final[r * final_pitch + j] takes
/// acc [rows, n], dense.
void promote_tile(const float* acc, uint32_t rows, uint32_t n, const TileScales& scales,
                  float* final, size_t final_pitch);

}  // namespace moetwin
