#include "model/data.h"

#include <cstring>

#include "common/check.h"
#include "model/data_file.h"
#include "model/data_kinds.h"
#include "model/launch_sizes.h"
#include "model/shared_weights.h"
#include "model/team.h"

namespace moetwin {
namespace {

/// Calls body(place) for each row of blocks of both matrices, column_block 0, in parallel.
template <class Body>
void for_each_block_row(const Shape& shape, uint32_t expert, Body&& body) {
  const uint32_t w1_rows = 2 * shape.intermediate_blocks();
  const uint32_t rows = w1_rows + shape.hidden_blocks();
  [[maybe_unused]] const uint64_t elements = uint64_t{3} * shape.hidden * shape.intermediate;
#pragma omp parallel for schedule(dynamic, 1) if (worth_a_team(elements))
  for (uint32_t row = 0; row < rows; ++row) {
    if (row < w1_rows) {
      body(BlockPlace{expert, WeightMatrix::W1, row, 0});
    } else {
      body(BlockPlace{expert, WeightMatrix::W2, row - w1_rows, 0});
    }
  }
}

class GeneratedWeights : public SharedWeights {
 public:
  GeneratedWeights(const DataSpec& spec, const Shape& shape)
      : SharedWeights(shape.experts), maker_(spec, shape), shape_(shape) {}

 private:
  std::shared_ptr<const ExpertWeights> make(uint32_t expert) const override {
    const auto weights = std::make_shared<ExpertWeights>();
    const uint64_t elements = uint64_t{shape_.hidden} * shape_.intermediate;
    weights->w1_codes.resize(2 * elements);
    weights->w1_scales.resize(2 * elements / kBlockElements);
    weights->w2_codes.resize(elements);
    weights->w2_scales.resize(elements / kBlockElements);
    for_each_block_row(shape_, expert, [&](BlockPlace place) {
      const bool is_w1 = place.matrix == WeightMatrix::W1;
      const uint32_t columns = is_w1 ? shape_.hidden : shape_.intermediate;
      const uint32_t blocks = columns / kScaleBlock;
      uint8_t* codes = (is_w1 ? weights->w1_codes : weights->w2_codes).data() +
                       size_t{place.row_block} * kScaleBlock * columns;
      float* scales = (is_w1 ? weights->w1_scales : weights->w2_scales).data() +
                      size_t{place.row_block} * blocks;
      for (; place.column_block < blocks; ++place.column_block) {
        scales[place.column_block] =
            maker_.weight_codes(place, {codes + place.column_block * kScaleBlock, columns});
      }
    });
    return weights;
  }

  DataMaker maker_;
  Shape shape_;
};

}  // namespace

void make_activations(const DataSpec& spec, const Shape& shape, std::span<const uint32_t> tokens,
                      std::vector<RankInput>& ranks) {
  const uint64_t total = check_launch_sizes(shape, tokens);
  ranks.resize(shape.ranks);
  if (spec.kind == DataKind::File) {
    read_activations(spec.path, shape, tokens, total, ranks);
    return;
  }
  const DataMaker maker(spec, shape);
  const uint32_t groups = shape.hidden_blocks();
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    RankInput& input = ranks[rank];
    input.x_codes.resize(size_t{tokens[rank]} * shape.hidden);
    input.x_scales.resize(size_t{tokens[rank]} * groups);
#pragma omp parallel for schedule(static) if (worth_a_team(uint64_t{tokens[rank]} * shape.hidden))
    for (uint32_t token = 0; token < tokens[rank]; ++token) {
      maker.activation_codes(
          rank, token, std::span(input.x_codes).subspan(size_t{token} * shape.hidden, shape.hidden),
          std::span(input.x_scales).subspan(size_t{token} * groups, groups));
    }
  }
}

std::shared_ptr<const WeightSource> make_weights(const DataSpec& spec, const Shape& shape) {
  check_shape(shape);
  if (spec.kind == DataKind::File) return read_weights(spec.path, shape);
  return std::make_shared<GeneratedWeights>(spec, shape);
}

bool has_unquantised(const DataSpec& spec) {
  return spec.kind != DataKind::File || file_has_unquantised(spec.path);
}

void make_unquantised_activations(const DataSpec& spec, const Shape& shape,
                                  std::span<const uint32_t> tokens,
                                  std::vector<std::vector<float>>& x) {
  const uint64_t total = check_launch_sizes(shape, tokens);
  MOETWIN_CHECK(has_unquantised(spec));
  if (spec.kind == DataKind::File) {
    read_unquantised_activations(spec.path, shape, tokens, total, x);
    return;
  }
  const DataMaker maker(spec, shape);
  x.resize(shape.ranks);
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    x[rank].resize(size_t{tokens[rank]} * shape.hidden);
#pragma omp parallel for schedule(static) if (worth_a_team(uint64_t{tokens[rank]} * shape.hidden))
    for (uint32_t token = 0; token < tokens[rank]; ++token) {
      maker.activations(rank, token,
                        std::span(x[rank]).subspan(size_t{token} * shape.hidden, shape.hidden));
    }
  }
}

UnquantisedExpert make_unquantised_expert(const DataSpec& spec, const Shape& shape,
                                          uint32_t expert) {
  check_shape(shape);
  MOETWIN_CHECK(has_unquantised(spec) && expert < shape.experts);
  if (spec.kind == DataKind::File) return read_unquantised_expert(spec.path, shape, expert);
  const DataMaker maker(spec, shape);
  UnquantisedExpert weights;
  weights.w1.resize(2 * size_t{shape.hidden} * shape.intermediate);
  weights.w2.resize(size_t{shape.hidden} * shape.intermediate);
  for_each_block_row(shape, expert, [&](BlockPlace place) {
    const bool is_w1 = place.matrix == WeightMatrix::W1;
    const uint32_t columns = is_w1 ? shape.hidden : shape.intermediate;
    float* rows =
        (is_w1 ? weights.w1 : weights.w2).data() + size_t{place.row_block} * kScaleBlock * columns;
    std::vector<float> block(kBlockElements);
    for (; place.column_block < columns / kScaleBlock; ++place.column_block) {
      maker.weights(place, std::span<float, kBlockElements>(block));
      for (uint32_t r = 0; r < kScaleBlock; ++r) {
        std::memcpy(rows + size_t{r} * columns + place.column_block * kScaleBlock,
                    &block[r * kScaleBlock], kScaleBlock * sizeof(float));
      }
    }
  });
  return weights;
}

}  // namespace moetwin
