#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "common/epilogue_math.h"
#include "model/tensor_core.h"
#include "tests/simd_targets.h"

namespace moetwin {
namespace {

using test::for_each_simd_target;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class CodeKind { Uniform, WithNan, Extreme, Sparse, Narrow, Subnormal, Cancelling, Normal };
constexpr CodeKind kCodeKinds[] = {CodeKind::Uniform,    CodeKind::WithNan, CodeKind::Extreme,
                                   CodeKind::Sparse,     CodeKind::Narrow,  CodeKind::Subnormal,
                                   CodeKind::Cancelling, CodeKind::Normal};

using Random = std::mt19937_64;

uint8_t finite_byte(Random& random) {
  const uint8_t code = static_cast<uint8_t>(random());
  return is_e4m3_nan(code) ? 0 : code;
}

/// `index` is the place in a row, for kinds where neighbours depend on each other.
uint8_t random_code(CodeKind kind, Random& random, size_t index, uint8_t previous) {
  constexpr uint8_t kExtreme[] = {0x00, 0x80, 0x01, 0x81, 0x07, 0x08, 0x7E, 0xFE};
  switch (kind) {
    case CodeKind::Uniform:
      return finite_byte(random);
    case CodeKind::WithNan:
      return random() % 200 == 0 ? 0xFF : finite_byte(random);
    case CodeKind::Extreme:
      return kExtreme[random() % 8];
    case CodeKind::Sparse:
      return random() % 10 == 0 ? finite_byte(random) : static_cast<uint8_t>(random() % 2 * 0x80);
    case CodeKind::Narrow:
      return static_cast<uint8_t>((random() & 0x8F) | 0x38);
    case CodeKind::Subnormal:
      return static_cast<uint8_t>(random() & 0x8F);
    case CodeKind::Cancelling:
      return index % 2 == 0 ? finite_byte(random) : static_cast<uint8_t>(previous ^ 0x80);
    case CodeKind::Normal:
      return encode_e4m3(std::normal_distribution<float>(0, 112)(random));
  }
  return 0;
}

/// Rows of codes, a pitch apart; the bytes between rows are NaN codes.
struct Codes {
  size_t pitch;
  std::vector<uint8_t> bytes;

  Codes(CodeKind kind, uint32_t rows, uint32_t steps, Random& random)
      : pitch(size_t{steps} * kTensorCoreK + random() % 3), bytes(rows * pitch, 0x7F) {
    for (size_t row = 0; row < rows; ++row) {
      uint8_t previous = 0;
      for (size_t k = 0; k < size_t{steps} * kTensorCoreK; ++k) {
        previous = random_code(kind, random, k, previous);
        bytes[row * pitch + k] = previous;
      }
    }
  }
  const uint8_t* at(size_t row, size_t step) const {
    return bytes.data() + row * pitch + step * kTensorCoreK;
  }
};

float chain(const Codes& a, size_t row, const Codes& b, size_t column, uint32_t steps, float c) {
  for (size_t step = 0; step < steps; ++step) {
    c = tensor_core_step(a.at(row, step), b.at(column, step), c);
  }
  return c;
}

uint64_t differences(const Codes& a, uint32_t rows, const Codes& b, uint32_t n, uint32_t steps,
                     const std::vector<float>& start, const std::vector<float>& result) {
  uint64_t count = 0;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < n; ++column) {
      const size_t at = row * n + column;
      const float expected = chain(a, row, b, column, steps, start[at]);
      if (bits_of_float(result[at]) != bits_of_float(expected)) ++count;
    }
  }
  return count;
}

TEST_CASE("tensor_core: the tile form equals the definition for all kinds of codes and sizes") {
  for_each_simd_target([] {
    Random random(21);
    for (const CodeKind a_kind : kCodeKinds) {
      for (const CodeKind b_kind : kCodeKinds) {
        const uint32_t rows = 1 + static_cast<uint32_t>(random() % 9);
        const uint32_t n = 1 + static_cast<uint32_t>(random() % 35);
        const uint32_t steps = 1 + static_cast<uint32_t>(random() % 5);
        const Codes a(a_kind, rows, steps, random);
        const Codes b(b_kind, n, steps, random);
        std::vector<float> acc(size_t{rows} * n, std::nanf(""));
        tile_steps(a.bytes.data(), a.pitch, rows, b.bytes.data(), b.pitch, n, steps, acc.data());
        CAPTURE(static_cast<int>(a_kind));
        CAPTURE(static_cast<int>(b_kind));
        CHECK(differences(a, rows, b, n, steps, std::vector<float>(acc.size(), 0.0f), acc) == 0);
      }
    }
  });
}

TEST_CASE("tensor_core: a packed tile gives what its operands give, however often") {
  for_each_simd_target([] {
    Random random(27);
    for (const CodeKind kind : kCodeKinds) {
      // Around the rows and columns that are taken together.
      for (const uint32_t rows : {1u, 31u, 33u, 70u}) {
        const uint32_t n = 1 + static_cast<uint32_t>(random() % 50);
        const uint32_t steps = 1 + static_cast<uint32_t>(random() % 5);
        const Codes a(kind, rows, steps, random);
        const Codes b(kind, n, steps, random);
        const PackedTile packed(a.bytes.data(), a.pitch, rows, b.bytes.data(), b.pitch, n, steps);
        std::vector<float> expected(size_t{rows} * n);
        tile_steps(a.bytes.data(), a.pitch, rows, b.bytes.data(), b.pitch, n, steps,
                   expected.data());
        for (int time = 0; time < 2; ++time) {
          std::vector<float> acc(expected.size(), std::nanf(""));
          packed.multiply(acc.data());
          CAPTURE(rows);
          CAPTURE(n);
          CHECK(std::memcmp(acc.data(), expected.data(), acc.size() * sizeof(float)) == 0);
        }
      }
    }
  });
}

TEST_CASE("tensor_core: every pair of codes multiplies alike in both forms, alone and in company") {
  // Row r holds code r alone, or with a term that pushes the product below the alignment.
  for_each_simd_target([] {
    for (const uint8_t company : {0x00, 0x38, 0x7E}) {
      std::vector<uint8_t> codes(256 * kTensorCoreK, 0);
      for (size_t code = 0; code < 256; ++code) {
        codes[code * kTensorCoreK] = static_cast<uint8_t>(code);
        codes[code * kTensorCoreK + 17] = company;
      }
      std::vector<float> acc(256 * 256);
      tile_steps(codes.data(), kTensorCoreK, 256, codes.data(), kTensorCoreK, 256, 1, acc.data());
      uint64_t wrong = 0;
      for (size_t a = 0; a < 256; ++a) {
        for (size_t b = 0; b < 256; ++b) {
          const float expected =
              tensor_core_step(&codes[a * kTensorCoreK], &codes[b * kTensorCoreK], 0.0f);
          if (bits_of_float(acc[a * 256 + b]) != bits_of_float(expected)) ++wrong;
        }
      }
      CHECK(wrong == 0);
    }
  });
}

/// Values to start a chain from: any bits, near the products, special, tiny and large.
float random_start(Random& random) {
  switch (random() % 5) {
    case 0:
      return float_of_bits(static_cast<uint32_t>(random()));
    case 1:
      return std::ldexp(std::normal_distribution<float>()(random),
                        static_cast<int>(random() % 48) - 26);
    case 2: {
      constexpr float kSpecial[] = {0.0f,   -0.0f,     kInfinity, -kInfinity, 0x1p-126f,
                                    1e-45f, -0x1p-40f, 0x1p100f,  0x1.8p100f, 3e38f};
      return kSpecial[random() % std::size(kSpecial)];
    }
    case 3:
      return std::ldexp(std::normal_distribution<float>()(random),
                        static_cast<int>(random() % 30) - 60);
    default:
      return std::ldexp(std::normal_distribution<float>()(random),
                        static_cast<int>(random() % 240) - 120);
  }
}

TEST_CASE("tensor_core: a chain may start from any value in both forms") {
  for_each_simd_target([] {
    Random random(22);
    for (int round = 0; round < 4; ++round) {
      for (const CodeKind kind : kCodeKinds) {
        const uint32_t rows = 1 + static_cast<uint32_t>(random() % 9);
        const uint32_t n = 1 + static_cast<uint32_t>(random() % 35);
        const uint32_t steps = static_cast<uint32_t>(random() % 4);
        const Codes a(kind, rows, steps, random);
        const Codes b(kind, n, steps, random);
        std::vector<float> start(size_t{rows} * n);
        std::generate(start.begin(), start.end(), [&] { return random_start(random); });
        std::vector<float> acc = start;
        tile_steps_from(a.bytes.data(), a.pitch, rows, b.bytes.data(), b.pitch, n, steps,
                        acc.data());
        CAPTURE(static_cast<int>(kind));
        CHECK(differences(a, rows, b, n, steps, start, acc) == 0);
      }
    }
  });
}

TEST_CASE("tensor_core: no step gives +0 and nothing to do gives nothing") {
  float acc[2] = {1.0f, 2.0f};
  tile_steps(nullptr, 0, 1, nullptr, 0, 2, 0, acc);
  CHECK(bits_of_float(acc[0]) == 0);
  CHECK(bits_of_float(acc[1]) == 0);
  const std::vector<uint8_t> codes(kTensorCoreK, 0x38);
  tile_steps(codes.data(), kTensorCoreK, 0, codes.data(), kTensorCoreK, 1, 1, nullptr);
  tile_steps(codes.data(), kTensorCoreK, 1, codes.data(), kTensorCoreK, 0, 1, nullptr);
}

TEST_CASE("tensor_core: the caller's rounding mode neither matters nor changes") {
  Random random(23);
  const Codes a(CodeKind::Normal, 5, 4, random);
  const Codes b(CodeKind::Normal, 19, 4, random);
  std::vector<float> expected(5 * 19);
  tile_steps(a.bytes.data(), a.pitch, 5, b.bytes.data(), b.pitch, 19, 4, expected.data());
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    std::vector<float> acc(5 * 19);
    std::fesetround(mode);
    tile_steps(a.bytes.data(), a.pitch, 5, b.bytes.data(), b.pitch, 19, 4, acc.data());
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(after == mode);
    CHECK(std::equal(acc.begin(), acc.end(), expected.begin()));
  }
}

TEST_CASE("tensor_core: promotion of a tile equals promotion of its elements, ties included") {
  for_each_simd_target([] {
    Random random(24);
    constexpr uint32_t kRows = 7;
    constexpr uint32_t kColumns = 37;
    constexpr size_t kPitch = 41;
    // Few significant bits make products and sums that are ties.
    const auto value = [&](int spread) {
      const float significand = static_cast<float>(static_cast<int>(random() % 8192) - 4096);
      return std::ldexp(significand, static_cast<int>(random() % 2 * spread) - 12);
    };
    std::vector<float> acc(kRows * kColumns);
    std::vector<float> row_scales(kRows * 3);
    std::vector<float> column_scales(kColumns);
    std::vector<float> final(kRows * kPitch, 42.0f);
    for (float& x : acc) x = value(6);
    for (float& x : row_scales) x = value(3);
    for (float& x : column_scales) x = value(3);
    std::vector<float> expected = final;
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t j = 0; j < kColumns; ++j) {
        float& at = final[row * kPitch + j];
        at = value(24);
        expected[row * kPitch + j] =
            promote(at, acc[row * kColumns + j], row_scales[row * 3], column_scales[j]);
      }
    }
    promote_tile(acc.data(), kRows, kColumns, {row_scales.data(), 3, column_scales.data()},
                 final.data(), kPitch);
    CHECK(std::equal(final.begin(), final.end(), expected.begin()));
  });
}

}  // namespace
}  // namespace moetwin
