#include <doctest/doctest.h>
#include <omp.h>

#include <cstring>
#include <thread>

#include "common/number_formats.h"
#include "model/data.h"
#include "model/quantise.h"
#include "tests/input_checks.h"

namespace moetwin {
namespace {
using namespace test;

constexpr DataKind kGeneratedKinds[] = {DataKind::Normal,    DataKind::Outlier, DataKind::SameSign,
                                        DataKind::HeavyTail, DataKind::Ties,    DataKind::Extreme};

DataSpec spec_of(DataKind kind, uint64_t seed = 1) {
  DataSpec spec;
  spec.kind = kind;
  spec.seed = seed;
  spec.nan = true;
  return spec;
}

Shape shape_of(uint32_t hidden, uint32_t intermediate, uint32_t capacity = 64) {
  return {3, 6, 2, hidden, intermediate, capacity};
}

std::vector<RankInput> activations(const DataSpec& spec, const Shape& shape,
                                   const std::vector<uint32_t>& tokens) {
  std::vector<RankInput> ranks;
  make_activations(spec, shape, tokens, ranks);
  return ranks;
}

bool same_activations(const RankInput& a, const RankInput& b) {
  return a.x_codes == b.x_codes && a.x_scales == b.x_scales;
}

bool same_weights(const ExpertWeights& a, const ExpertWeights& b) {
  return a.w1_codes == b.w1_codes && a.w1_scales == b.w1_scales && a.w2_codes == b.w2_codes &&
         a.w2_scales == b.w2_scales;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

std::string weights_digest(const ExpertWeights& weights) {
  ByteDigest digest;
  digest.add(weights.w1_codes);
  digest.add(weights.w1_scales);
  digest.add(weights.w2_codes);
  digest.add(weights.w2_scales);
  return digest.text();
}

}  // namespace

TEST_CASE("data: activations depend neither on capacity nor on other tokens nor on threads") {
  const int threads = omp_get_max_threads();
  for (const DataKind kind : kGeneratedKinds) {
    CAPTURE(static_cast<int>(kind));
    const DataSpec spec = spec_of(kind, 5);
    const std::vector<RankInput> base = activations(spec, shape_of(256, 128), {9, 0, 20});
    const std::vector<RankInput> roomy = activations(spec, shape_of(256, 128, 5000), {9, 0, 20});
    const std::vector<RankInput> other = activations(spec, shape_of(256, 128), {12, 3, 20});
    for (uint32_t rank = 0; rank < 3; ++rank) CHECK(same_activations(base[rank], roomy[rank]));
    CHECK(same_activations(base[2], other[2]));
    CHECK(std::equal(base[0].x_codes.begin(), base[0].x_codes.end(), other[0].x_codes.begin()));
    CHECK(base[0].x_codes.size() == 9 * 256);
    CHECK(base[0].x_scales.size() == 9 * 2);
    for (const int team : {1, 3}) {
      omp_set_num_threads(team);
      CHECK(same_activations(activations(spec, shape_of(256, 128), {9, 0, 20})[2], base[2]));
    }
    omp_set_num_threads(threads);
    CHECK_FALSE(same_activations(activations(spec_of(kind, 6), shape_of(256, 128), {9, 0, 20})[2],
                                 base[2]));
  }
}

TEST_CASE("data: a wider layer begins with the values of the narrower one") {
  for (const DataKind kind : {DataKind::Normal, DataKind::Outlier, DataKind::HeavyTail}) {
    std::vector<std::vector<float>> narrow;
    std::vector<std::vector<float>> wide;
    make_unquantised_activations(spec_of(kind), shape_of(128, 128), std::vector<uint32_t>{1, 0, 2},
                                 narrow);
    make_unquantised_activations(spec_of(kind), shape_of(384, 128), std::vector<uint32_t>{1, 0, 2},
                                 wide);
    CHECK(std::equal(narrow[2].begin(), narrow[2].begin() + 128, wide[2].begin()));
    CHECK(std::equal(narrow[2].begin() + 128, narrow[2].end(), wide[2].begin() + 384));
  }
}

TEST_CASE("data: the codes are those of the unquantised tensors") {
  const Shape shape = shape_of(256, 384);
  const std::vector<uint32_t> tokens = {5, 1, 7};
  for (const DataKind kind : kGeneratedKinds) {
    CAPTURE(static_cast<int>(kind));
    DataSpec spec = spec_of(kind, 9);
    spec.nan = false;
    REQUIRE(has_unquantised(spec));
    const std::vector<RankInput> ranks = activations(spec, shape, tokens);
    std::vector<std::vector<float>> x;
    make_unquantised_activations(spec, shape, tokens, x);
    const auto weights = make_weights(spec, shape)->expert(4);
    const UnquantisedExpert floats = make_unquantised_expert(spec, shape, 4);
    REQUIRE(floats.w1.size() == size_t{768} * 256);
    REQUIRE(floats.w2.size() == size_t{256} * 384);
    if (kind != DataKind::Extreme) {
      for (uint32_t rank = 0; rank < 3; ++rank) {
        std::vector<uint8_t> codes(ranks[rank].x_codes.size());
        std::vector<float> scales(ranks[rank].x_scales.size());
        quantise_activations(x[rank].data(), tokens[rank], 256, codes.data(), scales.data());
        CHECK(codes == ranks[rank].x_codes);
        CHECK(scales == ranks[rank].x_scales);
      }
    }
    std::vector<uint8_t> codes(floats.w1.size());
    std::vector<float> scales(weights->w1_scales.size());
    const bool is_direct = kind == DataKind::Extreme || kind == DataKind::Ties;
    if (!is_direct) {
      quantise_weights(floats.w1.data(), 768, 256, codes.data(), scales.data());
      CHECK(codes == weights->w1_codes);
      CHECK(scales == weights->w1_scales);
      codes.resize(floats.w2.size());
      scales.resize(weights->w2_scales.size());
      quantise_weights(floats.w2.data(), 256, 384, codes.data(), scales.data());
      CHECK(codes == weights->w2_codes);
      CHECK(scales == weights->w2_scales);
    } else {
      for (size_t i = 0; i < floats.w2.size(); ++i) {
        const size_t block = i / 384 / 128 * 3 + i % 384 / 128;
        REQUIRE(floats.w2[i] == decode_e4m3(weights->w2_codes[i]) * weights->w2_scales[block]);
      }
    }
  }
}

TEST_CASE("data: an expert's weights are shared while held and made again with equal bits") {
  for (const DataKind kind : kGeneratedKinds) {
    CAPTURE(static_cast<int>(kind));
    const auto source = make_weights(spec_of(kind), shape_of(256, 128));
    auto held = source->expert(3);
    CHECK(source->expert(3) == held);
    CHECK_FALSE(same_weights(*source->expert(2), *held));
    const ExpertWeights copy = *held;
    const std::weak_ptr<const ExpertWeights> watched = held;
    held.reset();
    CHECK(watched.expired());
    CHECK(same_weights(*source->expert(3), copy));
    CHECK(same_weights(*make_weights(spec_of(kind), shape_of(256, 128, 1000))->expert(3), copy));
    CHECK_FALSE(same_weights(*make_weights(spec_of(kind, 2), shape_of(256, 128))->expert(3), copy));
  }
}

TEST_CASE("data: experts asked for by many threads at once are made once each") {
  const auto source = make_weights(spec_of(DataKind::Normal), shape_of(256, 256));
  std::vector<std::shared_ptr<const ExpertWeights>> got(24);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&source, &got, t] {
      for (uint32_t e = 0; e < 6; ++e) got[t * 6 + e] = source->expert((e + t) % 6);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t t = 0; t < 4; ++t) {
    for (uint32_t e = 0; e < 6; ++e) CHECK(got[t * 6 + e] == source->expert((e + t) % 6));
  }
  std::vector<std::shared_ptr<const ExpertWeights>> nested(6);
#pragma omp parallel for num_threads(3)
  for (int e = 0; e < 6; ++e) nested[static_cast<size_t>(e)] = source->expert(uint32_t(e));
  for (uint32_t e = 0; e < 6; ++e) CHECK(nested[e] == got[e]);
}

TEST_CASE("data: a data file gives its rows to the ranks in order, and its experts") {
  const Shape shape = shape_of(128, 128);
  const std::vector<uint32_t> tokens = {1, 0, 2};
  const DataSpec generated = spec_of(DataKind::Extreme, 3);
  const std::vector<RankInput> ranks = activations(generated, shape, tokens);
  const auto source = make_weights(generated, shape);
  std::vector<uint8_t> x_codes, w1_codes, w2_codes;
  std::vector<float> x_scales, w1_scales, w2_scales;
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const RankInput& rank : ranks) {
    append(x_codes, rank.x_codes);
    append(x_scales, rank.x_scales);
  }
  for (uint32_t e = 0; e < 6; ++e) {
    const auto expert = source->expert(e);
    append(w1_codes, expert->w1_codes);
    append(w1_scales, expert->w1_scales);
    append(w2_codes, expert->w2_codes);
    append(w2_scales, expert->w2_scales);
  }
  const std::vector<TensorSource> tensors = {
      tensor_source("x.codes", Dtype::F8E4m3, {3, 128}, x_codes),
      tensor_source("x.scales", Dtype::F32, {3, 1}, x_scales),
      tensor_source("w1.codes", Dtype::U8, {6, 256, 128}, w1_codes),
      tensor_source("w1.scales", Dtype::F32, {6, 2, 1}, w1_scales),
      tensor_source("w2.codes", Dtype::F8E4m3, {6, 128, 128}, w2_codes),
      tensor_source("w2.scales", Dtype::F32, {6, 1, 1}, w2_scales)};
  const TemporaryFile file(".safetensors");
  write_safetensors(file.path(), tensors);
  DataSpec spec = spec_of(DataKind::File);
  spec.path = file.path();
  CHECK_FALSE(has_unquantised(spec));
  const std::vector<RankInput> read = activations(spec, shape, tokens);
  for (uint32_t rank = 0; rank < 3; ++rank) CHECK(same_activations(read[rank], ranks[rank]));
  const auto from_file = make_weights(spec, shape);
  for (const uint32_t e : {5u, 0u}) CHECK(same_weights(*from_file->expert(e), *source->expert(e)));
  CHECK(from_file->expert(1) != nullptr);

  const auto x_refusal = [&](const Shape& s, const std::vector<uint32_t>& t) {
    return refusal([&] { activations(spec, s, t); });
  };
  CHECK(
      contains(x_refusal(shape, {2, 0, 2}), "tensor \"x.codes\": shape [3, 128] is not [4, 128]"));
  CHECK(contains(x_refusal(shape_of(256, 128), {2, 0, 1}), "is not [3, 256]"));
  CHECK(contains(refusal([&] { make_weights(spec, shape_of(128, 256)); }),
                 "tensor \"w1.codes\": shape [6, 256, 128] is not [6, 512, 128]"));
  for (size_t left_out = 0; left_out < tensors.size(); ++left_out) {
    std::vector<TensorSource> fewer = tensors;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(left_out));
    write_safetensors(file.path(), fewer);
    const std::string message = refusal([&] {
      activations(spec, shape, tokens);
      make_weights(spec, shape);
    });
    CHECK(contains(message, "has no tensor \"" + tensors[left_out].name + "\""));
  }
  spec.path = "/nonexistent/x.safetensors";
  CHECK(contains(x_refusal(shape, tokens), "/nonexistent/x.safetensors: cannot be opened"));
}

TEST_CASE("data: token counts and shapes outside their limits are refused") {
  const DataSpec spec = spec_of(DataKind::Normal);
  CHECK(contains(refusal([&] { activations(spec, shape_of(128, 128), {1, 2}); }), "tokens: 2"));
  CHECK(contains(refusal([&] {
                   activations(spec, shape_of(128, 128), {1, 2, 65});
                 }),
                 "tokens[2]: 65"));
  CHECK(contains(refusal([&] { make_weights(spec, shape_of(130, 128)); }), "shape.hidden: 130"));
}

TEST_CASE("data: the bits of every generated kind are those of format 1") {
  const std::string recorded_x[] = {"a9a01c4c01741f69", "7d72526f4db5ce40", "65a52dc3a71758e9",
                                    "50b786e40384d07e", "44a10947f3053372", "0cc28cb70048e324"};
  const std::string recorded_w[] = {"932020ec79ad304c", "932020ec79ad304c", "45c90d17deb4de4c",
                                    "ab1f18877a06ed91", "82dacfe5354cd38e", "fa0cfe7af2bd6510"};
  const Shape shape = shape_of(384, 256);
  for (size_t i = 0; i < std::size(kGeneratedKinds); ++i) {
    CAPTURE(i);
    const DataSpec spec = spec_of(kGeneratedKinds[i], 42);
    ByteDigest digest;
    for (const RankInput& rank : activations(spec, shape, {33, 0, 7})) {
      digest.add(rank.x_codes);
      digest.add(rank.x_scales);
    }
    CHECK(digest.text() == recorded_x[i]);
    CHECK(weights_digest(*make_weights(spec, shape)->expert(5)) == recorded_w[i]);
  }
}

}  // namespace moetwin
