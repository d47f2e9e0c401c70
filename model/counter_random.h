// Random numbers without a state: an integer hash of what a value belongs to (seed, stream, rank,
// token, slot, ...). The same on every machine and thread, because it uses 64-bit integers and at
// most one IEEE multiplication. Part of case format 1: any change of bits here raises the format.
// It owns the hash and the shapes of single draws; what is drawn is decided elsewhere.
#pragma once

#include <cstdint>

#include "common/number_formats.h"

namespace moetwin {

/// What a sequence of draws is for. Streams of one seed are unrelated; the numbers are part of the
/// format.
enum class Stream : uint64_t {
  RoutingExperts = 1,
  RoutingShare = 2,
  RoutingGroups = 3,
  RoutingOrder = 4,
  RoutingWeights = 5,
  RoutingZeroWeights = 6,
  RoutingMask = 7,
  Activations = 16,
  ActivationTails = 17,
  ActivationScales = 18,
  ActivationRows = 19,
  Outliers = 20,
  Weights1 = 32,
  Weights2 = 33,
  WeightTails1 = 34,
  WeightTails2 = 35,
  WeightScales1 = 36,
  WeightScales2 = 37,
  WeightRows1 = 38,
  WeightRows2 = 39,
  WeightExperts = 40,
};

namespace detail {
constexpr uint64_t kGoldenStep = 0x9E3779B97F4A7C15u;

/// A bijection of 64 bits in which every input bit moves every output bit (the finaliser of the
/// published SplitMix64 generator).
constexpr uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
}  // namespace detail

/// A place in the tree of everything that is random: a key is extended by the coordinates of a
/// value, and draw(n) is the n-th 64 random bits there.
class Key {
 public:
  constexpr Key(uint64_t seed, Stream stream)
      : state_(detail::mix64(detail::mix64(seed + detail::kGoldenStep) +
                             static_cast<uint64_t>(stream) * detail::kGoldenStep)) {}

  constexpr Key with(uint64_t coordinate) const { return Key(draw(coordinate)); }
  constexpr uint64_t draw(uint64_t n) const {
    return detail::mix64(state_ + (n + 1) * detail::kGoldenStep);
  }
  constexpr uint64_t state() const { return state_; }

 private:
  constexpr explicit Key(uint64_t state) : state_(state) {}
  uint64_t state_;
};

/// A number below `limit` (at least 1) from 64 random bits; no value is favoured by more than one
/// part in 2^64 / limit.
constexpr uint64_t below(uint64_t bits, uint64_t limit) {
  const uint64_t high = (bits >> 32) * (limit >> 32);
  const uint64_t cross1 = (bits >> 32) * (limit & 0xFFFFFFFFu);
  const uint64_t cross2 = (bits & 0xFFFFFFFFu) * (limit >> 32);
  const uint64_t low = (bits & 0xFFFFFFFFu) * (limit & 0xFFFFFFFFu);
  const uint64_t middle = (low >> 32) + (cross1 & 0xFFFFFFFFu) + (cross2 & 0xFFFFFFFFu);
  return high + (cross1 >> 32) + (cross2 >> 32) + (middle >> 32);
}

/// In [0, 1), a multiple of 2^-53.
constexpr double unit_interval(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// In (0, 1], a multiple of 2^-24: never zero and exact in binary32.
constexpr float unit_interval_above_zero(uint64_t bits) {
  return static_cast<float>((bits >> 40) + 1) * 0x1p-24f;
}

/// True with the given probability; 0 is never and 1 is always.
constexpr bool happens(uint64_t bits, double probability) {
  return unit_interval(bits) < probability;
}

/// A positive number with 16 significant bits, ties away from zero. What two mathematics libraries
/// give for a power differs far below that, so the rounded power is the same everywhere.
constexpr double round_to_16_bits(double value) {
  constexpr uint32_t kDroppedBits = 52 - 15;
  const uint64_t bits = __builtin_bit_cast(uint64_t, value) + (uint64_t{1} << (kDroppedBits - 1));
  return __builtin_bit_cast(double, bits >> kDroppedBits << kDroppedBits);
}

/// 1 / sqrt(8 (2^32 - 1) / 12), rounded to binary32: the sum of eight 16-bit uniforms times this
/// has a variance of one. No value is larger than 4.899.
constexpr float kNormalScale = float_of_bits(0x379CC471u);

namespace detail {
/// One round of the hash behind normal values: a bijection with a single 32 x 32 bit product, which
/// vector units have.
constexpr uint64_t normal_round(uint64_t x, uint32_t multiplier) {
  x ^= x >> 29;
  return (x & 0xFFFFFFFFu) * multiplier ^ (x & 0xFFFFFFFF00000000u);
}

constexpr uint32_t kNormalMultipliers[4] = {0xD2511F53u, 0xCD9E8D57u, 0xA0761D65u, 0xE7037ED1u};
constexpr uint64_t kNormalFork = 0x243F6A8885A308D3u;

/// Four unsigned 16-bit numbers, added.
constexpr uint32_t sum_of_words(uint64_t words) {
  const uint64_t pairs = (words & 0x0000FFFF0000FFFFu) + ((words >> 16) & 0x0000FFFF0000FFFFu);
  return static_cast<uint32_t>(pairs) + static_cast<uint32_t>(pairs >> 32);
}

/// The mean of the sum of eight uniforms.
constexpr int32_t kNormalMean = 8 * 65535 / 2;
}  // namespace detail

/// The n-th approximately normal integer of a key: eight 16-bit uniforms, added and centred, within
/// +-262140 and hence exact in binary32. This is the definition;
/// normal_values.h makes many at once.
constexpr int32_t normal_sum(const Key& key, uint64_t n) {
  uint64_t x = key.state() + n * detail::kGoldenStep;
  x = detail::normal_round(x, detail::kNormalMultipliers[0]);
  x = detail::normal_round(x, detail::kNormalMultipliers[1]);
  uint64_t first = detail::normal_round(x, detail::kNormalMultipliers[2]);
  uint64_t second = detail::normal_round((x << 32 | x >> 32) ^ detail::kNormalFork,
                                         detail::kNormalMultipliers[3]);
  first ^= first >> 32;
  second ^= second >> 32;
  return static_cast<int32_t>(detail::sum_of_words(first) + detail::sum_of_words(second)) -
         detail::kNormalMean;
}

/// The n-th value of N(0, 1) of a key.
constexpr float normal_value(const Key& key, uint64_t n) {
  return static_cast<float>(normal_sum(key, n)) * kNormalScale;
}

}  // namespace moetwin
