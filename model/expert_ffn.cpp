#include "model/expert_ffn.h"

#include "common/check.h"
#include "common/epilogue_math.h"
#include "model/tensor_core.h"

namespace moetwin {
namespace {

/// Weight rows, that is output columns, of one tensor-core call.
constexpr uint32_t kTileColumns = kScaleBlock;

/// The output columns of one 128-row block of a weight matrix.
class Linear {
 public:
  Linear(uint64_t rows, uint64_t depth, uint32_t block_k)
      : rows_(rows), depth_(depth), block_k_(block_k), accumulator_(rows * kTileColumns) {}

  /// final [rows, 128] from a [rows, depth] with a scale a row and `block_k` channels, and weight
  /// rows [128, depth] with a scale a 128 channels. Every block of `block_k` channels is
  /// accumulated from +0 and promoted by itself, ascending (NUMERICS S2 and S9).
  void multiply(const uint8_t* a, const float* a_scales, const uint8_t* weights,
                const float* weight_scales, std::vector<float>& final) {
    final.assign(rows_ * kTileColumns, 0.0f);
    for (uint64_t k = 0; k < depth_; k += block_k_) {
      tile_steps(a + k, depth_, static_cast<uint32_t>(rows_), weights + k, depth_, kTileColumns,
                 block_k_ / kTensorCoreK, accumulator_.data());
      const float weight_scale = weight_scales[k / kScaleBlock];
      for (uint64_t row = 0; row < rows_; ++row) {
        const float a_scale = a_scales[row * (depth_ / block_k_) + k / block_k_];
        for (uint64_t at = row * kTileColumns; at < (row + 1) * kTileColumns; ++at) {
          final[at] = promote(final[at], accumulator_[at], a_scale, weight_scale);
        }
      }
    }
  }

 private:
  uint64_t rows_;
  uint64_t depth_;
  uint32_t block_k_;
  std::vector<float> accumulator_;  ///< [rows, 128]
};

/// S3 to S8 for one row and one group of 64 columns. Returns the group's scale.
float quantise_group(const float* gate, const float* up, float limit, float weight,
                     uint8_t* codes) {
  float activated[kLinear1ScaleGroup];
  float amax = 0.0f;
  for (uint32_t j = 0; j < kLinear1ScaleGroup; ++j) {
    activated[j] = activate(gate[j], up[j], limit, weight);
    amax = amax_step(amax, activated[j]);
  }
  const GroupScale scale = group_scale(amax);
  for (uint32_t j = 0; j < kLinear1ScaleGroup; ++j) {
    codes[j] = requantise(activated[j], scale.inverse);
  }
  return scale.scale;
}

/// S2 to S8.
void linear1(const Shape& shape, float limit, const ExpertWeights& weights,
             const ExpertInput& input, ExpertOutput& output) {
  const uint64_t hidden = shape.hidden;
  const uint64_t blocks = shape.intermediate_blocks();
  const uint64_t groups = shape.linear1_scale_groups();
  Linear linear(input.rows, hidden, kScaleBlock);
  const auto multiply = [&](uint64_t block, std::vector<float>& final) {
    linear.multiply(input.codes.data(), input.scales.data(),
                    weights.w1_codes.data() + block * kTileColumns * hidden,
                    weights.w1_scales.data() + block * shape.hidden_blocks(), final);
  };
  std::vector<float> gate;
  std::vector<float> up;
  for (uint64_t block = 0; block < blocks; ++block) {
    multiply(block, gate);
    multiply(blocks + block, up);
    for (uint64_t row = 0; row < input.rows; ++row) {
      for (uint32_t column = 0; column < kTileColumns; column += kLinear1ScaleGroup) {
        const uint64_t from = row * kTileColumns + column;
        const uint64_t to = block * kTileColumns + column;
        output.l1_scales[row * groups + to / kLinear1ScaleGroup] =
            quantise_group(gate.data() + from, up.data() + from, limit, input.weights[row],
                           output.l1_codes.data() + row * shape.intermediate + to);
      }
    }
  }
}

/// S9 and S10.
void linear2(const Shape& shape, const ExpertWeights& weights, uint64_t rows,
             ExpertOutput& output) {
  const uint64_t intermediate = shape.intermediate;
  Linear linear(rows, intermediate, kLinear1ScaleGroup);
  std::vector<float> final;
  for (uint64_t block = 0; block < shape.hidden_blocks(); ++block) {
    linear.multiply(output.l1_codes.data(), output.l1_scales.data(),
                    weights.w2_codes.data() + block * kTileColumns * intermediate,
                    weights.w2_scales.data() + block * shape.intermediate_blocks(), final);
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < kTileColumns; ++column) {
        output.l2[row * shape.hidden + block * kTileColumns + column] =
            output_element(final[row * kTileColumns + column]);
      }
    }
  }
}

}  // namespace

ExpertOutput expert_ffn(const Shape& shape, float limit, const ExpertWeights& weights,
                        const ExpertInput& input) {
  const uint64_t hidden = shape.hidden;
  const uint64_t intermediate = shape.intermediate;
  MOETWIN_CHECK(input.codes.size() == input.rows * hidden);
  MOETWIN_CHECK(input.scales.size() == input.rows * shape.hidden_blocks());
  MOETWIN_CHECK(input.weights.size() == input.rows);
  MOETWIN_CHECK(weights.w1_codes.size() == 2 * intermediate * hidden);
  MOETWIN_CHECK(weights.w1_scales.size() ==
                2 * uint64_t{shape.intermediate_blocks()} * shape.hidden_blocks());
  MOETWIN_CHECK(weights.w2_codes.size() == hidden * intermediate);
  MOETWIN_CHECK(weights.w2_scales.size() ==
                uint64_t{shape.hidden_blocks()} * shape.intermediate_blocks());
  ExpertOutput output;
  output.l1_codes.resize(input.rows * intermediate);
  output.l1_scales.resize(input.rows * shape.linear1_scale_groups());
  output.l2.resize(input.rows * hidden);
  linear1(shape, limit, weights, input, output);
  linear2(shape, weights, input.rows, output);
  return output;
}

}  // namespace moetwin
