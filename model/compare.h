// Compares two results of one problem stage by stage and says where they part: the first differing
// bit in protocol order, in the protocol's own terms. It knows no backend.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/digest.h"
#include "model/problem.h"

namespace moetwin {

/// What differs at one place.
enum class DifferenceKind : uint8_t {
  Value,      ///< both sides have the value, with other bits
  OnlyLeft,   ///< a slot or a row that the right side has not
  OnlyRight,  ///< a slot or a row that the left side has not
};

/// The first differing place of a stage. Fields that a stage has no use for are zero.
struct Difference {
  Stage stage = Stage::Slots;
  DifferenceKind kind = DifferenceKind::Value;
  uint32_t rank = 0;    ///< the token's rank
  uint32_t token = 0;   ///< on that rank
  uint32_t k = 0;       ///< all stages but y
  uint32_t expert = 0;  ///< global id, as the left side has it; all stages but y
  uint64_t row = 0;     ///< place among the routed (rank, token, k); y: among all tokens
  uint32_t column = 0;  ///< l1, l2, y: channel; l1_scales: group of 64 channels
  std::string field;    ///< metadata: "expert" or "weight"
  uint32_t bits = 0;    ///< width of the value: 8, 16 or 32
  uint32_t left_bits = 0;
  uint32_t right_bits = 0;
  uint32_t bit = 0;  ///< lowest differing bit, 0 is the least significant
  double left_value = 0;
  double right_value = 0;
};

/// One stage of a comparison.
struct StageComparison {
  bool left_has = false;
  bool right_has = false;
  uint64_t values = 0;     ///< compared; 0 where a side has not got the stage
  uint64_t differing = 0;  ///< of them
  uint64_t rows = 0;       ///< rows (y: tokens) with at least one differing value
  std::optional<Difference> first;

  bool compared() const { return left_has && right_has; }
};

/// A whole comparison; index the stages with the enum.
struct Comparison {
  std::array<StageComparison, kStages.size()> stages;
  /// Tokens whose y differs, and of these the ones with a routed row that already differs in an
  /// earlier compared stage. The rest can only come from combine or from a stage not compared.
  uint64_t tokens_differing = 0;
  uint64_t tokens_explained = 0;
  /// Whether the earliest difference of all belongs to the first token whose y differs.
  bool first_row_explains_y = false;

  const StageComparison& stage(Stage s) const { return stages[static_cast<size_t>(s)]; }
  StageComparison& stage(Stage s) { return stages[static_cast<size_t>(s)]; }
  /// Earliest stage in protocol order that differs, or none.
  std::optional<Difference> first() const;
  bool equal() const { return !first().has_value(); }
};

/// Compares every stage that both sides have; rows are matched by (rank, token, k). Both results
/// must come from the same shape and tokens.
Comparison compare_results(const LayerResult& left, const LayerResult& right);

/// The first differing bit in protocol order, or nothing where all compared stages are equal.
std::optional<Difference> first_difference(const LayerResult& left, const LayerResult& right);

/// One sentence: where, both values in hex and decimal, the bit.
std::string describe(const Difference& difference, std::string_view left_name,
                     std::string_view right_name);

/// The whole comparison for an engineer: a verdict, the first difference, a line a stage with the
/// counts (or that it was not compared and why), and where the difference came from.
std::string describe(const Comparison& comparison, std::string_view left_name,
                     std::string_view right_name);

}  // namespace moetwin
