#include "model/numerics/expert.h"

#include <cmath>

#include "common/check.h"
#include "common/epilogue_math.h"
#include "model/numerics/product.h"
#include "model/numerics/small_floats.h"

namespace moetwin::numerics {
namespace {

/// S4 with the exponential and the quotient rounded correctly, in double until each.
float exact_swiglu(float gate, float up) {
  const float exponential = static_cast<float>(std::exp(-double{gate}));
  const float sigmoid = div_rn(1.0f, add_rn(1.0f, exponential));
  return mul_rn(mul_rn(gate, sigmoid), up);
}

/// S3 to S5 for one element.
float activate_element(const FfnRules& rules, float gate, float up, float limit, float weight) {
  const float clamped_gate = clamp_gate(gate, limit);
  const float clamped_up = clamp_up(up, limit);
  const float value = rules.exact_swiglu ? exact_swiglu(clamped_gate, clamped_up)
                                         : swiglu(clamped_gate, clamped_up);
  if (rules.weight_place != WeightPlace::BeforeQuantisation) return value;
  return apply_routing_weight(value, weight);
}

void linear1(const FfnRules& rules, const Shape& shape, const CodedRows& x, const CodedMatrix& w1,
             uint64_t rows, ExpertStages& stages) {
  Product product(rules.sum, rules.sum.linear1_span, rows, shape.hidden);
  const uint64_t width = 2 * uint64_t{shape.intermediate};
  stages.linear1.resize(rows * width);
  std::vector<float> final;
  for (uint64_t block = 0; block < width / kProductColumns; ++block) {
    product.multiply(x, w1, block, final);
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < kProductColumns; ++column) {
        const float value = final[row * kProductColumns + column];
        stages.linear1[row * width + block * kProductColumns + column] =
            rules.bf16_linear1 ? round_to_bf16(value) : value;
      }
    }
  }
}

void linear2(const FfnRules& rules, const Shape& shape, const CodedMatrix& w2,
             const std::vector<float>& routing, ExpertStages& stages) {
  const uint64_t rows = routing.size();
  Product product(rules.sum, rules.sum.linear2_span, rows, shape.intermediate);
  stages.l2.resize(rows * shape.hidden);
  std::vector<float> final;
  for (uint64_t block = 0; block < shape.hidden_blocks(); ++block) {
    product.multiply(stages.l1, w2, block, final);
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < kProductColumns; ++column) {
        float value = final[row * kProductColumns + column];
        if (rules.weight_place == WeightPlace::BeforeScatter)
          value = apply_routing_weight(value, routing[row]);
        stages.l2[row * shape.hidden + block * kProductColumns + column] = output_element(value);
      }
    }
  }
}

}  // namespace

ExpertStages expert_stages(const FfnRules& rules, const Shape& shape, float limit,
                           const CodedRows& x, const CodedWeights& w,
                           const std::vector<float>& routing) {
  const uint64_t rows = routing.size();
  const uint64_t intermediate = shape.intermediate;
  MOETWIN_CHECK(x.codes.size() == rows * shape.hidden);
  MOETWIN_CHECK(w.w1.codes.size() == 2 * intermediate * shape.hidden);
  MOETWIN_CHECK(w.w2.codes.size() == intermediate * shape.hidden);
  ExpertStages stages;
  linear1(rules, shape, x, w.w1, rows, stages);
  stages.activated.resize(rows * intermediate);
  for (uint64_t row = 0; row < rows; ++row) {
    const float* gate = stages.linear1.data() + row * 2 * intermediate;
    for (uint64_t i = 0; i < intermediate; ++i) {
      stages.activated[row * intermediate + i] =
          activate_element(rules, gate[i], gate[intermediate + i], limit, routing[row]);
    }
  }
  stages.l1 = code_rows(rules.l1, stages.activated.data(), rows, intermediate);
  linear2(rules, shape, w.w2, routing, stages);
  return stages;
}

}  // namespace moetwin::numerics
