#include "model/data_file.h"

#include <array>
#include <cstring>
#include <optional>

#include "common/number_formats.h"
#include "model/quantise.h"
#include "model/shared_weights.h"
#include "model/tensor_files.h"

namespace moetwin {
namespace {

constexpr std::array<Dtype, 2> kCodeTypes = {Dtype::F8E4m3, Dtype::U8};
constexpr std::array<Dtype, 1> kScaleTypes = {Dtype::F32};
constexpr std::array<Dtype, 2> kValueTypes = {Dtype::F32, Dtype::Bf16};

/// `to` becomes elements [first, first + count) of a tensor.
template <class T>
void copy_elements(const TensorView& tensor, uint64_t first, uint64_t count, std::vector<T>& to) {
  to.resize(count);
  if (count == 0) return;
  std::memcpy(to.data(), tensor.bytes.data() + first * sizeof(T), count * sizeof(T));
}

/// The same from F32 or BF16 to floats.
void copy_values(const TensorView& tensor, uint64_t first, uint64_t count, std::vector<float>& to) {
  if (tensor.dtype == Dtype::F32) {
    copy_elements(tensor, first, count, to);
    return;
  }
  std::vector<uint16_t> codes;
  copy_elements(tensor, first, count, codes);
  to.resize(count);
  for (uint64_t i = 0; i < count; ++i) to[i] = decode_bf16(codes[i]);
}

std::vector<uint64_t> w1_dims(const Shape& shape) {
  return {shape.experts, 2 * uint64_t{shape.intermediate}, shape.hidden};
}
std::vector<uint64_t> w2_dims(const Shape& shape) {
  return {shape.experts, shape.hidden, shape.intermediate};
}

/// An expert's matrices before quantisation.
struct ValueTensors {
  ValueTensors(const TensorFiles& file, const Shape& shape)
      : w1(file.tensor("w1", kValueTypes, w1_dims(shape))),
        w2(file.tensor("w2", kValueTypes, w2_dims(shape))) {}

  UnquantisedExpert expert(uint32_t expert) const {
    UnquantisedExpert values;
    const uint64_t w1_size = w1.shape[1] * w1.shape[2];
    const uint64_t w2_size = w2.shape[1] * w2.shape[2];
    copy_values(w1, expert * w1_size, w1_size, values.w1);
    copy_values(w2, expert * w2_size, w2_size, values.w2);
    return values;
  }

  const TensorView& w1;
  const TensorView& w2;
};

/// Weights that the file holds as codes.
class CodedWeightFile : public SharedWeights {
 public:
  CodedWeightFile(TensorFiles file, const Shape& shape)
      : SharedWeights(shape.experts),
        file_(std::move(file)),
        w1_codes_(file_.tensor("w1.codes", kCodeTypes, w1_dims(shape))),
        w1_scales_(file_.tensor(
            "w1.scales", kScaleTypes,
            {shape.experts, 2 * uint64_t{shape.intermediate_blocks()}, shape.hidden_blocks()})),
        w2_codes_(file_.tensor("w2.codes", kCodeTypes, w2_dims(shape))),
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

  TensorFiles file_;
  const TensorView& w1_codes_;
  const TensorView& w1_scales_;
  const TensorView& w2_codes_;
  const TensorView& w2_scales_;
};

/// Weights that the file holds before quantisation.
class ValueWeightFile : public SharedWeights {
 public:
  ValueWeightFile(TensorFiles file, const Shape& shape)
      : SharedWeights(shape.experts),
        file_(std::move(file)),
        tensors_(file_, shape),
        shape_(shape) {}

 private:
  std::shared_ptr<const ExpertWeights> make(uint32_t expert) const override {
    const UnquantisedExpert values = tensors_.expert(expert);
    const auto weights = std::make_shared<ExpertWeights>();
    const auto quantise = [](const std::vector<float>& w, uint32_t rows, uint32_t columns,
                             std::vector<uint8_t>& codes, std::vector<float>& scales) {
      codes.resize(w.size());
      scales.resize(w.size() / (kScaleBlock * kScaleBlock));
      quantise_weights(w.data(), rows, columns, codes.data(), scales.data());
    };
    quantise(values.w1, 2 * shape_.intermediate, shape_.hidden, weights->w1_codes,
             weights->w1_scales);
    quantise(values.w2, shape_.hidden, shape_.intermediate, weights->w2_codes, weights->w2_scales);
    return weights;
  }

  TensorFiles file_;
  ValueTensors tensors_;
  Shape shape_;
};

}  // namespace

void read_activations(const std::string& path, const Shape& shape, std::span<const uint32_t> tokens,
                      uint64_t total, std::vector<RankInput>& ranks) {
  const TensorFiles file(path);
  if (!file.has("x.codes") && file.has("x")) {
    std::vector<std::vector<float>> x;
    read_unquantised_activations(path, shape, tokens, total, x);
    for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
      ranks[rank].x_codes.resize(x[rank].size());
      ranks[rank].x_scales.resize(x[rank].size() / kScaleBlock);
      quantise_activations(x[rank].data(), tokens[rank], shape.hidden, ranks[rank].x_codes.data(),
                           ranks[rank].x_scales.data());
    }
    return;
  }
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

std::shared_ptr<const WeightSource> read_weights(const std::string& path, const Shape& shape) {
  TensorFiles file(path);
  if (!file.has("w1.codes") && file.has("w1"))
    return std::make_shared<ValueWeightFile>(std::move(file), shape);
  return std::make_shared<CodedWeightFile>(std::move(file), shape);
}

bool file_has_unquantised(const std::string& path) {
  const TensorFiles file(path);
  return file.has("x") && file.has("w1") && file.has("w2");
}

void read_unquantised_activations(const std::string& path, const Shape& shape,
                                  std::span<const uint32_t> tokens, uint64_t total,
                                  std::vector<std::vector<float>>& x) {
  const TensorFiles file(path);
  const TensorView& values = file.tensor("x", kValueTypes, {total, shape.hidden});
  x.resize(shape.ranks);
  uint64_t first = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    copy_values(values, first * shape.hidden, uint64_t{tokens[rank]} * shape.hidden, x[rank]);
    first += tokens[rank];
  }
}

UnquantisedExpert read_unquantised_expert(const std::string& path, const Shape& shape,
                                          uint32_t expert) {
  const TensorFiles file(path);
  return ValueTensors(file, shape).expert(expert);
}

}  // namespace moetwin
