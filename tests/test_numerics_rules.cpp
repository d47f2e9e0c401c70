#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "common/float_ops.h"
#include "common/number_formats.h"
#include "model/naive.h"
#include "model/quantise.h"
#include "model/tensor_core.h"
#include "tests/numerics_rules.h"
#include "tests/numerics_witness.h"
#include "tests/paths.h"
#include "tests/sample_problem.h"
#include "tests/simd_targets.h"

namespace moetwin {
namespace {

using test::Change;
using test::ChangeInfo;
using test::EvalCodes;
using test::Seen;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

bool same_stages(const LayerResult& a, const LayerResult& b) {
  return a.l1_codes == b.l1_codes && same_bits(a.l1_scales, b.l1_scales) && a.l2 == b.l2 &&
         a.y == b.y;
}

TEST_CASE("numerics_rules: every rule of the layer has an input on which its change alone shows") {
  for (const ChangeInfo& info : test::all_changes()) {
    if (!seen_in_layer(info)) continue;
    const std::string change = info.id;
    CAPTURE(change);
    const std::optional<Problem> problem = test::find_layer_witness(info.change);
    REQUIRE(problem);
    const LayerResult contract = test::eval_layer(*problem, Change::None);
    CHECK(!same_stages(contract, test::eval_layer(*problem, info.change)));
    test::for_each_simd_target([&] { CHECK(same_stages(contract, run_naive(*problem))); });
  }
}

/// The model's result of an operation on the argument that tells `change` from the contract.
bool operation_is_right(Change change, float argument) {
  if (change >= Change::H2dCorrectlyRounded) {
    return bits_of_float(ex2_approx(argument)) ==
           bits_of_float(test::eval_ex2(argument, Change::None));
  }
  if (change >= Change::H2cCorrectlyRounded) {
    return bits_of_float(rcp_approx(argument)) ==
           bits_of_float(test::eval_rcp(argument, Change::None));
  }
  return encode_e4m3(argument) == test::eval_e4m3(argument, Change::None);
}

void check_step(const ChangeInfo& info) {
  const std::optional<test::StepWitness> witness = test::find_step_witness(info.change);
  REQUIRE(witness);
  const uint8_t* a = witness->a.data();
  const uint8_t* b = witness->b.data();
  const uint32_t contract = bits_of_float(test::eval_step(a, b, witness->c, Change::None));
  CHECK(contract != bits_of_float(test::eval_step(a, b, witness->c, info.change)));
  CHECK(bits_of_float(tensor_core_step(a, b, witness->c)) == contract);
  test::for_each_simd_target([&] {
    float acc = witness->c;
    tile_steps_from(a, kTensorCoreK, 1, b, kTensorCoreK, 1, 1, &acc);
    CHECK(bits_of_float(acc) == contract);
  });
}

TEST_CASE("numerics_rules: every rule of an operation has an input on which its change shows") {
  for (const ChangeInfo& info : test::all_changes()) {
    if (!seen_in_operation(info)) continue;
    const std::string change = info.id;
    CAPTURE(change);
    if (info.change < Change::H2bTiesAway) {
      check_step(info);
      continue;
    }
    const std::optional<float> argument = test::find_argument_witness(info.change);
    REQUIRE(argument);
    CHECK(operation_is_right(info.change, *argument));
  }
}

/// One group of S0, or a block of S1 whose other rows are zero.
EvalCodes quantised(const std::vector<float>& group, bool as_weights) {
  EvalCodes result;
  if (!as_weights) {
    result.codes.resize(kScaleBlock);
    result.scale = quantise_activation_group(group.data(), result.codes.data());
    return result;
  }
  std::vector<float> block(size_t{kScaleBlock} * kScaleBlock, 0.0f);
  const size_t row = 77;
  std::copy(group.begin(), group.end(), block.begin() + row * kScaleBlock);
  std::vector<uint8_t> codes(block.size());
  result.scale = quantise_weight_block(block.data(), kScaleBlock, codes.data(), kScaleBlock);
  result.codes.assign(codes.begin() + row * kScaleBlock, codes.begin() + (row + 1) * kScaleBlock);
  return result;
}

bool equal(const EvalCodes& a, const EvalCodes& b) {
  return bits_of_float(a.scale) == bits_of_float(b.scale) && a.codes == b.codes;
}

TEST_CASE("numerics_rules: every rule of a quantiser has an input on which its change shows") {
  for (const ChangeInfo& info : test::all_changes()) {
    if (info.seen != Seen::Quantiser) continue;
    const std::string change = info.id;
    CAPTURE(change);
    const std::optional<std::vector<float>> group = test::find_quantiser_witness(info.change);
    REQUIRE(group);
    const bool as_weights = info.change >= Change::S1NoFloor;
    const auto evaluate = as_weights ? test::eval_weight_block : test::eval_activation_group;
    const EvalCodes contract = evaluate(*group, Change::None);
    CHECK(!equal(contract, evaluate(*group, info.change)));
    test::for_each_simd_target([&] { CHECK(equal(contract, quantised(*group, as_weights))); });
  }
}

TEST_CASE("numerics_rules: the second writing of the contract agrees with the naive path") {
  for (const test::Codes codes : {test::Codes::Common, test::Codes::Any}) {
    const Shape shape{2, 4, 3, 256, 128, 2};
    Problem problem = test::draw_problem(shape, {2, 1}, 51, codes);
    problem.clamp = codes == test::Codes::Any ? 3.5f : problem.clamp;
    CHECK(same_stages(test::eval_layer(problem, Change::None), run_naive(problem)));
  }
}

TEST_CASE("numerics_rules: the operations agree with their second writing") {
  test::Draw draw(52);
  uint64_t wrong = 0;
  for (int i = 0; i < 300000; ++i) {
    const float any = float_of_bits(draw.bits());
    const float moderate =
        draw.scale(static_cast<int>(draw.below(20)) - 12) * (draw.below(2) == 0 ? 1.0f : -1.0f);
    for (const float value : {any, moderate}) {
      if (encode_e4m3(value) != test::eval_e4m3(value, Change::None)) ++wrong;
      if (encode_bf16(value) != test::eval_bf16(value)) ++wrong;
      if (bits_of_float(ex2_approx(value)) != bits_of_float(test::eval_ex2(value, Change::None))) {
        ++wrong;
      }
      if (bits_of_float(rcp_approx(value)) != bits_of_float(test::eval_rcp(value, Change::None))) {
        ++wrong;
      }
    }
  }
  CHECK(wrong == 0);
}

/// Rows of the table in docs/numerics_rules.md.
std::vector<std::string> documented_rows() {
  std::ifstream file(source_root() + "/docs/numerics_rules.md");
  std::vector<std::string> rows;
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("| `", 0) == 0) rows.push_back(line);
  }
  return rows;
}

std::string row_of(const ChangeInfo& info) {
  constexpr const char* kSeen[] = {"a quantiser", "an operation", "the layer",
                                   "an operation, the layer"};
  return std::string("| `") + info.id + "` | " + info.what + " | " +
         kSeen[static_cast<size_t>(info.seen)] + " |";
}

TEST_CASE("numerics_rules: the table in docs lists exactly the changes that are tested") {
  std::vector<std::string> expected;
  for (const ChangeInfo& info : test::all_changes()) expected.push_back(row_of(info));
  const std::vector<std::string> documented = documented_rows();
  for (const std::string& row : expected) {
    CAPTURE(row);
    CHECK(std::count(documented.begin(), documented.end(), row) == 1);
  }
  CHECK(documented == expected);
}

TEST_CASE("numerics_rules: the list of changes is the enumeration, each once") {
  uint32_t next = static_cast<uint32_t>(Change::None) + 1;
  for (const ChangeInfo& info : test::all_changes()) {
    CHECK(static_cast<uint32_t>(info.change) == next);
    ++next;
  }
  CHECK(next == static_cast<uint32_t>(Change::H2dSubnormalsKept) + 1);
}

}  // namespace
}  // namespace moetwin
