// Problems for tests of the references: drawn by a small generator of their own, so that a test
// depends on no case format and no data generator, and weights that can be written by hand.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/problem.h"

namespace moetwin::test {

/// A plain linear congruential generator, upper half of its state.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 2862933555777941757ull + 3037000493ull) {}

  uint32_t bits() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state_ >> 32);
  }
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(uint64_t{bits()} * limit >> 32); }
  /// A power of two times a number in [1, 2).
  float scale(int exponent) {
    return std::ldexp(1.0f + static_cast<float>(bits() >> 9) * 0x1p-23f, exponent);
  }

 private:
  uint64_t state_;
};

/// Which codes a problem draws: Common keeps magnitudes within 2^-3 to 2^3, Any takes all 256.
enum class Codes : uint8_t { Common, Any };

inline uint8_t draw_code(Draw& draw, Codes codes) {
  const uint32_t bits = draw.bits() >> 16;
  if (codes == Codes::Any) return static_cast<uint8_t>(bits);
  const uint32_t exponent = 4 + (bits & 7) % 7;
  return static_cast<uint8_t>((bits & 0x80) | (exponent << 3) | ((bits >> 4) & 7));
}

/// Expert weights by id. The ones that nobody set are zero codes with scale 1.
class HandWeights : public WeightSource {
 public:
  explicit HandWeights(const Shape& shape) : shape_(shape) {}

  ExpertWeights& at(uint32_t expert) {
    std::shared_ptr<ExpertWeights>& weights = experts_[expert];
    if (!weights) weights = std::make_shared<ExpertWeights>(zeros());
    return *weights;
  }

  std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const override {
    const auto found = experts_.find(expert);
    if (found != experts_.end()) return found->second;
    return std::make_shared<const ExpertWeights>(zeros());
  }

 private:
  ExpertWeights zeros() const {
    const uint64_t hidden = shape_.hidden;
    const uint64_t intermediate = shape_.intermediate;
    const uint64_t blocks = uint64_t{shape_.hidden_blocks()} * shape_.intermediate_blocks();
    ExpertWeights weights;
    weights.w1_codes.assign(2 * intermediate * hidden, 0);
    weights.w1_scales.assign(2 * blocks, 1.0f);
    weights.w2_codes.assign(hidden * intermediate, 0);
    weights.w2_scales.assign(blocks, 1.0f);
    return weights;
  }

  Shape shape_;
  std::map<uint32_t, std::shared_ptr<ExpertWeights>> experts_;
};

inline std::shared_ptr<HandWeights> draw_weights(const Shape& shape, uint64_t seed, Codes codes) {
  auto weights = std::make_shared<HandWeights>(shape);
  for (uint32_t expert = 0; expert < shape.experts; ++expert) {
    Draw draw(seed * 1000 + expert);
    ExpertWeights& of = weights->at(expert);
    for (uint8_t& code : of.w1_codes) code = draw_code(draw, codes);
    for (uint8_t& code : of.w2_codes) code = draw_code(draw, codes);
    for (float& scale : of.w1_scales) scale = draw.scale(-6);
    for (float& scale : of.w2_scales) scale = draw.scale(-6);
  }
  return weights;
}

/// A problem with zero codes, scale 1, weight 1 and every slot masked.
inline Problem blank_problem(const Shape& shape, const std::vector<uint32_t>& tokens) {
  Problem problem;
  problem.shape = shape;
  for (const uint32_t count : tokens) {
    RankInput input;
    input.num_tokens = count;
    input.x_codes.assign(uint64_t{count} * shape.hidden, 0);
    input.x_scales.assign(uint64_t{count} * shape.hidden_blocks(), 1.0f);
    input.topk_idx.assign(uint64_t{count} * shape.topk, kMaskedExpert);
    input.topk_weights.assign(uint64_t{count} * shape.topk, 1.0f);
    problem.ranks.push_back(std::move(input));
  }
  return problem;
}

/// A problem with everything drawn; about one slot in eight is masked, duplicates occur.
inline Problem draw_problem(const Shape& shape, const std::vector<uint32_t>& tokens, uint64_t seed,
                            Codes codes = Codes::Common) {
  Problem problem = blank_problem(shape, tokens);
  problem.weights = draw_weights(shape, seed, codes);
  Draw draw(seed + 77);
  for (RankInput& input : problem.ranks) {
    for (uint8_t& code : input.x_codes) code = draw_code(draw, codes);
    for (float& scale : input.x_scales) scale = draw.scale(-2);
    for (int32_t& expert : input.topk_idx) {
      if (draw.below(8) != 0) expert = static_cast<int32_t>(draw.below(shape.experts));
    }
    for (float& weight : input.topk_weights) {
      weight = draw.scale(-2) * (draw.below(4) == 0 ? -1.0f : 1.0f);
    }
  }
  return problem;
}

}  // namespace moetwin::test
