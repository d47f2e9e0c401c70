#include "model/compare.h"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <vector>

#include "common/check.h"
#include "common/number_formats.h"

namespace moetwin {
namespace {

constexpr uint64_t kNoRow = UINT64_MAX;

struct RowKey {
  uint32_t rank;
  uint32_t token;
  uint32_t k;

  friend constexpr auto operator<=>(const RowKey&, const RowKey&) = default;
};

RowKey key_of(const RoutedRow& row) { return {row.rank, row.token, row.k}; }

/// The places of one routed row on both sides, kNoRow where a side has not got it.
struct RowPair {
  uint64_t left;
  uint64_t right;

  bool matched() const { return left != kNoRow && right != kNoRow; }
};

std::vector<RowPair> pair_rows(const std::vector<RoutedRow>& left,
                               const std::vector<RoutedRow>& right) {
  std::vector<RowPair> pairs;
  pairs.reserve(left.size());
  uint64_t l = 0;
  uint64_t r = 0;
  while (l < left.size() || r < right.size()) {
    if (r == right.size() || (l < left.size() && key_of(left[l]) < key_of(right[r]))) {
      pairs.push_back({l++, kNoRow});
    } else if (l == left.size() || key_of(right[r]) < key_of(left[l])) {
      pairs.push_back({kNoRow, r++});
    } else {
      pairs.push_back({l++, r++});
    }
  }
  return pairs;
}

/// How one stage's elements are read: bits for equality, a value for the report.
struct ElementOf {
  static uint32_t bits(float value) { return bits_of_float(value); }
  static uint32_t bits(uint16_t value) { return value; }
  static uint32_t bits(uint8_t value) { return value; }
  static double value(float element) { return double{element}; }
  static double value(uint16_t element) { return double{decode_bf16(element)}; }
  static double value(uint8_t element) { return double{decode_e4m3(element)}; }
};

template <typename T>
void set_values(Difference& difference, T left, T right) {
  difference.bits = sizeof(T) * 8;
  difference.left_bits = ElementOf::bits(left);
  difference.right_bits = ElementOf::bits(right);
  difference.bit =
      static_cast<uint32_t>(std::countr_zero(difference.left_bits ^ difference.right_bits));
  difference.left_value = ElementOf::value(left);
  difference.right_value = ElementOf::value(right);
}

class Comparer {
 public:
  Comparer(const LayerResult& left, const LayerResult& right) : left_(left), right_(right) {
    MOETWIN_CHECK(left.shape == right.shape);
    MOETWIN_CHECK(left.tokens == right.tokens);
    uint64_t total = 0;
    for (const uint32_t tokens : left.tokens) {
      first_token_.push_back(total);
      total += tokens;
    }
    differs_early_.assign(total, false);
  }

  Comparison run() {
    for (const Stage stage : kStages) {
      out_.stage(stage).left_has = has_stage(left_, stage);
      out_.stage(stage).right_has = has_stage(right_, stage);
    }
    if (out_.stage(Stage::Slots).compared()) slots();
    if (out_.stage(Stage::Metadata).compared()) {
      pairs_ = pair_rows(left_.rows, right_.rows);
      metadata();
      const Shape& shape = left_.shape;
      row_stage(Stage::L1, left_.l1_codes, right_.l1_codes, shape.intermediate);
      row_stage(Stage::L1Scales, left_.l1_scales, right_.l1_scales, shape.linear1_scale_groups());
      row_stage(Stage::L2, left_.l2, right_.l2, shape.hidden);
    }
    if (out_.stage(Stage::Y).compared()) y();
    if (const auto first = out_.first(); first && out_.stage(Stage::Y).first) {
      const Difference& of_y = *out_.stage(Stage::Y).first;
      out_.first_row_explains_y =
          first->stage != Stage::Y && first->rank == of_y.rank && first->token == of_y.token;
    }
    return out_;
  }

 private:
  void note(const Difference& difference) {
    StageComparison& stage = out_.stage(difference.stage);
    ++stage.differing;
    if (!stage.first) stage.first = difference;
    if (difference.stage != Stage::Y && difference.rank < first_token_.size() &&
        difference.token < left_.tokens[difference.rank]) {
      differs_early_[first_token_[difference.rank] + difference.token] = true;
    }
  }

  void slots() {
    const Shape& shape = left_.shape;
    StageComparison& stage = out_.stage(Stage::Slots);
    for (uint64_t i = 0; i < left_.slots.size(); ++i) {
      const std::vector<uint32_t>& left = left_.slots[i];
      const std::vector<uint32_t>& right = right_.slots[i];
      Difference at;
      at.rank = static_cast<uint32_t>(i % shape.ranks);
      at.expert = static_cast<uint32_t>(i / shape.ranks);
      const uint64_t before = stage.differing;
      size_t l = 0;
      size_t r = 0;
      while (l < left.size() || r < right.size()) {
        ++stage.values;
        const bool only_left = r == right.size() || (l < left.size() && left[l] < right[r]);
        const bool only_right = l == left.size() || (r < right.size() && right[r] < left[l]);
        const uint32_t flat = only_right ? right[r] : left[l];
        l += only_right ? 0 : 1;
        r += only_left ? 0 : 1;
        if (!only_left && !only_right) continue;
        at.kind = only_left ? DifferenceKind::OnlyLeft : DifferenceKind::OnlyRight;
        at.token = flat / shape.topk;
        at.k = flat % shape.topk;
        note(at);
      }
      stage.rows += stage.differing - before;
    }
  }

  Difference at_row(Stage stage, const RowPair& pair) const {
    const bool has_left = pair.left != kNoRow;
    const RoutedRow& row = has_left ? left_.rows[pair.left] : right_.rows[pair.right];
    Difference at;
    at.stage = stage;
    at.rank = row.rank;
    at.token = row.token;
    at.k = row.k;
    at.expert = row.expert;
    at.row = has_left ? pair.left : pair.right;
    return at;
  }

  void metadata() {
    StageComparison& stage = out_.stage(Stage::Metadata);
    for (const RowPair& pair : pairs_) {
      Difference at = at_row(Stage::Metadata, pair);
      const uint64_t before = stage.differing;
      if (!pair.matched()) {
        ++stage.values;
        at.kind = pair.left != kNoRow ? DifferenceKind::OnlyLeft : DifferenceKind::OnlyRight;
        note(at);
      } else {
        const RoutedRow& left = left_.rows[pair.left];
        const RoutedRow& right = right_.rows[pair.right];
        stage.values += 2;
        if (left.expert != right.expert) {
          at.field = "expert";
          at.bits = 32;
          at.left_bits = left.expert;
          at.right_bits = right.expert;
          at.bit = static_cast<uint32_t>(std::countr_zero(left.expert ^ right.expert));
          at.left_value = left.expert;
          at.right_value = right.expert;
          note(at);
        }
        if (bits_of_float(left.weight) != bits_of_float(right.weight)) {
          at.field = "weight";
          set_values(at, left.weight, right.weight);
          note(at);
        }
      }
      stage.rows += stage.differing > before ? 1 : 0;
    }
  }

  /// Counts and notes the differing columns of one row of a stage.
  template <typename T>
  void columns(const T* left, const T* right, uint32_t count, Difference at) {
    StageComparison& stage = out_.stage(at.stage);
    stage.values += count;
    const uint64_t before = stage.differing;
    for (uint32_t column = 0; column < count; ++column) {
      if (ElementOf::bits(left[column]) == ElementOf::bits(right[column])) continue;
      at.column = column;
      set_values(at, left[column], right[column]);
      note(at);
    }
    stage.rows += stage.differing > before ? 1 : 0;
  }

  template <typename T>
  void row_stage(Stage stage, const std::vector<T>& left, const std::vector<T>& right,
                 uint32_t count) {
    if (!out_.stage(stage).compared()) return;
    for (const RowPair& pair : pairs_) {
      if (!pair.matched()) continue;
      columns(left.data() + pair.left * count, right.data() + pair.right * count, count,
              at_row(stage, pair));
    }
  }

  void y() {
    const uint32_t hidden = left_.shape.hidden;
    StageComparison& stage = out_.stage(Stage::Y);
    for (uint32_t rank = 0; rank < left_.tokens.size(); ++rank) {
      for (uint32_t token = 0; token < left_.tokens[rank]; ++token) {
        Difference at;
        at.stage = Stage::Y;
        at.rank = rank;
        at.token = token;
        at.row = first_token_[rank] + token;
        const uint64_t before = stage.rows;
        columns(left_.y.data() + at.row * hidden, right_.y.data() + at.row * hidden, hidden, at);
        if (stage.rows == before) continue;
        ++out_.tokens_differing;
        if (differs_early_[at.row]) ++out_.tokens_explained;
      }
    }
  }

  const LayerResult& left_;
  const LayerResult& right_;
  std::vector<uint64_t> first_token_;  ///< [R], among all tokens
  std::vector<bool> differs_early_;    ///< [sum of tokens]
  std::vector<RowPair> pairs_;
  Comparison out_;
};

std::string hex(uint32_t bits, uint32_t width) { return fmt::format("0x{:0{}X}", bits, width / 4); }

/// What to look at when everything compared before `stage` is equal.
const char* suspects(Stage stage) {
  switch (stage) {
    case Stage::Slots:
      return "the counting or claiming of slots in dispatch, or the input of the two sides";
    case Stage::Metadata:
      return "the pull of dispatch: the slots agree, and a row's expert or weight does not";
    case Stage::L1:
      return "Linear1: the pulled row, W1 and its scales, or the epilogue (SwiGLU, routing weight, "
             "scale, codes)";
    case Stage::L1Scales:
      return "the amax and scale of Linear1's epilogue alone: the codes agree";
    case Stage::L2:
      return "Linear2: its loads of codes and scales, W2, or the scatter to the token's rank";
    case Stage::Y:
      return "combine: which slots it reads, in which order, or too early";
  }
  MOETWIN_CHECK(false);
  return "";
}

std::string origin(const Comparison& comparison, const Difference& first) {
  std::string text = fmt::format("  where from: {}\n", suspects(first.stage));
  for (const Stage stage : kStages) {
    if (stage >= first.stage || comparison.stage(stage).compared()) continue;
    text += fmt::format("              {} was not compared and may differ before that\n",
                        stage_name(stage));
  }
  const StageComparison& y = comparison.stage(Stage::Y);
  if (first.stage == Stage::Y || !y.compared()) return text;
  if (!y.first) {
    return text + "  y:          equal in spite of that\n";
  }
  const uint64_t unexplained = comparison.tokens_differing - comparison.tokens_explained;
  text += fmt::format(
      "  y:          {} tokens differ, {} of them have a row that differs earlier, {} have not\n",
      comparison.tokens_differing, comparison.tokens_explained, unexplained);
  if (comparison.first_row_explains_y) {
    text += "              the first of them (rank " + std::to_string(y.first->rank) + ", token " +
            std::to_string(y.first->token) + ") is the token of the first difference\n";
  }
  return text;
}

std::string stage_line(Stage stage, const StageComparison& comparison, std::string_view left_name,
                       std::string_view right_name) {
  if (!comparison.compared()) {
    const std::string who = comparison.left_has    ? std::string(right_name) + " has"
                            : comparison.right_has ? std::string(left_name) + " has"
                                                   : "both sides have";
    return fmt::format("  {:<10} not compared: {} no {}\n", stage_name(stage), who,
                       stage_name(stage));
  }
  if (comparison.differing == 0) {
    return fmt::format("  {:<10} equal, {} values\n", stage_name(stage), comparison.values);
  }
  return fmt::format("  {:<10} {} of {} values differ, in {} {}\n", stage_name(stage),
                     comparison.differing, comparison.values, comparison.rows,
                     stage == Stage::Y       ? "tokens"
                     : stage == Stage::Slots ? "slots"
                                             : "rows");
}

}  // namespace

std::optional<Difference> Comparison::first() const {
  for (const StageComparison& stage : stages) {
    if (stage.first) return stage.first;
  }
  return std::nullopt;
}

Comparison compare_results(const LayerResult& left, const LayerResult& right) {
  return Comparer(left, right).run();
}

std::optional<Difference> first_difference(const LayerResult& left, const LayerResult& right) {
  return compare_results(left, right).first();
}

std::string describe(const Difference& at, std::string_view left_name,
                     std::string_view right_name) {
  const std::string token = at.stage == Stage::Y
                                ? fmt::format("rank {}, token {}", at.rank, at.token)
                                : fmt::format("rank {}, token {}, k {}", at.rank, at.token, at.k);
  if (at.kind != DifferenceKind::Value) {
    const bool left = at.kind == DifferenceKind::OnlyLeft;
    return fmt::format("{}: ({}) for expert {} is there in {} and missing in {}",
                       stage_name(at.stage), token, at.expert, left ? left_name : right_name,
                       left ? right_name : left_name);
  }
  std::string where = fmt::format("{}: {}", stage_name(at.stage), token);
  if (at.stage != Stage::Y) where += fmt::format(", expert {}, row {}", at.expert, at.row);
  if (at.stage == Stage::Metadata) {
    where += ", " + at.field;
  } else {
    where += fmt::format(", {} {}", at.stage == Stage::L1Scales ? "group" : "column", at.column);
  }
  return fmt::format("{}: {} {} ({:.9g}), {} {} ({:.9g}), bit {} of {}", where, left_name,
                     hex(at.left_bits, at.bits), at.left_value, right_name,
                     hex(at.right_bits, at.bits), at.right_value, at.bit, at.bits);
}

std::string describe(const Comparison& comparison, std::string_view left_name,
                     std::string_view right_name) {
  const std::optional<Difference> first = comparison.first();
  std::string text =
      first ? fmt::format("{} and {} differ, first in {}\n  {}\n", left_name, right_name,
                          stage_name(first->stage), describe(*first, left_name, right_name))
            : fmt::format("{} and {} are equal in every compared stage\n", left_name, right_name);
  for (const Stage stage : kStages) {
    text += stage_line(stage, comparison.stage(stage), left_name, right_name);
  }
  if (first) text += origin(comparison, *first);
  return text;
}

}  // namespace moetwin
