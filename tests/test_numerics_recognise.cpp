// A y computed elsewhere is told by its bits, from tensors alone: a file with x, weights, routing
// and y, and nothing that says how y came to be.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/number_formats.h"
#include "model/case.h"
#include "model/numerics/bench.h"
#include "model/numerics/explain_y.h"
#include "model/result_tensors.h"
#include "model/safetensors.h"
#include "tests/input_checks.h"

namespace moetwin::numerics {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::refusal;

/// A directory that goes away.
class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(fs::temp_directory_path() /
              ("moetwin_recognise_" + std::to_string(reinterpret_cast<uintptr_t>(this)))) {
    fs::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const fs::path& path() const { return path_; }

  /// One array in version 1 of the format.
  void npy(const std::string& name, const std::string& type, const std::vector<uint64_t>& dims,
           const void* data, size_t bytes) const {
    std::string shape;
    for (const uint64_t dim : dims) shape += std::to_string(dim) + ", ";
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    header.resize((header.size() + 10 + 63) / 64 * 64 - 10, ' ');
    std::string text = "\x93NUMPY";
    text += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
             static_cast<char>(header.size() >> 8)};
    text += header;
    text.append(static_cast<const char*>(data), bytes);
    std::FILE* out = std::fopen(file(name).c_str(), "wb");
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
  }

 private:
  fs::path path_;
};

std::vector<const Variant*> every_variant() {
  std::vector<const Variant*> variants;
  for (const Variant& variant : all_variants()) variants.push_back(&variant);
  return variants;
}

const char* const kShape =
    R"("shape":{"ranks":2,"experts":8,"topk":5,"hidden":512,"intermediate":256,)"
    R"("max_tokens_per_rank":12})";

Case generated_case() {
  return parse_case(std::string("{") + kShape + R"(,"data":{"kind":"heavy_tail"}})", "");
}

Case file_case(const std::string& path) {
  return parse_case(std::string("{") + kShape + R"(,"data":{"kind":"file","path":")" + path +
                        R"("},"routing":{"kind":"file"}})",
                    "");
}

Problem problem_of(const Case& c) {
  WeightCache cache;
  return make_problem(c, 0, cache);
}

LayerResult only_y(const Problem& problem, const std::vector<uint16_t>& y) {
  LayerResult result;
  result.shape = problem.shape;
  for (const RankInput& input : problem.ranks) result.tokens.push_back(input.num_tokens);
  result.y = y;
  return result;
}

}  // namespace

TEST_CASE("numerics: every variant is recognised from the tensors, as exactly its own kind") {
  const TemporaryDirectory dir;
  const Case c = generated_case();
  const Problem problem = problem_of(c);
  const UnquantisedSpecs specs = {c.data, c.data};
  const std::vector<VariantResult> hidden = run_bench(problem, specs, every_variant());
  const std::string path = dir.file("tensors.safetensors");
  write_dump(path, problem, only_y(problem, hidden[0].y), &specs);

  const Case from_file = file_case(path);
  REQUIRE(has_unquantised(from_file.data));
  const std::vector<VariantResult> results = run_bench(
      problem_of(from_file), UnquantisedSpecs{from_file.data, from_file.data}, every_variant());
  uint64_t told_apart = 0;
  for (const VariantResult& secret : hidden) {
    CAPTURE(secret.variant->name);
    const std::string y_path = dir.file("y.npy");
    dir.npy("y.npy", "<u2", {24, 512}, secret.y.data(), secret.y.size() * 2);
    std::set<std::string> found;
    for (const YComparison& comparison : compare_with_y(results, read_y(y_path, 24, 512)))
      if (comparison.differing == 0) found.insert(comparison.variant->name);
    std::set<std::string> equal;
    for (const VariantResult& other : hidden)
      if (other.y == secret.y) equal.insert(other.variant->name);
    CHECK(found == equal);
    told_apart += hidden.size() - equal.size();
  }
  // Most pairs differ here; the rest differ in no bit of this y.
  CHECK(told_apart > hidden.size() * (hidden.size() - 1) * 9 / 10);
}

TEST_CASE("numerics: codes are made of unquantised tensors as the generated problem's were") {
  const TemporaryDirectory dir;
  const Case c = generated_case();
  const Problem problem = problem_of(c);
  std::vector<std::vector<float>> x;
  make_unquantised_activations(c.data, c.shape, c.tokens, x);
  std::vector<float> all_x = x[0];
  all_x.insert(all_x.end(), x[1].begin(), x[1].end());
  std::vector<float> w1;
  std::vector<float> w2;
  for (uint32_t e = 0; e < 8; ++e) {
    const UnquantisedExpert expert = make_unquantised_expert(c.data, c.shape, e);
    w1.insert(w1.end(), expert.w1.begin(), expert.w1.end());
    w2.insert(w2.end(), expert.w2.begin(), expert.w2.end());
  }
  std::vector<int64_t> idx;
  std::vector<float> weights;
  for (const RankInput& input : problem.ranks) {
    idx.insert(idx.end(), input.topk_idx.begin(), input.topk_idx.end());
    weights.insert(weights.end(), input.topk_weights.begin(), input.topk_weights.end());
  }
  dir.npy("x.npy", "<f4", {24, 512}, all_x.data(), all_x.size() * 4);
  dir.npy("w1.npy", "<f4", {8, 512, 512}, w1.data(), w1.size() * 4);
  dir.npy("w2.npy", "<f4", {8, 512, 256}, w2.data(), w2.size() * 4);
  dir.npy("topk.idx.npy", "<i8", {24, 5}, idx.data(), idx.size() * 8);
  dir.npy("topk.weights.npy", "<f4", {24, 5}, weights.data(), weights.size() * 4);
  const Problem read = problem_of(file_case(dir.path().string()));
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(read.ranks[rank].x_codes == problem.ranks[rank].x_codes);
    CHECK(read.ranks[rank].x_scales == problem.ranks[rank].x_scales);
    CHECK(read.ranks[rank].topk_idx == problem.ranks[rank].topk_idx);
  }
  for (uint32_t e = 0; e < 8; ++e) {
    CHECK(read.weights->expert(e)->w1_codes == problem.weights->expert(e)->w1_codes);
    CHECK(read.weights->expert(e)->w2_scales == problem.weights->expert(e)->w2_scales);
  }
}

TEST_CASE("numerics: BF16 tensors are values before quantisation too") {
  const TemporaryDirectory dir;
  const Case c =
      parse_case(R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,)"
                 R"("max_tokens_per_rank":1},"data":{"kind":"file","path":")" +
                     dir.path().string() + R"("}})",
                 "");
  std::vector<uint16_t> x(128);
  for (uint32_t i = 0; i < 128; ++i) x[i] = encode_bf16(static_cast<float>(i) - 60);
  const std::vector<uint16_t> w(256 * 128, encode_bf16(0.5f));
  dir.npy("x.npy", "<V2", {1, 128}, x.data(), 256);
  dir.npy("w1.npy", "<u2", {1, 256, 128}, w.data(), w.size() * 2);
  dir.npy("w2.npy", "|V2", {1, 128, 128}, w.data(), w.size());
  REQUIRE(has_unquantised(c.data));
  std::vector<std::vector<float>> read;
  make_unquantised_activations(c.data, c.shape, c.tokens, read);
  CHECK(read[0][3] == -57);
  CHECK(make_unquantised_expert(c.data, c.shape, 0).w2[5] == 0.5f);
  CHECK(problem_of(c).ranks[0].x_scales[0] == 67.0f / 448);
}

TEST_CASE("numerics: a y that does not fit is refused in one line") {
  const TemporaryDirectory dir;
  const std::vector<float> floats = {1, 0.5f, 1 + 0x1p-20f, 2};
  const auto refused = [&](const std::string& type, const std::vector<uint64_t>& dims,
                           size_t bytes) {
    dir.npy("y.npy", type, dims, floats.data(), bytes);
    return refusal([&] { read_y(dir.file("y.npy"), 2, 2); });
  };
  CHECK(contains(refused("<f4", {2, 2}, 16), "y.npy[1][0]: 1.000001 is no BF16 value"));
  CHECK(contains(refused("<f4", {1, 2}, 8), "shape [1, 2] is not [2, 2]"));
  CHECK(contains(refused("<i4", {2, 2}, 16), "dtype <i4 is not BF16"));
  CHECK(contains(refused("<f4", {2, 2}, 12), "holds 12 bytes of data; its npy header asks for 16"));
  CHECK(contains(refusal([&] { read_y(dir.file("no.npy"), 2, 2); }), "cannot be opened"));
  const std::vector<float> exact = {1, -0.5f, NAN, 3};
  dir.npy("y.npy", "<f4", {2, 2}, exact.data(), 16);
  const std::vector<uint16_t> expected = {0x3F80, 0xBF00, kBf16Nan, 0x4040};
  CHECK(read_y(dir.file("y.npy"), 2, 2) == expected);
}

}  // namespace moetwin::numerics
