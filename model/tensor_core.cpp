#include "model/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/number_formats.h"

namespace moetwin {
namespace {

/// (-1)^negative * significand * 2^(exponent - fraction_bits); a zero significand is no term.
struct Term {
  bool negative;
  int64_t significand;
  int32_t exponent;
  int32_t fraction_bits;
};

constexpr int32_t kE4m3SmallestExponent = -6;
constexpr int32_t kFloatSmallestExponent = -126;

Term term_of_code(uint8_t code) {
  const int32_t field = (code >> 3) & 0xF;
  const int64_t hidden_bit = field != 0 ? 8 : 0;
  return {(code & 0x80) != 0, hidden_bit | (code & 7), std::max(field - 7, kE4m3SmallestExponent),
          3};
}

/// The product is not normalised: its exponent is the sum, even where its significand is 2 or more.
Term term_of_product(uint8_t a, uint8_t b) {
  const Term x = term_of_code(a);
  const Term y = term_of_code(b);
  return {x.negative != y.negative, x.significand * y.significand, x.exponent + y.exponent,
          x.fraction_bits + y.fraction_bits};
}

Term term_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  const int32_t field = static_cast<int32_t>((bits >> kFloatMantissaBits) & 0xFF);
  const int64_t hidden_bit = field != 0 ? 1 << kFloatMantissaBits : 0;
  return {(bits & kFloatSignBit) != 0, hidden_bit | (bits & kFloatMantissaMask),
          std::max(field - kFloatBias, kFloatSmallestExponent), kFloatMantissaBits};
}

/// The term in units of 2^(largest - 13), cut toward zero.
int64_t aligned(const Term& term, int32_t largest) {
  const int32_t left = kTensorCoreFractionBits - term.fraction_bits;
  const int32_t right = largest - term.exponent + std::max(-left, 0);
  const int64_t magnitude = right > 62 ? 0 : (term.significand << std::max(left, 0)) >> right;
  return term.negative ? -magnitude : magnitude;
}

/// sum * 2^(largest - 13), cut toward zero to 13 fraction bits.
float normalised(int64_t sum, int32_t largest) {
  if (sum == 0) return 0.0f;
  const uint64_t magnitude = static_cast<uint64_t>(std::abs(sum));
  const int32_t bits = static_cast<int32_t>(std::bit_width(magnitude));
  const int32_t cut = std::max(bits - 1 - kTensorCoreFractionBits, 0);
  const float kept = static_cast<float>(magnitude >> cut);
  const float result = std::ldexp(kept, cut + largest - kTensorCoreFractionBits);
  return sum < 0 ? -result : result;
}

}  // namespace

float tensor_core_step(const uint8_t* a, const uint8_t* b, float c) {
  Term terms[kTensorCoreK + 1];
  bool any_nan = is_nan_bits(bits_of_float(c));
  for (uint32_t k = 0; k < kTensorCoreK; ++k) {
    any_nan = any_nan || is_e4m3_nan(a[k]) || is_e4m3_nan(b[k]);
    terms[k] = term_of_product(a[k], b[k]);
  }
  if (any_nan) return float_of_bits(kHardwareNanBits);
  if (std::isinf(c)) return c;
  terms[kTensorCoreK] = term_of_float(c);

  int32_t largest = kFloatSmallestExponent;
  for (const Term& term : terms) {
    if (term.significand != 0) largest = std::max(largest, term.exponent);
  }
  int64_t sum = 0;
  for (const Term& term : terms) {
    if (term.significand != 0) sum += aligned(term, largest);
  }
  return normalised(sum, largest);
}

}  // namespace moetwin
