// Section 2 of the contract, the hardware operations, for tests/numerics_rules.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "tests/numerics_rules.h"
#include "tests/paths.h"

namespace moetwin::test {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
float of_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

constexpr uint32_t kNanBits = 0x7FFFFFFF;

enum class Cut { TowardZero, Floor, Nearest };

double cut(double value, Cut how) {
  if (how == Cut::Floor) return std::floor(value);
  return how == Cut::Nearest ? std::nearbyint(value) : std::trunc(value);
}

/// A multiple of 2^unit near `value`.
double cut_to(double value, int unit, Cut how) {
  return std::ldexp(cut(std::ldexp(value, -unit), how), unit);
}

struct Term {
  double value;
  int exponent;
};

bool is_nan_code(uint8_t code) { return (code & 0x7F) == 0x7F; }

int code_exponent(uint8_t code, Change change) {
  const int field = (code >> 3) & 0xF;
  if (field == 0 && (code & 7) != 0 && change == Change::H2aNormalisedSubnormals) {
    return std::ilogb(eval_e4m3_value(code));
  }
  return std::max(field, 1) - 7;
}

std::vector<Term> terms_of(const uint8_t* a, const uint8_t* b, size_t count, Change change) {
  std::vector<Term> terms;
  for (size_t k = 0; k < count; ++k) {
    const double value = double{eval_e4m3_value(a[k])} * double{eval_e4m3_value(b[k])};
    int exponent = code_exponent(a[k], change) + code_exponent(b[k], change);
    if (change == Change::H2aNormalisedProduct && value != 0) {
      exponent = std::max(exponent, std::ilogb(value));
    }
    if (value == 0 && change != Change::H2aZeroProducts) continue;
    terms.push_back({value, exponent});
  }
  return terms;
}

/// Sum and cut of section 2a; `terms` of products, C apart.
float aligned_sum(const std::vector<Term>& terms, float c, Change change) {
  const int c_exponent = c == 0 ? 0 : std::max(std::ilogb(c), -126);
  int largest = -126;
  for (const Term& term : terms) largest = std::max(largest, term.exponent);
  if (c != 0 || change == Change::H2aZeroC) largest = std::max(largest, c_exponent);
  const int bits = change == Change::H2aBits12 ? 12 : change == Change::H2aBits14 ? 14 : 13;
  const Cut how = change == Change::H2aAlignFloor     ? Cut::Floor
                  : change == Change::H2aAlignNearest ? Cut::Nearest
                                                      : Cut::TowardZero;
  double sum = 0;
  bool any_negative = std::signbit(c);
  for (const Term& term : terms) {
    sum += cut_to(term.value, largest - bits, how);
    any_negative = any_negative || term.value < 0;
  }
  sum += change == Change::H2aCUncut ? double{c} : cut_to(c, largest - bits, how);
  if (sum == 0) return change == Change::H2aNegativeZero && any_negative ? -0.0f : 0.0f;
  const int result_bits = change == Change::H2aResultBits12   ? 12
                          : change == Change::H2aResultBits14 ? 14
                          : change == Change::H2aResultBits23 ? 23
                                                              : 13;
  const Cut result_how = change == Change::H2aResultFloor     ? Cut::Floor
                         : change == Change::H2aResultNearest ? Cut::Nearest
                                                              : Cut::TowardZero;
  const int unit = std::max(std::ilogb(sum), -126) - result_bits;
  return static_cast<float>(cut_to(sum, unit, result_how));
}

struct Segment {
  int64_t c0, c1, c2;
};

std::vector<Segment> read_segments(const std::string& name) {
  std::ifstream file(test_data(name));
  std::string line;
  std::getline(file, line);
  std::vector<Segment> segments;
  int64_t index = 0;
  char comma = 0;
  Segment segment{};
  while (file >> index >> comma >> segment.c0 >> comma >> segment.c1 >> comma >> segment.c2) {
    segments.push_back(segment);
  }
  if (segments.empty()) throw std::runtime_error(name + ": no coefficients");
  return segments;
}

/// The folded squarer: bit i of x adds x shifted right by 18 - i, and the sum loses its last bit.
int64_t square(int64_t x, bool exact) {
  if (exact) return x * x >> 19;
  int64_t sum = 0;
  for (int i = 0; i < 17; ++i) {
    if ((x >> i & 1) != 0) sum += x >> (18 - i);
  }
  return sum >> 1;
}

/// `bits` as a float's bits, or what overflow and ftz make of it.
float scaled_bits(int64_t bits, bool subnormals_kept) {
  constexpr int64_t kUnit = int64_t{1} << 23;
  if (bits >= 255 * kUnit) return of_bits(0x7F800000);
  if (bits >= kUnit) return of_bits(static_cast<uint32_t>(bits));
  if (!subnormals_kept) return 0;
  const int64_t below = (kUnit - 1 - bits) / kUnit;
  const float normal = of_bits(static_cast<uint32_t>(bits + below * kUnit));
  return std::ldexp(normal, static_cast<int>(-below));
}

}  // namespace

float eval_e4m3_value(uint8_t code) {
  if (is_nan_code(code)) return std::nanf("");
  const int field = (code >> 3) & 0xF;
  const float mantissa = static_cast<float>(code & 7) / 8;
  const float size = field == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, field - 7);
  return (code & 0x80) != 0 ? -size : size;
}

float eval_step(const uint8_t* a, const uint8_t* b, float c, Change change) {
  bool any_nan = std::isnan(c);
  for (size_t k = 0; k < 32; ++k) {
    const bool is_nan = is_nan_code(a[k]) || is_nan_code(b[k]);
    const bool other_zero = (a[k] & 0x7F) == 0 || (b[k] & 0x7F) == 0;
    any_nan = any_nan || (is_nan && !(other_zero && change == Change::H2aNanTimesZero));
  }
  if (any_nan) return of_bits(change == Change::H2aQuietNan ? 0x7FC00000 : kNanBits);
  if (std::isinf(c)) return change == Change::H2aInfiniteC ? of_bits(kNanBits) : c;
  std::array<uint8_t, 32> finite_a;
  for (size_t k = 0; k < 32; ++k) finite_a[k] = is_nan_code(a[k]) ? 0 : a[k];
  std::array<uint8_t, 32> finite_b;
  for (size_t k = 0; k < 32; ++k) finite_b[k] = is_nan_code(b[k]) ? 0 : b[k];
  if (change == Change::H2aTwoHalves) {
    const float half =
        aligned_sum(terms_of(finite_a.data(), finite_b.data(), 16, change), c, change);
    return aligned_sum(terms_of(finite_a.data() + 16, finite_b.data() + 16, 16, change), half,
                       change);
  }
  const std::vector<Term> terms = terms_of(finite_a.data(), finite_b.data(), 32, change);
  if (change == Change::H2aCAddedAfter) return aligned_sum(terms, 0.0f, change) + c;
  return aligned_sum(terms, c, change);
}

uint8_t eval_e4m3(float value, Change change) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) {
    return change == Change::H2bNanKeepsSign ? static_cast<uint8_t>(0x7F | sign) : 0x7F;
  }
  const double size = std::fabs(double{value});
  const int exponent = size < 0x1p-6 ? -6 : std::isinf(value) ? 1024 : std::ilogb(size);
  if (change == Change::H2bFlushSubnormals && size < 0x1p-6) return sign;
  if (exponent > 8) {
    return change == Change::H2bOverflowToNan ? 0x7F : static_cast<uint8_t>(0x7E | sign);
  }
  const double units = std::ldexp(size, 3 - exponent);
  double kept = std::nearbyint(units);
  if (change == Change::H2bTiesAway) kept = std::floor(units + 0.5);
  if (change == Change::H2bCut) kept = std::floor(units);
  // Units of the lowest normal exponent continue the subnormal ones, and a full significand of 16
  // units is the next exponent's 8.
  const int code = (exponent + 6) * 8 + static_cast<int>(kept);
  if (code > 0x7E) {
    return change == Change::H2bOverflowToNan ? 0x7F : static_cast<uint8_t>(0x7E | sign);
  }
  return static_cast<uint8_t>(code | sign);
}

float eval_ex2(double value, Change change) {
  static const std::vector<Segment> segments = read_segments("mufu_ex2.csv");
  if (std::isnan(value)) return of_bits(kNanBits);
  if (std::fabs(value) >= 512) return value > 0 ? of_bits(0x7F800000) : 0.0f;
  if (change == Change::H2dCorrectlyRounded) return static_cast<float>(std::exp2(value));
  const double units = std::ldexp(std::fabs(value), 23);
  const int64_t t = static_cast<int64_t>(
      change == Change::H2dArgumentNearest ? std::nearbyint(units) : std::trunc(units));
  int64_t j = t;
  if (std::signbit(value)) {
    const bool whole = (t & 0x7FFFFF) == 0 || change == Change::H2dNegated;
    j = whole ? -t : -t - 1;
  }
  const int64_t fraction = j & 0x7FFFFF;
  const Segment& segment = segments[static_cast<size_t>(fraction >> 17)];
  const int64_t low = fraction & 0x1FFFF;
  const int64_t rounding = change == Change::H2dRoundingConstant ? 0x4000 : 0x77E2;
  const int64_t quadratic = (segment.c0 << 13) + segment.c1 * low +
                            segment.c2 * square(low, change == Change::H2dExactSquare) + rounding;
  return scaled_bits(0x3F000000 + (quadratic >> 15) + ((j >> 23) << 23),
                     change == Change::H2dSubnormalsKept);
}

float eval_rcp(float value, Change change) {
  static const std::vector<Segment> segments = read_segments("mufu_rcp.csv");
  if (std::isnan(value)) return of_bits(kNanBits);
  const float sign = std::copysign(1.0f, value);
  const float size = std::fabs(value);
  if (size < 0x1p-126f && !(size > 0 && change == Change::H2cSubnormalInputRead)) {
    return sign * of_bits(0x7F800000);
  }
  if (change == Change::H2cSubnormalInputRead && size < 0x1p-126f) return 1.0f / value;
  if (std::isinf(value)) return sign * 0.0f;
  if (change == Change::H2cCorrectlyRounded) {
    const float exact = 1.0f / size;
    return sign * (exact < 0x1p-126f ? 0.0f : exact);
  }
  const int64_t mantissa = bits_of(size) & 0x7FFFFF;
  const int64_t exponent = static_cast<int64_t>(bits_of(size) >> 23) - 127;
  const Segment& segment = segments[static_cast<size_t>(mantissa >> 16)];
  const int64_t low = mantissa & 0xFFFF;
  const int64_t rounding = change == Change::H2cRoundingConstant ? 0x4000 : 0x47E7;
  const int64_t quadratic = (segment.c0 << 13) + segment.c1 * low +
                            segment.c2 * square(2 * low, change == Change::H2cExactSquare) +
                            rounding;
  return sign * scaled_bits(0x3E800000 + (quadratic >> 15) - (exponent << 23),
                            change == Change::H2cSubnormalsKept);
}

}  // namespace moetwin::test
