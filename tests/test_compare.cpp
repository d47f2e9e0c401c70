#include <doctest/doctest.h>

#include <string>

#include "model/compare.h"
#include "tests/sample_result.h"

namespace moetwin {
namespace {

using test::sample_result;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("compare: equal results have no difference, capacity and traffic aside") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.traffic.barriers = 9;
  const Comparison comparison = compare_results(left, right);
  CHECK(comparison.equal());
  CHECK(comparison.stage(Stage::Slots).values == 5);
  CHECK(comparison.stage(Stage::Metadata).values == 10);
  CHECK(comparison.stage(Stage::L1).values == 640);
  CHECK(comparison.stage(Stage::L1Scales).values == 10);
  CHECK(comparison.stage(Stage::L2).values == 640);
  CHECK(comparison.stage(Stage::Y).values == 384);
  CHECK(contains(describe(comparison, "sim", "naive"), "equal in every compared stage"));
}

TEST_CASE("compare: every flipped bit of every row stage is found at its place") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  const auto check_at = [&](Stage stage, uint32_t row, uint32_t column, uint32_t bit,
                            uint32_t bits) {
    const std::optional<Difference> found = first_difference(left, right);
    REQUIRE(found.has_value());
    CHECK(found->stage == stage);
    CHECK(found->kind == DifferenceKind::Value);
    CHECK(found->rank == left.rows[row].rank);
    CHECK(found->token == left.rows[row].token);
    CHECK(found->k == left.rows[row].k);
    CHECK(found->expert == left.rows[row].expert);
    CHECK(found->row == row);
    CHECK(found->column == column);
    CHECK(found->bit == bit);
    CHECK(found->bits == bits);
    CHECK((found->left_bits ^ found->right_bits) == (1u << bit));
  };
  for (uint32_t row = 0; row < 5; ++row) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      const uint32_t column = row * 31;
      right.l1_codes[row * 128 + column] ^= 1 << bit;
      check_at(Stage::L1, row, column, bit, 8);
      right.l1_codes = left.l1_codes;
    }
    for (uint32_t bit = 0; bit < 16; ++bit) {
      const uint32_t column = 127 - row * 31;
      right.l2[row * 128 + column] ^= 1 << bit;
      check_at(Stage::L2, row, column, bit, 16);
      right.l2 = left.l2;
    }
    for (uint32_t bit = 0; bit < 32; ++bit) {
      const uint32_t group = bit % 2;
      float& scale = right.l1_scales[row * 2 + group];
      scale = float_of_bits(bits_of_float(scale) ^ (1u << bit));
      check_at(Stage::L1Scales, row, group, bit, 32);
      right.l1_scales = left.l1_scales;

      right.rows[row].weight = float_of_bits(bits_of_float(left.rows[row].weight) ^ (1u << bit));
      check_at(Stage::Metadata, row, 0, bit, 32);
      CHECK(first_difference(left, right)->field == "weight");
      right.rows = left.rows;
    }
    right.rows[row].expert ^= 2;
    check_at(Stage::Metadata, row, 0, 1, 32);
    CHECK(first_difference(left, right)->field == "expert");
    right.rows = left.rows;
  }
}

TEST_CASE("compare: a flipped bit of y is named by rank, token and column") {
  const LayerResult left = sample_result();
  for (uint32_t token = 0; token < 3; ++token) {
    LayerResult right = sample_result();
    right.y[token * 128 + 17] ^= 0x20;
    const std::optional<Difference> found = first_difference(left, right);
    REQUIRE(found.has_value());
    CHECK(found->stage == Stage::Y);
    CHECK(found->rank == (token == 2 ? 1 : 0));
    CHECK(found->token == (token == 2 ? 0 : token));
    CHECK(found->row == token);
    CHECK(found->column == 17);
    CHECK(found->bit == 5);
  }
}

TEST_CASE("compare: a slot on one side only is named with its token, k and expert") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.slots[6] = {0};        // expert 3, source rank 0: token 1, k 1 is gone
  right.slots[3] = {0, 1, 2};  // expert 1, source rank 1: an invented slot
  const Comparison comparison = compare_results(left, right);
  const StageComparison& slots = comparison.stage(Stage::Slots);
  CHECK(slots.differing == 2);
  CHECK(slots.values == 6);
  REQUIRE(slots.first.has_value());
  CHECK(slots.first->kind == DifferenceKind::OnlyRight);
  CHECK(slots.first->rank == 1);
  CHECK(slots.first->token == 1);
  CHECK(slots.first->k == 0);
  CHECK(slots.first->expert == 1);
  const std::string mirrored = describe(*first_difference(right, left), "sim", "naive");
  CHECK(contains(mirrored, "is there in sim and missing in naive"));

  right.slots[3] = left.slots[3];
  const std::optional<Difference> lost = first_difference(left, right);
  REQUIRE(lost.has_value());
  CHECK(lost->kind == DifferenceKind::OnlyLeft);
  CHECK(lost->expert == 3);
  CHECK(lost->rank == 0);
  CHECK(lost->token == 1);
  CHECK(lost->k == 1);
}

TEST_CASE("compare: rows are matched by rank, token and k when one side lacks a row") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.rows.erase(right.rows.begin() + 1);
  right.l1_codes.erase(right.l1_codes.begin() + 128, right.l1_codes.begin() + 256);
  right.l1_scales.erase(right.l1_scales.begin() + 2, right.l1_scales.begin() + 4);
  right.l2.erase(right.l2.begin() + 128, right.l2.begin() + 256);
  right.l2[3 * 128 + 5] ^= 1;  // row 4 of the left side
  const Comparison comparison = compare_results(left, right);
  CHECK(comparison.stage(Stage::Metadata).differing == 1);
  CHECK(comparison.stage(Stage::Metadata).first->row == 1);
  CHECK(comparison.stage(Stage::L1).differing == 0);
  CHECK(comparison.stage(Stage::L1).values == 512);
  CHECK(comparison.stage(Stage::L1Scales).differing == 0);
  CHECK(comparison.stage(Stage::L2).differing == 1);
  CHECK(comparison.stage(Stage::L2).first->row == 4);
  CHECK(comparison.stage(Stage::L2).first->k == 1);
}

TEST_CASE("compare: the earliest stage in protocol order comes first and every stage is counted") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.y[5] ^= 1;
  right.y[6] ^= 1;
  right.y[128 * 2] ^= 1;
  right.l2[128 + 5] ^= 1;
  right.l1_scales[3] *= 2;
  const Comparison comparison = compare_results(left, right);
  REQUIRE(comparison.first().has_value());
  CHECK(comparison.first()->stage == Stage::L1Scales);
  CHECK(comparison.stage(Stage::L1).differing == 0);
  CHECK(comparison.stage(Stage::L1Scales).differing == 1);
  CHECK(comparison.stage(Stage::L2).differing == 1);
  CHECK(comparison.stage(Stage::Y).differing == 3);
  CHECK(comparison.stage(Stage::Y).rows == 2);
}

TEST_CASE("compare: a differing token of y is explained by its own rows and by no others") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.l2[128 + 5] ^= 1;     // rank 0, token 0
  right.y[5] ^= 1;            // rank 0, token 0
  right.y[2 * 128 + 9] ^= 1;  // rank 1, token 0: no row of it differs
  Comparison comparison = compare_results(left, right);
  CHECK(comparison.tokens_differing == 2);
  CHECK(comparison.tokens_explained == 1);
  CHECK(comparison.first_row_explains_y);
  CHECK(contains(describe(comparison, "sim", "naive"),
                 "2 tokens differ, 1 of them have a row that differs earlier, 1 have not"));

  right = sample_result();
  right.l2[4 * 128] ^= 1;  // rank 1, token 0
  right.y[5] ^= 1;         // rank 0, token 0
  comparison = compare_results(left, right);
  CHECK(comparison.tokens_explained == 0);
  CHECK(!comparison.first_row_explains_y);

  right = sample_result();
  right.y[5] ^= 1;
  comparison = compare_results(left, right);
  CHECK(!comparison.first_row_explains_y);
  CHECK(contains(describe(comparison, "sim", "naive"), "where from: combine"));
}

TEST_CASE("compare: a stage that a side has not got is not compared, and the report says so") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.l1_codes.clear();
  right.slots.clear();
  right.l2[7] ^= 1;
  const Comparison comparison = compare_results(left, right);
  CHECK(!comparison.stage(Stage::L1).compared());
  CHECK(!comparison.stage(Stage::Slots).compared());
  CHECK(comparison.stage(Stage::L1Scales).compared());
  REQUIRE(comparison.first().has_value());
  CHECK(comparison.first()->stage == Stage::L2);
  const std::string text = describe(comparison, "sim", "gpu");
  CHECK(contains(text, "not compared: gpu has no l1\n"));
  CHECK(contains(text, "not compared: gpu has no slots\n"));
  CHECK(contains(text, "l1 was not compared and may differ before that"));
  CHECK(contains(text, "equal in spite of that"));
}

TEST_CASE("compare: NaN codes and signed zeros are compared by bits") {
  LayerResult left = sample_result();
  LayerResult right = sample_result();
  left.l1_scales[0] = right.l1_scales[0] = float_of_bits(0x7FC00000);
  left.y[0] = right.y[0] = 0x7FFF;
  CHECK(!first_difference(left, right).has_value());
  left.y[1] = 0x0000;
  right.y[1] = 0x8000;
  const std::optional<Difference> zero = first_difference(left, right);
  REQUIRE(zero.has_value());
  CHECK(zero->bit == 15);
}

TEST_CASE("compare: the sentence holds the place, both values in hex and decimal, and the bit") {
  const LayerResult left = sample_result();
  LayerResult right = sample_result();
  right.l2[3 * 128 + 100] = 0x4000;
  const std::string text = describe(*first_difference(left, right), "sim", "naive");
  // 0x3F80 + 484 * 3 = 0x452C.
  CHECK(text ==
        "l2: rank 1, token 0, k 0, expert 1, row 3, column 100: sim 0x452C (2752), naive 0x4000 "
        "(2), bit 2 of 16");
}

}  // namespace
}  // namespace moetwin
