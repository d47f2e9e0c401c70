#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/check.h"
#include "model/compare.h"
#include "model/naive.h"
#include "model/result_tensors.h"
#include "model/tensor_files.h"
#include "tests/sample_problem.h"

namespace moetwin {
namespace {

/// A file name that is free now and gone at the end.
class TemporaryPath {
 public:
  TemporaryPath()
      : path_((std::filesystem::temp_directory_path() / "moetwin_test_result_tensors.safetensors")
                  .string()) {}
  ~TemporaryPath() { std::filesystem::remove(path_); }
  const std::string& string() const { return path_; }

 private:
  std::string path_;
};

template <typename T>
std::vector<T> values(const TensorFiles& file, const char* name) {
  const TensorView& view = file.tensor(name);
  std::vector<T> out(view.bytes.size() / sizeof(T));
  std::memcpy(out.data(), view.bytes.data(), view.bytes.size());
  return out;
}

const Shape kShape{2, 4, 3, 256, 128, 4};
const std::vector<uint32_t> kTokens = {3, 2};

TEST_CASE("result_tensors: a dump reads back as the same result, stage by stage") {
  const TemporaryPath path;
  const Problem problem = test::draw_problem(kShape, kTokens, 1);
  const LayerResult result = run_naive(problem);
  write_dump(path.string(), problem, result);
  const LayerResult back = read_dump(path.string(), kShape, kTokens);
  const Comparison comparison = compare_results(result, back);
  INFO(describe(comparison, "written", "read"));
  CHECK(comparison.equal());
  for (const Stage stage : kStages) CHECK(comparison.stage(stage).compared());
}

TEST_CASE("result_tensors: a dump holds the inputs under the names and shapes of a data file") {
  const TemporaryPath path;
  const Problem problem = test::draw_problem(kShape, kTokens, 2);
  const LayerResult result = run_naive(problem);
  write_dump(path.string(), problem, result);
  const TensorFiles file(path.string());
  using Dims = std::vector<uint64_t>;
  CHECK(file.tensor("y").shape == Dims{5, 256});
  CHECK(file.tensor("y").dtype == Dtype::Bf16);
  CHECK(file.tensor("rows").shape == Dims{result.rows.size(), 4});
  CHECK(file.tensor("rows").dtype == Dtype::I32);
  CHECK(file.tensor("l1.codes").dtype == Dtype::F8E4m3);
  CHECK(file.tensor("l1.scales").shape == Dims{result.rows.size(), 2});
  CHECK(file.tensor("l2").shape == Dims{result.rows.size(), 256});
  CHECK(file.tensor("w1.codes").shape == Dims{4, 256, 256});
  CHECK(file.tensor("w1.scales").shape == Dims{4, 2, 2});
  CHECK(file.tensor("w2.codes").shape == Dims{4, 256, 128});
  CHECK(file.tensor("w2.scales").shape == Dims{4, 2, 1});
  CHECK(file.tensor("x.codes").shape == Dims{5, 256});
  CHECK(file.tensor("x.scales").shape == Dims{5, 2});
  CHECK(file.tensor("topk.idx").shape == Dims{5, 3});
  CHECK(file.tensor("topk.idx").dtype == Dtype::I32);

  const auto idx = values<int32_t>(file, "topk.idx");
  const auto& second = problem.ranks[1].topk_idx;
  CHECK(std::equal(second.begin(), second.end(), idx.begin() + 9));
  const auto x = values<uint8_t>(file, "x.codes");
  CHECK(std::equal(x.begin(), x.begin() + 768, problem.ranks[0].x_codes.begin()));
  const auto w1_codes = values<uint8_t>(file, "w1.codes");
  const auto w2_scales = values<float>(file, "w2.scales");
  for (uint32_t expert = 0; expert < 4; ++expert) {
    const auto weights = problem.weights->expert(expert);
    CHECK(std::equal(weights->w1_codes.begin(), weights->w1_codes.end(),
                     w1_codes.begin() + expert * 256 * 256));
    CHECK(w2_scales[expert * 2 + 1] == weights->w2_scales[1]);
  }
  const auto rows = values<int32_t>(file, "rows");
  const RoutedRow& last = result.rows.back();
  CHECK(rows[rows.size() - 4] == static_cast<int32_t>(last.rank));
  CHECK(rows[rows.size() - 3] == static_cast<int32_t>(last.token));
  CHECK(rows[rows.size() - 2] == static_cast<int32_t>(last.k));
  CHECK(rows[rows.size() - 1] == static_cast<int32_t>(last.expert));
}

TEST_CASE("result_tensors: stages that were not tapped are not in the dump") {
  const TemporaryPath path;
  const Problem problem = test::draw_problem(kShape, kTokens, 3);
  LayerResult result = run_naive(problem);
  result.l1_codes.clear();
  result.l1_scales.clear();
  write_dump(path.string(), problem, result);
  const TensorFiles file(path.string());
  CHECK(!file.has("l1.codes"));
  CHECK(!file.has("l1.scales"));
  const LayerResult back = read_dump(path.string(), kShape, kTokens);
  CHECK(!has_stage(back, Stage::L1));
  CHECK(back.l2 == result.l2);
}

TEST_CASE("result_tensors: y alone, computed elsewhere, is enough to compare") {
  const TemporaryPath path;
  const std::vector<uint16_t> y(5 * 256, 0x3F80);
  write_safetensors(path.string(), {tensor_source("y", Dtype::Bf16, {5, 256}, y)});
  const LayerResult back = read_dump(path.string(), kShape, kTokens);
  CHECK(back.y == y);
  CHECK(has_stage(back, Stage::Y));
  CHECK(!has_stage(back, Stage::Metadata));
  CHECK(!has_stage(back, Stage::Slots));
}

void check_refused(const std::vector<TensorSource>& tensors, const std::string& part) {
  const TemporaryPath path;
  write_safetensors(path.string(), tensors);
  try {
    read_dump(path.string(), kShape, kTokens);
    FAIL("accepted; expected: " << part);
  } catch (const InputError& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find(part) != std::string::npos);
  }
}

TEST_CASE("result_tensors: tensors that do not fit the case are refused by name") {
  const std::vector<uint16_t> y(6 * 256, 0);
  check_refused({tensor_source("y", Dtype::Bf16, {6, 256}, y)}, "y");
  check_refused({tensor_source("z", Dtype::Bf16, {6, 256}, y)}, "neither y nor rows");
  const auto rows = [](const std::vector<int32_t>& keys) {
    return std::vector<TensorSource>{tensor_source("rows", Dtype::I32, {keys.size() / 4, 4}, keys)};
  };
  const std::vector<std::pair<std::vector<int32_t>, const char*>> faults = {
      {{2, 0, 0, 0}, "rows[0]: rank 2"},
      {{0, 0, 0, 0, 1, 2, 0, 0}, "rows[1]: token 2"},
      {{0, 0, 3, 0}, "rows[0]: k 3"},
      {{0, 0, 0, 4}, "rows[0]: expert 4"},
      {{0, -1, 0, 0}, "rows[0]: token -1"},
      {{0, 1, 0, 0, 0, 0, 2, 0}, "rows[1]: rank, token, k must ascend"},
      {{0, 1, 0, 0, 0, 1, 0, 1}, "rows[1]: rank, token, k must ascend"},
  };
  for (const auto& [keys, part] : faults) check_refused(rows(keys), part);
  const std::vector<int32_t> one = {0, 0, 0, 0};
  const std::vector<uint16_t> l2(128, 0);
  check_refused({tensor_source("rows", Dtype::I32, {1, 4}, one),
                 tensor_source("l2", Dtype::Bf16, {1, 128}, l2)},
                "l2");
  check_refused({tensor_source("rows", Dtype::I32, {4}, one)}, "[N, 4]");
}

}  // namespace
}  // namespace moetwin
