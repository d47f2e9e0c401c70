// How each generated kind of data makes values: one token's activations, one 128 x 128 block of an
// expert's weights, quantised or not. Pure functions of the coordinates; who calls them for which
// tokens and experts, and from how many threads, is in data.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "common/shape.h"
#include "model/counter_random.h"
#include "model/data_spec.h"

namespace moetwin {

constexpr uint32_t kBlockElements = kScaleBlock * kScaleBlock;

/// Which of an expert's two matrices: W1 is [2I, H], W2 is [H, I].
enum class WeightMatrix : uint8_t { W1, W2 };

/// A block of a matrix: rows 128 row_block .., columns 128 column_block ...
struct BlockPlace {
  uint32_t expert = 0;
  WeightMatrix matrix = WeightMatrix::W1;
  uint32_t row_block = 0;
  uint32_t column_block = 0;
};

/// A block's codes where the matrix keeps them: row r begins at codes + r * pitch.
struct BlockCodes {
  uint8_t* codes = nullptr;
  size_t pitch = 0;
};

class DataMaker {
 public:
  /// `spec` is a generated kind.
  DataMaker(const DataSpec& spec, const Shape& shape);

  /// x of one token before quantisation, H values.
  void activations(uint32_t rank, uint32_t token, std::span<float> x) const;
  /// The same quantised (NUMERICS S0): H codes, H/128 scales.
  void activation_codes(uint32_t rank, uint32_t token, std::span<uint8_t> codes,
                        std::span<float> scales) const;

  /// A block of weights before quantisation, row-major.
  void weights(const BlockPlace& place, std::span<float, kBlockElements> w) const;
  /// The same quantised (NUMERICS S1); returns the block's scale.
  float weight_codes(const BlockPlace& place, BlockCodes out) const;

 private:
  Key weight_key(Stream w1, Stream w2, const BlockPlace& place) const;
  void ordinary_activations(uint32_t rank, uint32_t token, std::span<float> x) const;
  void ordinary_weights(const BlockPlace& place, std::span<float, kBlockElements> w) const;

  DataSpec spec_;
  Shape shape_;
};

/// Kind ties (data_ties.cpp). Activations lie on or one ulp beside a tie of S0. Weights are chosen
/// as codes so that gates saturate and few terms meet: Linear1 values lie on ties of S8 where the
/// routing weight is a power of two, Linear2 rows on ties of S10, some of them moved off the tie by
/// a term far smaller.
void ties_activations(uint64_t seed, uint32_t rank, uint32_t token, std::span<float> x);
float ties_weight_codes(uint64_t seed, const Shape& shape, const BlockPlace& place, BlockCodes out);

/// Kind extreme (data_extreme.cpp): codes and scales drawn directly, zeros of both signs,
/// subnormals, +-448, scales from 2^-60 to 2^60, rows that are all zero, and with `nan` NaN codes.
void extreme_activation_codes(const DataSpec& spec, uint32_t rank, uint32_t token,
                              std::span<uint8_t> codes, std::span<float> scales);
float extreme_weight_codes(const DataSpec& spec, const BlockPlace& place, BlockCodes out);

}  // namespace moetwin
