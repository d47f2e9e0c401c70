// Searches for a whole layer.
#include <cmath>
#include <span>

#include "common/number_formats.h"
#include "tests/numerics_draw.h"
#include "tests/numerics_witness.h"

namespace moetwin::test {
namespace {

constexpr uint32_t kHidden = 256;
constexpr uint32_t kIntermediate = 256;

/// A layer of one token and one rank whose weights can be written.
struct Cell {
  Problem problem;
  std::shared_ptr<HandWeights> weights;

  explicit Cell(uint32_t experts, uint32_t topk) {
    const Shape shape{1, experts, topk, kHidden, kIntermediate, 1};
    problem = blank_problem(shape, {1});
    weights = std::make_shared<HandWeights>(shape);
    problem.weights = weights;
    for (uint32_t k = 0; k < topk; ++k) input().topk_idx[k] = static_cast<int32_t>(k);
  }
  RankInput& input() { return problem.ranks[0]; }
  uint8_t* gate_row(uint32_t column) { return &weights->at(0).w1_codes[column * kHidden]; }
  uint8_t* up_row(uint32_t column) { return gate_row(kIntermediate + column); }
  /// Scales of gate blocks 0 and 1 of `column`'s 128 rows.
  float* gate_scales(uint32_t column) { return &weights->at(0).w1_scales[column / 128 * 2]; }
  float* up_scales(uint32_t column) { return gate_scales(kIntermediate + column); }

  float linear1(uint32_t row, Change change) {
    return eval_linear1(
        {input().x_codes, input().x_scales, std::span<const uint8_t>(gate_row(row), kHidden),
         std::span<const float>(gate_scales(row), 2)},
        change);
  }
};

/// What a search over Linear1 draws: columns that are not zero, and ranges of gate and up.
struct Recipe {
  Mix mix = Mix::Normal;
  std::vector<uint32_t> columns = {0};
  float gate_low = -4;
  float gate_high = 6;
  float up_low = 0.5f;
  float up_high = 4;
  float limit = kInfinity;
  bool nan_gate = false;     ///< in the last column
  bool nan_up = false;       ///< in the last column
  bool nan_at_zero = false;  ///< where x is zero
  uint8_t up_code = 0x38;    ///< of the last column; the others' is 1
  std::vector<float> targets = {272, 304, 336, 368, 400, 432, 448};  ///< of w, times powers of two
  int exponents = 4;                   ///< routing weights reach 2^-exponents to 2^exponents
  std::vector<float> routing_weights;  ///< in place of ones searched for
};

Recipe recipe_of(Change change) {
  Recipe recipe;
  recipe.mix = mix_of(change);
  switch (change) {
    case Change::S3NanGateKept:
      recipe.limit = 2;
      recipe.nan_gate = true;
      break;
    case Change::S3NanUpKept:
      recipe.limit = 2;
      recipe.nan_up = true;
      break;
    case Change::S3GateClampedBelow:
      recipe.limit = 0.5f;
      recipe.gate_high = -1;
      break;
    case Change::S3UpNotClampedBelow:
      recipe.limit = 0.5f;
      recipe.up_low = -4;
      recipe.up_high = -1;
      break;
    case Change::S6NanTaken:
      recipe.columns = {0, 1};
      recipe.nan_gate = true;
      break;
    case Change::S6GroupOf128:
      recipe.columns = {0, 64};
      recipe.up_code = 0x60;
      break;
    case Change::S7Division:
      // s is a tie between nothing and the smallest subnormal; in larger s the two never part.
      recipe.targets = {224 * 0x1p-149f};
      recipe.exponents = 0;
      break;
    case Change::S7RoundedLog2:
      recipe.exponents = 24;
      break;
    case Change::S7SmallestScale:
    case Change::S8DivideByScale:
      recipe.routing_weights = {0.0f};
      break;
    case Change::H2aNanTimesZero:
      recipe.nan_at_zero = true;
      recipe.routing_weights = {1.0f};
      break;
    case Change::H2bFlushSubnormals:
      recipe.columns = {1, 0};
      recipe.up_code = 0x01;
      break;
    case Change::H2bOverflowToNan:
      recipe.up_low = 8;
      recipe.up_high = 16;
      recipe.gate_low = 2;
      recipe.routing_weights = {3e38f};
      break;
    case Change::H2cSubnormalsKept:
      recipe.gate_low = -88.6f;
      recipe.gate_high = -87.5f;
      recipe.up_low = 1e36f;
      recipe.up_high = 2e36f;
      recipe.routing_weights = {1.0f};
      break;
    default:
      break;
  }
  return recipe;
}

/// Channel that carries the up values; its code is 1.
constexpr uint32_t kUpChannel = 5;

/// Moves a block's scales so that a row of W1 gives about `target`.
void aim(float* scales, float now, float target) {
  for (int block = 0; block < 2; ++block) scales[block] *= target / now;
}

/// False where the draw cannot give what the recipe asks for.
bool draw_cell(Draw& draw, const Recipe& recipe, Cell& cell) {
  for (float& scale : cell.input().x_scales) scale = draw.scale(-4);
  for (const uint32_t column : recipe.columns) {
    for (uint32_t k = 0; k < kHidden; ++k) {
      const CodePair pair = draw_pair(draw, recipe.mix);
      if (column == recipe.columns.front()) cell.input().x_codes[k] = pair.a;
      cell.gate_row(column)[k] = pair.b;
    }
  }
  cell.input().x_codes[kUpChannel] = 0x38;
  const uint32_t first = recipe.columns.front();
  const uint32_t last = recipe.columns.back();
  for (const uint32_t column : recipe.columns) {
    cell.up_row(column)[kUpChannel] = column == last ? recipe.up_code : 0x38;
  }
  for (int block = 0; block < 2; ++block) {
    cell.gate_scales(0)[block] = draw.scale(-4);
    cell.up_scales(0)[block] = draw.scale(-4);
  }
  const float gate = cell.linear1(first, Change::None);
  const float up = cell.linear1(kIntermediate + first, Change::None);
  if (gate == 0 || up == 0) return false;
  aim(cell.gate_scales(0), gate, uniform(draw, recipe.gate_low, recipe.gate_high));
  aim(cell.up_scales(0), up, uniform(draw, recipe.up_low, recipe.up_high));
  if (recipe.nan_gate) cell.gate_row(last)[kUpChannel] = 0x7F;
  if (recipe.nan_up) cell.up_row(last)[kUpChannel] = 0xFF;
  if (recipe.nan_at_zero) {
    cell.gate_row(last)[7] = 0x7F;
    cell.input().x_codes[7] = 0x00;
  }
  return true;
}

/// Gate and up of the columns that are not zero.
struct Gates {
  std::vector<float> gate;
  std::vector<float> up;
};

Gates gates_of(Cell& cell, const Recipe& recipe, Change change) {
  Gates gates;
  for (const uint32_t column : recipe.columns) {
    gates.gate.push_back(cell.linear1(column, change));
    gates.up.push_back(cell.linear1(kIntermediate + column, change));
  }
  return gates;
}

/// S3 to S8 for the whole row.
EvalRow finish_row(const Gates& gates, const Recipe& recipe, float weight, Change change) {
  std::vector<EvalActivation> row(kIntermediate,
                                  eval_activation(0, 0, recipe.limit, weight, change));
  for (size_t i = 0; i < recipe.columns.size(); ++i) {
    row[recipe.columns[i]] =
        eval_activation(gates.gate[i], gates.up[i], recipe.limit, weight, change);
  }
  return eval_requantise(row, change);
}

bool differ(const EvalRow& a, const EvalRow& b) {
  if (a.codes != b.codes) return true;
  for (size_t i = 0; i < a.scales.size(); ++i) {
    if (!same_bits(a.scales[i], b.scales[i])) return true;
  }
  return false;
}

/// Routing weights that put `value` on or beside a tie between two codes, or a scale's boundary.
std::vector<float> weights_near_ties(Draw& draw, const Recipe& recipe, float value) {
  std::vector<float> weights;
  const int spread = 2 * recipe.exponents + 1;
  for (const float target : recipe.targets) {
    const int power = static_cast<int>(draw.below(static_cast<uint32_t>(spread)));
    const float weight = std::ldexp(target, power - recipe.exponents) / value * random_sign(draw);
    if (!std::isfinite(weight) || std::fabs(weight) < 0x1p-149f * 16) continue;
    for (int ulps = -4; ulps <= 4; ++ulps) weights.push_back(moved(weight, ulps));
  }
  return weights;
}

std::optional<Problem> find_linear1_witness(Change change) {
  const Recipe recipe = recipe_of(change);
  Draw draw(44);
  for (int trial = 0; trial < 3000; ++trial) {
    Cell cell(1, 1);
    cell.problem.clamp = recipe.limit;
    if (!draw_cell(draw, recipe, cell)) continue;
    const Gates right = gates_of(cell, recipe, Change::None);
    const Gates wrong = gates_of(cell, recipe, change);
    const EvalActivation first =
        eval_activation(right.gate[0], right.up[0], recipe.limit, 1, Change::None);
    const std::vector<float> weights = recipe.routing_weights.empty()
                                           ? weights_near_ties(draw, recipe, first.unweighted)
                                           : recipe.routing_weights;
    for (const float weight : weights) {
      if (!differ(finish_row(right, recipe, weight, Change::None),
                  finish_row(wrong, recipe, weight, change))) {
        continue;
      }
      cell.input().topk_weights[0] = weight;
      return cell.problem;
    }
  }
  return std::nullopt;
}

/// Every column of the intermediate row is something; only output row 0 of W2 is not zero.
void draw_full_row(Draw& draw, Cell& cell) {
  cell.input().x_codes[kUpChannel] = 0x38;
  for (uint32_t column = 0; column < kIntermediate; ++column) {
    cell.gate_row(column)[kUpChannel] = eval_e4m3(normal(draw) * 2, Change::None);
    cell.up_row(column)[kUpChannel] = eval_e4m3(normal(draw) * 2, Change::None);
  }
}

/// Scales of W2 that put the output on or beside a tie of BF16.
std::vector<std::array<float, 2>> scales_near_ties(const std::array<float, 2>& scales,
                                                   float output) {
  const float tie = float_of_bits((bits_of_float(output) & 0xFFFF0000u) | 0x8000u);
  const float factor = tie / output;
  std::vector<std::array<float, 2>> all;
  for (int low = -2; low <= 2; ++low) {
    for (int high = -4; high <= 4; ++high) {
      all.push_back({moved(scales[0] * factor, low), moved(scales[1] * factor, high)});
    }
  }
  return all;
}

std::optional<Problem> find_linear2_witness(Change change) {
  Draw draw(45);
  Cell cell(1, 1);
  draw_full_row(draw, cell);
  const EvalRow row = eval_linear1_row(cell.problem, cell.weights->at(0), cell.input().x_codes,
                                       cell.input().x_scales, 1.0f, Change::None);
  ExpertWeights& weights = cell.weights->at(0);
  const std::span<uint8_t> w2_row(weights.w2_codes.data(), kIntermediate);
  for (int trial = 0; trial < 2000; ++trial) {
    for (uint8_t& code : w2_row) code = eval_e4m3(normal(draw) * 100, Change::None);
    if (change == Change::S10QuietNan) w2_row[9] = 0xFF;
    const auto output = [&](const std::array<float, 2>& scales, Change rule) {
      return eval_linear2({row.codes, row.scales, w2_row, scales}, rule);
    };
    const std::array<float, 2> drawn = {draw.scale(-4), draw.scale(-4)};
    for (const std::array<float, 2>& scales :
         scales_near_ties(drawn, output(drawn, Change::None))) {
      if (eval_output(output(scales, Change::None), Change::None) ==
          eval_output(output(scales, change), change)) {
        continue;
      }
      weights.w2_scales[0] = scales[0];
      weights.w2_scales[1] = scales[1];
      return cell.problem;
    }
  }
  return std::nullopt;
}

constexpr std::array<int32_t, 4> kSlotExperts = {2, 0, 3, 1};

/// Four slots whose Linear2 outputs have element 0 as given and the others zero.
Problem combine_problem(const std::array<float, 4>& outputs) {
  Cell cell(4, 4);
  cell.input().x_codes[kUpChannel] = 0x38;
  for (size_t k = 0; k < outputs.size(); ++k) {
    ExpertWeights& weights = cell.weights->at(static_cast<uint32_t>(kSlotExperts[k]));
    weights.w1_codes[kUpChannel] = 0x38;
    weights.w1_codes[kIntermediate * kHidden + kUpChannel] = 0x38;
    const EvalRow row = eval_linear1_row(cell.problem, weights, cell.input().x_codes,
                                         cell.input().x_scales, 1.0f, Change::None);
    weights.w2_codes[0] = 0x38;
    weights.w2_scales[0] = outputs[k] / (row.scales[0] * eval_e4m3_value(row.codes[0]));
    cell.input().topk_idx[k] = kSlotExperts[k];
  }
  return cell.problem;
}

std::optional<Problem> find_combine_witness(Change change) {
  Draw draw(46);
  for (int trial = 0; trial < 200000; ++trial) {
    std::array<float, 4> outputs;
    std::array<uint16_t, 4> codes;
    for (size_t k = 0; k < outputs.size(); ++k) {
      constexpr int kExponents[] = {0, 0, -8, -9, -16, -30};
      outputs[k] = random_sign(draw) * draw.scale(kExponents[draw.below(6)]);
      // Rounds to a negative zero.
      if (change == Change::S11StartsFromFirst) outputs[k] = -0x1p-136f;
      codes[k] = eval_bf16(outputs[k]);
    }
    if (eval_combine(codes, kSlotExperts, Change::None) !=
        eval_combine(codes, kSlotExperts, change)) {
      return combine_problem(outputs);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Problem> find_layer_witness(Change change) {
  if (change >= Change::S9HighHalfFirst && change <= Change::S10QuietNan) {
    return find_linear2_witness(change);
  }
  if (change >= Change::S11Bf16Sum && change <= Change::S11DoubleSum) {
    return find_combine_witness(change);
  }
  return find_linear1_witness(change);
}

}  // namespace moetwin::test
