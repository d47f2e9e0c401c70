#include "model/data_kinds.h"

#include <bit>
#include <vector>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/normal_values.h"
#include "model/quantise.h"

namespace moetwin {
namespace {

/// 0.05 / sqrt(8 (2^32 - 1) / 12), rounded to binary32: weights are 0.05 N(0, 1).
constexpr float kWeightScale = float_of_bits(0x357AD3E7u);
constexpr float kOutlierFactor = 100.0f;
/// One in so many 128-channel groups has an outlier channel; the first always has one.
constexpr uint64_t kOutlierGroups = 4;

/// Multiplies value i, with column first + i, by 2^g, P(g >= n) = 4^-n: tails that fall like the
/// square of the size, up to 2^8. Sixteen random bits a value.
void stretch_tails(const Key& key, uint32_t first, std::span<float> values) {
  for (size_t i = 0; i < values.size(); i += 4) {
    uint64_t bits = key.draw((first + i) / 4);
    for (size_t j = 0; j < 4; ++j, bits >>= 16) {
      const int zeros = std::countr_zero(static_cast<uint32_t>(bits & 0xFFFF) | 0x10000u);
      values[i + j] *= static_cast<float>(1u << (zeros / 2));
    }
  }
}

void take_magnitudes(std::span<float> values) {
  for (float& value : values) value = magnitude(value);
}

}  // namespace

DataMaker::DataMaker(const DataSpec& spec, const Shape& shape) : spec_(spec), shape_(shape) {
  MOETWIN_CHECK(spec.kind != DataKind::File);
}

Key DataMaker::weight_key(Stream w1, Stream w2, const BlockPlace& place) const {
  return Key(spec_.seed, place.matrix == WeightMatrix::W1 ? w1 : w2).with(place.expert);
}

void DataMaker::ordinary_activations(uint32_t rank, uint32_t token, std::span<float> x) const {
  const auto key = [&](Stream stream) { return Key(spec_.seed, stream).with(rank).with(token); };
  fill_normal(key(Stream::Activations), 0, kNormalScale, x);
  if (spec_.kind == DataKind::SameSign) take_magnitudes(x);
  if (spec_.kind == DataKind::HeavyTail) stretch_tails(key(Stream::ActivationTails), 0, x);
  if (spec_.kind == DataKind::Outlier) {
    // The channels are those of the layer, the same for all tokens.
    const Key channels(spec_.seed, Stream::Outliers);
    for (uint32_t group = 0; group < x.size() / kScaleBlock; ++group) {
      const uint64_t bits = channels.draw(group);
      if (group != 0 && below(bits, kOutlierGroups) != 0) continue;
      x[group * kScaleBlock + bits % kScaleBlock] *= kOutlierFactor;
    }
  }
}

void DataMaker::activations(uint32_t rank, uint32_t token, std::span<float> x) const {
  MOETWIN_CHECK(x.size() == shape_.hidden);
  if (spec_.kind == DataKind::Ties) {
    ties_activations(spec_.seed, rank, token, x);
  } else if (spec_.kind == DataKind::Extreme) {
    std::vector<uint8_t> codes(x.size());
    std::vector<float> scales(x.size() / kScaleBlock);
    extreme_activation_codes(spec_, rank, token, codes, scales);
    for (size_t i = 0; i < x.size(); ++i) x[i] = decode_e4m3(codes[i]) * scales[i / kScaleBlock];
  } else {
    ordinary_activations(rank, token, x);
  }
}

void DataMaker::activation_codes(uint32_t rank, uint32_t token, std::span<uint8_t> codes,
                                 std::span<float> scales) const {
  MOETWIN_CHECK(codes.size() == shape_.hidden && scales.size() == shape_.hidden_blocks());
  if (spec_.kind == DataKind::Extreme) {
    extreme_activation_codes(spec_, rank, token, codes, scales);
    return;
  }
  std::vector<float> x(codes.size());
  activations(rank, token, x);
  quantise_activations(x.data(), 1, shape_.hidden, codes.data(), scales.data());
}

void DataMaker::ordinary_weights(const BlockPlace& place,
                                 std::span<float, kBlockElements> w) const {
  const Key values = weight_key(Stream::Weights1, Stream::Weights2, place);
  const Key tails = weight_key(Stream::WeightTails1, Stream::WeightTails2, place);
  const uint32_t first_column = place.column_block * kScaleBlock;
  for (uint32_t r = 0; r < kScaleBlock; ++r) {
    const uint64_t row = uint64_t{place.row_block} * kScaleBlock + r;
    const std::span<float> values_of_row = w.subspan(r * kScaleBlock, kScaleBlock);
    fill_normal(values.with(row), first_column, kWeightScale, values_of_row);
    if (spec_.kind == DataKind::HeavyTail) {
      stretch_tails(tails.with(row), first_column, values_of_row);
    }
  }
  if (spec_.kind == DataKind::SameSign) take_magnitudes(w);
}

void DataMaker::weights(const BlockPlace& place, std::span<float, kBlockElements> w) const {
  if (spec_.kind != DataKind::Ties && spec_.kind != DataKind::Extreme) {
    ordinary_weights(place, w);
    return;
  }
  std::vector<uint8_t> codes(kBlockElements);
  const float scale = weight_codes(place, {codes.data(), kScaleBlock});
  for (size_t i = 0; i < w.size(); ++i) w[i] = decode_e4m3(codes[i]) * scale;
}

float DataMaker::weight_codes(const BlockPlace& place, BlockCodes out) const {
  if (spec_.kind == DataKind::Ties) return ties_weight_codes(spec_.seed, shape_, place, out);
  if (spec_.kind == DataKind::Extreme) return extreme_weight_codes(spec_, place, out);
  // On the heap: callers may be on a small stack.
  std::vector<float> w(kBlockElements);
  ordinary_weights(place, std::span<float, kBlockElements>(w));
  return quantise_weight_block(w.data(), kScaleBlock, out.codes, out.pitch);
}

}  // namespace moetwin
