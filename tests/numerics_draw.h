// What the searches of tests/numerics_witness.h draw from.
#pragma once

#include <cstdint>
#include <limits>

#include "common/number_formats.h"
#include "tests/numerics_rules.h"
#include "tests/sample_problem.h"

namespace moetwin::test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline bool same_bits(float a, float b) { return bits_of_float(a) == bits_of_float(b); }

/// `value` moved by some units in the last place.
inline float moved(float value, int ulps) {
  return float_of_bits(bits_of_float(value) + static_cast<uint32_t>(ulps));
}

inline float uniform(Draw& draw, float low, float high) {
  return low + (high - low) * (static_cast<float>(draw.bits() >> 8) * 0x1p-24f);
}

/// Roughly normal with standard deviation 1.
inline float normal(Draw& draw) {
  float sum = 0;
  for (int i = 0; i < 6; ++i) sum += uniform(draw, -1, 1);
  return sum * 0.7f;
}

/// A value halfway between two codes that are neighbours.
inline float tie_of_codes(Draw& draw) {
  const uint8_t code = static_cast<uint8_t>(draw.below(0x7E));
  return (eval_e4m3_value(code) + eval_e4m3_value(static_cast<uint8_t>(code + 1))) / 2;
}

inline float random_sign(Draw& draw) { return draw.below(2) == 0 ? 1.0f : -1.0f; }

/// What the products of a step are made of.
enum class Mix : uint8_t {
  Normal,
  Small,               ///< exponents far below 0
  ZeroWithLarge,       ///< Small, and zeros that meet the largest codes
  SubnormalWithLarge,  ///< Small, and a subnormal that meets the largest code
};

inline Mix mix_of(Change change) {
  if (change == Change::H2aZeroC) return Mix::Small;
  if (change == Change::H2aZeroProducts) return Mix::ZeroWithLarge;
  if (change == Change::H2aNormalisedSubnormals) return Mix::SubnormalWithLarge;
  return Mix::Normal;
}

struct CodePair {
  uint8_t a;
  uint8_t b;
};

inline CodePair draw_pair(Draw& draw, Mix mix) {
  const auto normal_code = [&] { return eval_e4m3(normal(draw) * 100, Change::None); };
  const auto small_code = [&] {
    return static_cast<uint8_t>((draw.bits() >> 24 & 0x8F) | (1 + draw.below(2)) << 3);
  };
  if (mix == Mix::Normal) return {normal_code(), normal_code()};
  const bool special = draw.below(8) == 0;
  if (special && mix == Mix::ZeroWithLarge) return {0x00, 0x7E};
  if (special && mix == Mix::SubnormalWithLarge) return {0x01, 0x7E};
  return {small_code(), small_code()};
}

}  // namespace moetwin::test
