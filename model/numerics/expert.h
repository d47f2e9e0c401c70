// One expert's feed-forward network on a block of rows under the rules of a variant: every stage
// that errors are reported of. With the contract's rules the codes, scales and rows are those of
// expert_ffn() in model/expert_ffn.h. It knows neither ranks nor tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "common/shape.h"
#include "model/numerics/quantisation.h"
#include "model/numerics/variant.h"

namespace moetwin::numerics {

struct ExpertStages {
  std::vector<float> linear1;    ///< [rows, 2I]: gate, then up; after rounding to BF16 if any
  std::vector<float> activated;  ///< [rows, I]: what is quantised
  CodedRows l1;                  ///< [rows, I]
  std::vector<uint16_t> l2;      ///< [rows, H] BF16
};

/// `x` is [rows, H] under rules.x, `w` under rules.weights; `routing` holds each row's weight.
/// `limit` is the activation limit, infinity: none.
ExpertStages expert_stages(const FfnRules& rules, const Shape& shape, float limit,
                           const CodedRows& x, const CodedWeights& w,
                           const std::vector<float>& routing);

}  // namespace moetwin::numerics
