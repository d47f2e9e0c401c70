#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/counter_random.h"
#include "model/data.h"
#include "model/normal_values.h"

namespace moetwin {
namespace {

DataSpec spec_of(DataKind kind, uint64_t seed = 1) {
  DataSpec spec;
  spec.kind = kind;
  spec.seed = seed;
  return spec;
}

std::vector<float> activations(const DataSpec& spec, uint32_t hidden, uint32_t tokens) {
  std::vector<std::vector<float>> x;
  make_unquantised_activations(spec, {1, 1, 1, hidden, 128, tokens}, std::vector<uint32_t>{tokens},
                               x);
  return x[0];
}

struct Moments {
  double mean = 0;
  double variance = 0;
  double kurtosis = 0;
};

Moments moments_of(const std::vector<float>& values) {
  Moments m;
  for (const float value : values) {
    const double square = double{value} * value;
    m.mean += value;
    m.variance += square;
    m.kurtosis += square * square;
  }
  const auto count = static_cast<double>(values.size());
  m.mean /= count;
  m.variance /= count;
  m.kurtosis /= count;
  return m;
}

/// Correlation of value i with value i + lag, in standard errors.
double correlation(const std::vector<float>& values, size_t lag) {
  double sum = 0;
  for (size_t i = 0; i + lag < values.size(); ++i) sum += double{values[i]} * values[i + lag];
  return sum / std::sqrt(static_cast<double>(values.size() - lag));
}

}  // namespace

TEST_CASE("counter_random: draws below a limit are uniform and in range at every size") {
  const Key key(3, Stream::RoutingExperts);
  for (const uint64_t limit :
       {uint64_t{1}, uint64_t{3}, uint64_t{4096}, (uint64_t{1} << 40) + 1, ~uint64_t{0}}) {
    double sum = 0;
    for (uint64_t n = 0; n < 10000; ++n) {
      const uint64_t value = below(key.draw(n), limit);
      REQUIRE(value < limit);
      sum += static_cast<double>(value) / static_cast<double>(limit);
    }
    const double spread = limit == 1 ? 1e-9 : 4 * std::sqrt(1 / 12.0 / 10000);
    CHECK(std::abs(sum / 10000 - 0.5 + 0.5 / static_cast<double>(limit)) < spread);
  }
  CHECK(below(~uint64_t{0}, 7) == 6);
  CHECK(below(0, 7) == 0);
  CHECK(below(~uint64_t{0}, ~uint64_t{0}) == ~uint64_t{0} - 1);
  CHECK(unit_interval(~uint64_t{0}) < 1);
  CHECK(unit_interval_above_zero(0) > 0);
  CHECK(unit_interval_above_zero(~uint64_t{0}) == 1);
}

TEST_CASE("counter_random: a power keeps 16 significant bits and forgets the last of a library") {
  CHECK(round_to_16_bits(1.0) == 1.0);
  CHECK(round_to_16_bits(65535.0) == 65535.0);
  CHECK(round_to_16_bits(65536.5) == 65536.0);
  CHECK(round_to_16_bits(65537.0) == 65538.0);
  CHECK(round_to_16_bits(65535.5) == 65536.0);
  CHECK(round_to_16_bits(1.0 / 3) == 43691.0 / 131072);
  for (uint32_t place = 2; place < 4096; ++place) {
    const double power = std::pow(place, -1.2);
    const double rounded = round_to_16_bits(power);
    REQUIRE(rounded == round_to_16_bits(std::nextafter(power, 0.0)));
    REQUIRE(rounded == round_to_16_bits(std::nextafter(power, 1.0)));
    REQUIRE(std::abs(rounded / power - 1) <= 0x1p-16);
  }
}

TEST_CASE("counter_random: a hash moves half of its bits when one coordinate bit changes") {
  double smallest = 64;
  double largest = 0;
  for (uint32_t bit = 0; bit < 63; ++bit) {
    double moved = 0;
    for (uint64_t n = 0; n < 500; ++n) {
      const Key key = Key(n, Stream::Activations).with(n * n);
      const Key other = Key(n, Stream::Activations).with(n * n ^ uint64_t{1} << bit);
      moved += __builtin_popcountll(key.draw(0) ^ other.draw(0)) / 500.0;
    }
    smallest = std::min(smallest, moved);
    largest = std::max(largest, moved);
  }
  CHECK(smallest > 31);
  CHECK(largest < 33);
}

TEST_CASE("normal_values: every instruction set gives the bits of the definition at any length") {
  const Key key = Key(11, Stream::Weights1).with(3);
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  REQUIRE_FALSE(targets.empty());
  for (const int64_t target : targets) {
    CAPTURE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    for (size_t count = 0; count < 70; ++count) {
      std::vector<float> values(count + 1, -1);
      fill_normal(key, 1000 + count, 0.3f, std::span(values).first(count));
      for (size_t i = 0; i < count; ++i) {
        REQUIRE(values[i] == static_cast<float>(normal_sum(key, 1000 + count + i)) * 0.3f);
      }
      REQUIRE(values[count] == -1);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

TEST_CASE("data: normal has the moments of eight added uniforms and no correlation") {
  const std::vector<float> x = activations(spec_of(DataKind::Normal), 1024, 1000);
  const double error = 1 / std::sqrt(1024000.0);
  const Moments m = moments_of(x);
  CHECK(std::abs(m.mean) < 4 * error);
  CHECK(std::abs(m.variance - 1) < 4 * 1.36 * error);
  CHECK(std::abs(m.kurtosis - 2.85) < 4 * 4.5 * error);
  for (const size_t lag : {1, 2, 3, 4, 7, 8, 16, 64, 128, 256, 1023, 1024, 1025, 2048, 4096}) {
    CAPTURE(lag);
    CHECK(std::abs(correlation(x, lag)) < 4);
  }
  CHECK(*std::max_element(x.begin(), x.end()) < 4.9f);

  const UnquantisedExpert expert =
      make_unquantised_expert(spec_of(DataKind::Normal), {1, 2, 1, 512, 256, 1}, 1);
  const Moments w1 = moments_of(expert.w1);
  const Moments w2 = moments_of(expert.w2);
  CHECK(std::abs(w1.variance / 0.0025 - 1) < 0.015);
  CHECK(std::abs(w2.variance / 0.0025 - 1) < 0.02);
  CHECK(std::abs(w1.mean) < 4 * 0.05 / 512);
  double cross = 0;
  for (size_t i = 0; i < expert.w2.size(); ++i) cross += double{expert.w1[i]} * expert.w2[i];
  CHECK(std::abs(cross / 0.0025 / std::sqrt(512.0 * 256)) < 4);
}

TEST_CASE("data: outlier makes a few channels a hundred times larger, the same for all tokens") {
  const std::vector<float> plain = activations(spec_of(DataKind::Normal), 4096, 20);
  const std::vector<float> x = activations(spec_of(DataKind::Outlier), 4096, 20);
  std::set<size_t> channels;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == plain[i]) continue;
    REQUIRE(x[i] == plain[i] * 100);
    channels.insert(i % 4096);
  }
  CHECK(channels.size() >= 3);
  CHECK(channels.size() <= 16);
  CHECK(*channels.begin() < 128);
  for (const size_t channel : channels) CHECK(x[channel + 4096] == plain[channel + 4096] * 100);
}

TEST_CASE("data: same_sign takes away every sign and nothing else") {
  const std::vector<float> plain = activations(spec_of(DataKind::Normal), 256, 20);
  const std::vector<float> x = activations(spec_of(DataKind::SameSign), 256, 20);
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(x[i] == std::abs(plain[i]));
  const UnquantisedExpert expert =
      make_unquantised_expert(spec_of(DataKind::SameSign), {1, 1, 1, 128, 128, 1}, 0);
  CHECK(*std::min_element(expert.w1.begin(), expert.w1.end()) >= 0);
  CHECK(*std::min_element(expert.w2.begin(), expert.w2.end()) >= 0);
}

TEST_CASE("data: heavy_tail falls like the square of the size") {
  const std::vector<float> x = activations(spec_of(DataKind::HeavyTail), 1024, 500);
  const auto above = [&x](float limit) {
    return static_cast<double>(
        std::count_if(x.begin(), x.end(), [limit](float v) { return std::abs(v) > limit; }));
  };
  // Four times rarer for each doubling, far above the largest normal value.
  const double at8 = above(8);
  const double at16 = above(16);
  const double at32 = above(32);
  CHECK(at8 > 4000);
  CHECK(std::abs(at8 / at16 - 4) < 0.3);
  CHECK(std::abs(at16 / at32 - 4) < 0.6);
}

TEST_CASE("data: extreme has zeros, subnormals, largest codes, wide scales and zero rows") {
  for (const bool nan : {false, true}) {
    DataSpec spec = spec_of(DataKind::Extreme);
    spec.nan = nan;
    std::vector<RankInput> ranks;
    make_activations(spec, {1, 1, 1, 256, 128, 2000}, std::vector<uint32_t>{2000}, ranks);
    std::vector<double> counts(256, 0);
    double zero_rows = 0;
    for (size_t token = 0; token < 2000; ++token) {
      bool is_zero = true;
      for (size_t i = 0; i < 256; ++i) {
        const uint8_t code = ranks[0].x_codes[token * 256 + i];
        ++counts[code];
        is_zero = is_zero && ((code & 0x7F) == 0 || (code & 0x7F) == 0x7F);
      }
      zero_rows += is_zero ? 1 : 0;
    }
    CAPTURE(nan);
    CHECK(std::abs(zero_rows - 250) < 60);
    const double elements = 512000;
    CHECK(counts[0] > elements / 16);
    CHECK(counts[0x80] > elements / 16);
    CHECK(counts[0x7E] > elements / 32);
    CHECK(counts[0xFE] > elements / 32);
    for (uint32_t code = 1; code < 8; ++code) CHECK(counts[code] > elements / 400);
    for (uint32_t code = 0; code < 0x7F; ++code) CHECK(counts[code] > 0);
    CHECK((counts[0x7F] > 100) == nan);
    CHECK((counts[0xFF] > 100) == nan);
    if (!nan) CHECK(counts[0x7F] + counts[0xFF] == 0);

    const auto [low, high] =
        std::minmax_element(ranks[0].x_scales.begin(), ranks[0].x_scales.end());
    CHECK(*low >= 0x1p-60f);
    CHECK(*low < 0x1p-57f);
    CHECK(*high <= 0x1p60f);
    CHECK(*high > 0x1p57f);
    const auto powers =
        std::count_if(ranks[0].x_scales.begin(), ranks[0].x_scales.end(),
                      [](float scale) { return (bits_of_float(scale) & kFloatMantissaMask) == 0; });
    CHECK(std::abs(static_cast<double>(powers) - 2000) < 300);
  }
}

TEST_CASE("data: extreme NaN codes leave most tokens and some experts alone") {
  DataSpec spec = spec_of(DataKind::Extreme);
  spec.nan = true;
  const Shape shape{1, 32, 1, 256, 256, 400};
  std::vector<RankInput> ranks;
  make_activations(spec, shape, std::vector<uint32_t>{400}, ranks);
  const auto has_nan = [](std::span<const uint8_t> codes) {
    return std::any_of(codes.begin(), codes.end(), is_e4m3_nan);
  };
  uint32_t tokens = 0;
  for (size_t token = 0; token < 400; ++token) {
    tokens += has_nan(std::span(ranks[0].x_codes).subspan(token * 256, 256)) ? 1 : 0;
  }
  CHECK(tokens > 20);
  CHECK(tokens < 90);
  uint32_t w1_experts = 0;
  uint32_t w2_experts = 0;
  const auto source = make_weights(spec, shape);
  for (uint32_t e = 0; e < 32; ++e) {
    const auto expert = source->expert(e);
    w1_experts += has_nan(expert->w1_codes) ? 1 : 0;
    w2_experts += has_nan(expert->w2_codes) ? 1 : 0;
  }
  CHECK(w1_experts > 1);
  CHECK(w1_experts < 20);
  CHECK(w2_experts == 32);
}

}  // namespace moetwin
