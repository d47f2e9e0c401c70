// Values at the edges of the formats: codes and scales chosen so that sums overflow, cancel and
// underflow. Which share of values, rows and experts gets which edge is decided here.
#include <array>

#include "common/number_formats.h"
#include "model/data_kinds.h"

namespace moetwin {
namespace {

/// How far scales go in one token or expert. Only the widest reach overflows nearly every sum, so
/// that drawing from it alone would leave little but infinities to compare.
constexpr std::array<uint32_t, 3> kReaches = {2, 20, 60};

/// One in so many tokens, and one in so many weight rows, is all zeros.
constexpr uint64_t kZeroTokens = 8;
constexpr uint64_t kZeroWeightRows = 16;
/// One in so many tokens, experts (for W1, where one code reaches all outputs) and rows of W2 has
/// NaN codes.
constexpr uint64_t kNanTokens = 8;
constexpr uint64_t kNanExperts = 4;
constexpr uint64_t kNanWeightRows = 16;

/// What a row of codes may hold.
struct RowKind {
  bool is_zero = false;
  bool has_nan = false;
};

/// A code from 16 random bits: an eighth each zeros, subnormals and +-448, the rest any finite
/// code; where NaNs are wanted, one in 32.
uint8_t extreme_code(uint32_t bits, RowKind kind) {
  const uint8_t sign = (bits & 8) != 0 ? 0x80 : 0;
  const uint32_t any = (bits >> 4) & 0x7F;
  if (kind.has_nan && (bits >> 11) == 0) return sign | kE4m3Nan;
  if (kind.is_zero) return sign;
  switch (bits & 7) {
    case 0:
      return sign;
    case 1:
      return static_cast<uint8_t>(sign | (1 + any % 7));
    case 2:
      return sign | kE4m3MaxCode;
    default:
      return static_cast<uint8_t>(sign | (any < kE4m3MaxCode ? any : kE4m3MaxCode));
  }
}

/// Codes of columns first .. first + codes.size() - 1, four from each draw.
void extreme_row(const Key& key, uint32_t first, RowKind kind, std::span<uint8_t> codes) {
  for (size_t i = 0; i < codes.size(); i += 4) {
    uint64_t bits = key.draw((first + i) / 4);
    for (size_t j = 0; j < 4; ++j, bits >>= 16) {
      codes[i + j] = extreme_code(static_cast<uint32_t>(bits & 0xFFFF), kind);
    }
  }
}

/// A power of two from 2^-reach to 2^reach, half of the time times a number from 1 to 2.
float extreme_scale(uint64_t bits, uint32_t reach) {
  const uint32_t exponent =
      kFloatBias - reach + static_cast<uint32_t>(below(bits, 2 * uint64_t{reach} + 1));
  const bool is_power = (bits & 1) != 0 || exponent == kFloatBias + reach;
  const uint32_t mantissa = is_power ? 0 : static_cast<uint32_t>(bits >> 1) & kFloatMantissaMask;
  return float_of_bits(exponent << kFloatMantissaBits | mantissa);
}

}  // namespace

void extreme_activation_codes(const DataSpec& spec, uint32_t rank, uint32_t token,
                              std::span<uint8_t> codes, std::span<float> scales) {
  const auto key = [&](Stream stream) { return Key(spec.seed, stream).with(rank).with(token); };
  const Key row = key(Stream::ActivationRows);
  const RowKind kind{below(row.draw(0), kZeroTokens) == 0,
                     spec.nan && below(row.draw(1), kNanTokens) == 0};
  extreme_row(key(Stream::Activations), 0, kind, codes);
  const uint32_t reach = kReaches[below(row.draw(2), kReaches.size())];
  const Key scale_key = key(Stream::ActivationScales);
  for (uint32_t group = 0; group < scales.size(); ++group) {
    scales[group] = extreme_scale(scale_key.draw(group), reach);
  }
}

float extreme_weight_codes(const DataSpec& spec, const BlockPlace& place, BlockCodes out) {
  const bool is_w1 = place.matrix == WeightMatrix::W1;
  const auto key = [&](Stream w1, Stream w2) {
    return Key(spec.seed, is_w1 ? w1 : w2).with(place.expert);
  };
  const Key expert = Key(spec.seed, Stream::WeightExperts).with(place.expert);
  const bool w1_may_have_nan = below(expert.draw(0), kNanExperts) == 0;
  const bool may_have_nan = spec.nan && (!is_w1 || w1_may_have_nan);
  const Key rows = key(Stream::WeightRows1, Stream::WeightRows2);
  const Key values = key(Stream::Weights1, Stream::Weights2);
  for (uint32_t r = 0; r < kScaleBlock; ++r) {
    const uint64_t row = uint64_t{place.row_block} * kScaleBlock + r;
    const Key row_key = rows.with(row);
    const RowKind kind{below(row_key.draw(0), kZeroWeightRows) == 0,
                       may_have_nan && below(row_key.draw(1), kNanWeightRows) == 0};
    extreme_row(values.with(row), place.column_block * kScaleBlock, kind,
                {out.codes + r * out.pitch, kScaleBlock});
  }
  const uint32_t reach = kReaches[below(expert.draw(1), kReaches.size())];
  const Key scales = key(Stream::WeightScales1, Stream::WeightScales2);
  return extreme_scale(scales.with(place.row_block).draw(place.column_block), reach);
}

}  // namespace moetwin
