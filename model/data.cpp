#include "model/data.h"

#include <array>
#include <cstring>
#include <mutex>

#include "common/check.h"
#include "model/data_kinds.h"
#include "model/launch_sizes.h"
#include "model/safetensors.h"
#include "model/team.h"

namespace moetwin {
namespace {

constexpr std::array<Dtype, 2> kCodeTypes = {Dtype::F8E4m3, Dtype::U8};
constexpr std::array<Dtype, 1> kScaleTypes = {Dtype::F32};

/// `to` becomes elements [first, first + count) of a tensor.
template <class T>
void copy_elements(const TensorView& tensor, uint64_t first, uint64_t count, std::vector<T>& to) {
  to.resize(count);
  if (count == 0) return;
  std::memcpy(to.data(), tensor.bytes.data() + first * sizeof(T), count * sizeof(T));
}

void read_activations(const DataSpec& spec, const Shape& shape, std::span<const uint32_t> tokens,
                      uint64_t total, std::vector<RankInput>& ranks) {
  const SafetensorsFile file(spec.path);
  const TensorView& codes = file.tensor("x.codes", kCodeTypes, {total, shape.hidden});
  const TensorView& scales = file.tensor("x.scales", kScaleTypes, {total, shape.hidden_blocks()});
  uint64_t first = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    copy_elements(codes, first * shape.hidden, uint64_t{tokens[rank]} * shape.hidden,
                  ranks[rank].x_codes);
    copy_elements(scales, first * shape.hidden_blocks(),
                  uint64_t{tokens[rank]} * shape.hidden_blocks(), ranks[rank].x_scales);
    first += tokens[rank];
  }
}

/// Remembers experts while someone holds them.
class SharedWeights : public WeightSource {
 public:
  explicit SharedWeights(uint32_t experts) : entries_(experts) {}

  std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const override {
    MOETWIN_CHECK(expert < entries_.size());
    Entry& entry = entries_[expert];
    // One lock an expert: whoever asks while it is being made waits, others do not.
    const std::lock_guard<std::mutex> lock(entry.mutex);
    std::shared_ptr<const ExpertWeights> weights = entry.weights.lock();
    if (weights == nullptr) {
      weights = make(expert);
      entry.weights = weights;
    }
    return weights;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const ExpertWeights> weights;
  };

  virtual std::shared_ptr<const ExpertWeights> make(uint32_t expert) const = 0;

  mutable std::vector<Entry> entries_;
};

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

class FileWeights : public SharedWeights {
 public:
  FileWeights(const DataSpec& spec, const Shape& shape)
      : SharedWeights(shape.experts),
        file_(spec.path),
        w1_codes_(file_.tensor("w1.codes", kCodeTypes,
                               {shape.experts, 2 * uint64_t{shape.intermediate}, shape.hidden})),
        w1_scales_(file_.tensor(
            "w1.scales", kScaleTypes,
            {shape.experts, 2 * uint64_t{shape.intermediate_blocks()}, shape.hidden_blocks()})),
        w2_codes_(file_.tensor("w2.codes", kCodeTypes,
                               {shape.experts, shape.hidden, shape.intermediate})),
        w2_scales_(
            file_.tensor("w2.scales", kScaleTypes,
                         {shape.experts, shape.hidden_blocks(), shape.intermediate_blocks()})) {}

 private:
  std::shared_ptr<const ExpertWeights> make(uint32_t expert) const override {
    const auto weights = std::make_shared<ExpertWeights>();
    copy_expert(w1_codes_, expert, weights->w1_codes);
    copy_expert(w1_scales_, expert, weights->w1_scales);
    copy_expert(w2_codes_, expert, weights->w2_codes);
    copy_expert(w2_scales_, expert, weights->w2_scales);
    return weights;
  }

  template <class T>
  static void copy_expert(const TensorView& tensor, uint32_t expert, std::vector<T>& to) {
    const uint64_t elements = tensor.shape[1] * tensor.shape[2];
    copy_elements(tensor, expert * elements, elements, to);
  }

  SafetensorsFile file_;
  const TensorView& w1_codes_;
  const TensorView& w1_scales_;
  const TensorView& w2_codes_;
  const TensorView& w2_scales_;
};

}  // namespace

void make_activations(const DataSpec& spec, const Shape& shape, std::span<const uint32_t> tokens,
                      std::vector<RankInput>& ranks) {
  const uint64_t total = check_launch_sizes(shape, tokens);
  ranks.resize(shape.ranks);
  if (spec.kind == DataKind::File) {
    read_activations(spec, shape, tokens, total, ranks);
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
  if (spec.kind == DataKind::File) return std::make_shared<FileWeights>(spec, shape);
  return std::make_shared<GeneratedWeights>(spec, shape);
}

bool has_unquantised(const DataSpec& spec) { return spec.kind != DataKind::File; }

void make_unquantised_activations(const DataSpec& spec, const Shape& shape,
                                  std::span<const uint32_t> tokens,
                                  std::vector<std::vector<float>>& x) {
  check_launch_sizes(shape, tokens);
  MOETWIN_CHECK(has_unquantised(spec));
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
