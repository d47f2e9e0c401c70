// Values searched to lie on rounding ties, or one ulp beside. Random data almost never does, so a
// wrong rounding would not show.
#include <array>
#include <cstring>

#include "common/check.h"
#include "common/float_ops.h"
#include "common/number_formats.h"
#include "model/data_kinds.h"

namespace moetwin {
namespace {

/// Columns of each 128-channel group that are no tie: the largest, which sets the scale, and one
/// whose code is exactly 2^8, which gates read.
constexpr uint32_t kLargestColumn = 0;
constexpr uint32_t kPowerColumn = 1;
constexpr float kPowerValue = 256.0f;
/// From here on codes are from 2^1 to 2^4: Linear1 reads these alone, so that what it gives is of
/// few sizes and not lost below the largest of its group.
constexpr uint32_t kFirstMiddleColumn = 64;
constexpr uint8_t kFirstMiddleCode = 8 << 3;
constexpr uint8_t kNumMiddleCodes = 3 << 3;

float power_of_two(int32_t exponent) {
  return float_of_bits(static_cast<uint32_t>(exponent + kFloatBias) << kFloatMantissaBits);
}

float ulps_away(float value, int32_t ulps) {
  return float_of_bits(bits_of_float(value) + static_cast<uint32_t>(ulps));
}

/// Half way between two neighbouring positive codes; exact.
float code_tie(uint64_t bits, uint32_t column) {
  const auto code = static_cast<uint8_t>(column < kFirstMiddleColumn
                                             ? below(bits, kE4m3MaxCode)
                                             : kFirstMiddleCode + below(bits, kNumMiddleCodes));
  return (decode_e4m3(code) + decode_e4m3(static_cast<uint8_t>(code + 1))) * 0.5f;
}

/// A value whose product with `inverse` rounds to `target`, or as near as the search gets.
float search_product(float target, float scale, float inverse) {
  const float start = mul_rn(target, scale);
  for (const int32_t ulps : {0, -1, 1, -2, 2}) {
    const float candidate = ulps_away(start, ulps);
    if (mul_rn(candidate, inverse) == target) return candidate;
  }
  return start;
}

/// Exponent of a group's scale: the first is near 1, the others the same or far smaller, so that
/// what they add moves a sum off its tie by few ulps. None is so small that S0's floor applies.
int32_t group_exponent(const Key& key, uint32_t group) {
  constexpr std::array<int32_t, 6> kDrops = {0, 0, 10, 14, 18, 20};
  const auto first = static_cast<int32_t>(below(key.draw(0), 7));
  return group == 0 ? first : first - kDrops[below(key.draw(group), kDrops.size())];
}

/// A code of either sign from 2^-1 up to 2^2.
uint8_t middle_code(uint64_t bits) {
  constexpr uint32_t kFirst = 6 << 3;
  constexpr uint32_t kCount = 3 << 3;
  return static_cast<uint8_t>((kFirst + below(bits, kCount)) | ((bits & 1) << 7));
}

/// As middle_code, but 1.5 times a power of two: a product with four significant bits has five, of
/// which the last is a tie.
uint8_t three_halves_code(uint64_t bits) {
  return static_cast<uint8_t>((middle_code(bits) & 0xF8) | 4);
}

/// A row of weights that is zero but for a few codes.
struct SparseRow {
  struct Entry {
    uint32_t column = 0;
    uint8_t code = 0;
  };
  std::array<Entry, 3> entries{};
  uint32_t count = 0;

  void add(uint64_t column, uint8_t code) { entries[count++] = {uint32_t(column), code}; }
};

/// A gate row reads the one channel that is a power of two, so that the gate is 32 or more, its
/// sigmoid 1 and the gate itself a power of two; one gate in eight is small instead. An up row has
/// one term in the first group and, every other row, one in any other group.
SparseRow linear1_row(const Key& key, const Shape& shape, uint64_t row) {
  SparseRow sparse;
  const auto column = [](uint64_t bits) {
    return kFirstMiddleColumn + below(bits, kScaleBlock - kFirstMiddleColumn);
  };
  const bool is_gate = row < shape.intermediate;
  if (is_gate && below(key.draw(0), 8) != 0) {
    // 2^-3 or 2^-2.
    sparse.add(kPowerColumn, static_cast<uint8_t>((4 + below(key.draw(1), 2)) << 3));
    return sparse;
  }
  const uint64_t bits = key.draw(3);
  sparse.add(column(key.draw(2)), (bits & 2) == 0 ? middle_code(bits) : three_halves_code(bits));
  const uint32_t other_groups = shape.hidden_blocks() - 1;
  if (is_gate || other_groups == 0 || below(key.draw(4), 2) != 0) return sparse;
  const uint64_t group = 1 + below(key.draw(5), other_groups);
  sparse.add(group * kScaleBlock + column(key.draw(6)), middle_code(key.draw(7)));
  return sparse;
}

/// Blocks of W2's columns with an odd number have a far smaller scale. A row has two terms that
/// share 64 activations in an even one and, every other row, one in an odd one, if there is any.
SparseRow linear2_row(const Key& key, const Shape& shape) {
  SparseRow sparse;
  const auto column = [&key](uint64_t block, uint64_t half, uint64_t n) {
    return block * kScaleBlock + half * kLinear1ScaleGroup + below(key.draw(n), kLinear1ScaleGroup);
  };
  const uint32_t blocks = shape.intermediate_blocks();
  const uint64_t block = 2 * below(key.draw(0), (blocks + 1) / 2);
  const uint64_t half = below(key.draw(1), 2);
  sparse.add(column(block, half, 2), middle_code(key.draw(3)));
  sparse.add(column(block, half, 4), middle_code(key.draw(5)));
  if (below(key.draw(6), 2) != 0) return sparse;
  const uint64_t other = blocks == 1 ? 0 : 2 * below(key.draw(7), blocks / 2) + 1;
  const auto subnormal = static_cast<uint8_t>(1 + below(key.draw(8), 7));
  const bool is_small = blocks > 1;
  sparse.add(column(other, below(key.draw(9), 2), 10),
             is_small ? middle_code(key.draw(8)) : subnormal);
  return sparse;
}

}  // namespace

void ties_activations(uint64_t seed, uint32_t rank, uint32_t token, std::span<float> x) {
  const auto key = [&](Stream stream) { return Key(seed, stream).with(rank).with(token); };
  const Key values = key(Stream::Activations);
  const Key scale_key = key(Stream::ActivationScales);
  const bool is_power = below(key(Stream::ActivationRows).draw(0), 2) == 0;
  for (uint32_t group = 0; group < x.size() / kScaleBlock; ++group) {
    const uint32_t first = group * kScaleBlock;
    const float power = power_of_two(group_exponent(scale_key, group));
    const float stretch =
        is_power ? 1.0f : 1.0f + unit_interval_above_zero(scale_key.draw(~uint64_t{group}));
    const float amax = mul_rn(kE4m3Max, mul_rn(power, stretch));
    const float scale = div_rn(amax, kE4m3Max);
    const float inverse = div_rn(1.0f, scale);
    for (uint32_t column = 0; column < kScaleBlock; ++column) {
      const uint64_t bits = values.draw(first + column);
      // Half of the values on the tie, a quarter on each side of it.
      const int32_t side = static_cast<int32_t>(bits & 1) - static_cast<int32_t>(bits >> 1 & 1);
      const float target =
          column == kPowerColumn ? kPowerValue : ulps_away(code_tie(bits, column), side);
      const float size = column == kLargestColumn ? amax : search_product(target, scale, inverse);
      const bool negative = column > kPowerColumn && (bits & 4) != 0;
      x[first + column] = negative ? -size : size;
    }
  }
}

float ties_weight_codes(uint64_t seed, const Shape& shape, const BlockPlace& place,
                        BlockCodes out) {
  const bool is_w1 = place.matrix == WeightMatrix::W1;
  const Key values = Key(seed, is_w1 ? Stream::Weights1 : Stream::Weights2).with(place.expert);
  for (uint32_t r = 0; r < kScaleBlock; ++r) {
    const uint64_t row = uint64_t{place.row_block} * kScaleBlock + r;
    const Key row_key = values.with(row);
    const SparseRow sparse = is_w1 ? linear1_row(row_key, shape, row) : linear2_row(row_key, shape);
    uint8_t* codes = out.codes + r * out.pitch;
    std::memset(codes, 0, kScaleBlock);
    for (uint32_t i = 0; i < sparse.count; ++i) {
      const SparseRow::Entry& entry = sparse.entries[i];
      if (entry.column / kScaleBlock == place.column_block) {
        codes[entry.column % kScaleBlock] = entry.code;
      }
    }
  }
  const Key scales =
      Key(seed, is_w1 ? Stream::WeightScales1 : Stream::WeightScales2).with(place.expert);
  // W1's first column has scale 1, which the gates count on.
  if (is_w1 && place.column_block == 0) return 1.0f;
  const auto drop =
      static_cast<int32_t>(below(scales.with(place.row_block).draw(place.column_block), 3));
  constexpr int32_t kFarSmaller = 13;
  const bool is_far_smaller = !is_w1 && place.column_block % 2 == 1;
  return power_of_two(is_far_smaller ? -drop - kFarSmaller : -drop);
}

}  // namespace moetwin
