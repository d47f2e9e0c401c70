#include "model/result_tensors.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/check.h"
#include "model/digest.h"
#include "model/tensor_files.h"

namespace moetwin {
namespace {

using Dims = std::vector<uint64_t>;

template <typename T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

/// A tensor that is every rank's part, one after the other. `problem` outlives it.
template <typename T>
TensorSource rank_tensor(const char* name, Dtype dtype, Dims dims, const Problem& problem,
                         std::vector<T> RankInput::*part) {
  const auto produce = [&problem, part](const ByteSink& sink) {
    for (const RankInput& input : problem.ranks) sink(bytes_of(input.*part));
  };
  return {name, dtype, std::move(dims), produce};
}

/// Codes of every expert, one after the other.
TensorSource expert_codes(const char* name, Dims dims, const Problem& problem,
                          std::vector<uint8_t> ExpertWeights::*part) {
  const auto produce = [&problem, part](const ByteSink& sink) {
    for (uint32_t expert = 0; expert < problem.shape.experts; ++expert) {
      const std::shared_ptr<const ExpertWeights> weights = problem.weights->expert(expert);
      sink(bytes_of((*weights).*part));
    }
  };
  return {name, Dtype::F8E4m3, std::move(dims), produce};
}

/// The scales of all experts, which are small: one pass over the experts less than a source each.
struct AllScales {
  std::vector<float> w1;
  std::vector<float> w2;

  explicit AllScales(const Problem& problem) {
    for (uint32_t expert = 0; expert < problem.shape.experts; ++expert) {
      const std::shared_ptr<const ExpertWeights> weights = problem.weights->expert(expert);
      w1.insert(w1.end(), weights->w1_scales.begin(), weights->w1_scales.end());
      w2.insert(w2.end(), weights->w2_scales.begin(), weights->w2_scales.end());
    }
  }
};

/// One matrix of every expert before quantisation, one after the other.
TensorSource unquantised_matrix(const char* name, Dims dims, const Shape& shape,
                                const DataSpec& spec, std::vector<float> UnquantisedExpert::*part) {
  const auto produce = [&shape, &spec, part](const ByteSink& sink) {
    for (uint32_t expert = 0; expert < shape.experts; ++expert)
      sink(bytes_of(make_unquantised_expert(spec, shape, expert).*part));
  };
  return {name, Dtype::F32, std::move(dims), produce};
}

/// x, w1 and w2 before quantisation; `specs` and `x` outlive what is added.
void add_unquantised(const Problem& problem, const UnquantisedSpecs& specs,
                     const std::vector<std::vector<float>>& x, uint64_t tokens,
                     std::vector<TensorSource>& tensors) {
  const Shape& shape = problem.shape;
  const uint64_t intermediate = shape.intermediate;
  tensors.push_back({"x", Dtype::F32, {tokens, shape.hidden}, [&x](const ByteSink& sink) {
                       for (const std::vector<float>& rank : x) sink(bytes_of(rank));
                     }});
  tensors.push_back(unquantised_matrix("w1", {shape.experts, 2 * intermediate, shape.hidden}, shape,
                                       specs.weights, &UnquantisedExpert::w1));
  tensors.push_back(unquantised_matrix("w2", {shape.experts, shape.hidden, intermediate}, shape,
                                       specs.weights, &UnquantisedExpert::w2));
}

std::vector<int32_t> row_keys(const std::vector<RoutedRow>& rows) {
  std::vector<int32_t> keys;
  keys.reserve(rows.size() * 4);
  for (const RoutedRow& row : rows) {
    for (const uint32_t value : {row.rank, row.token, row.k, row.expert}) {
      keys.push_back(static_cast<int32_t>(value));
    }
  }
  return keys;
}

uint64_t sum(const std::vector<uint32_t>& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), uint64_t{0});
}

/// Copies a tensor out of a file, which need not be aligned there.
template <typename T>
std::vector<T> values_of(const TensorView& view) {
  std::vector<T> values(view.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

class DumpReader {
 public:
  DumpReader(const std::string& path, const Shape& shape, const std::vector<uint32_t>& tokens)
      : file_(path), shape_(shape) {
    MOETWIN_CHECK(tokens.size() == shape.ranks);
    result_.shape = shape;
    result_.tokens = tokens;
  }

  LayerResult read() {
    bool any = get("y", Dtype::Bf16, {sum(result_.tokens), shape_.hidden}, result_.y);
    if (file_.has("rows")) {
      any = true;
      rows();
      const uint64_t n = result_.rows.size();
      const std::array<Dtype, 2> codes = {Dtype::F8E4m3, Dtype::U8};
      if (file_.has("l1.codes")) {
        result_.l1_codes =
            values_of<uint8_t>(file_.tensor("l1.codes", codes, {n, shape_.intermediate}));
      }
      get("l1.scales", Dtype::F32, {n, shape_.linear1_scale_groups()}, result_.l1_scales);
      get("l2", Dtype::Bf16, {n, shape_.hidden}, result_.l2);
    }
    if (!any) throw InputError(file_.path() + ": holds neither y nor rows");
    return std::move(result_);
  }

 private:
  template <typename T>
  bool get(const char* name, Dtype dtype, const Dims& dims, std::vector<T>& out) {
    if (!file_.has(name)) return false;
    const std::array<Dtype, 1> dtypes = {dtype};
    out = values_of<T>(file_.tensor(name, dtypes, dims));
    return true;
  }

  [[noreturn]] void refuse_row(uint64_t row, const std::string& why) const {
    throw InputError(fmt::format("{}: rows[{}]: {}", file_.path(), row, why));
  }

  void rows() {
    const TensorView& view = file_.tensor("rows");
    if (view.shape.size() != 2) {
      throw InputError(fmt::format("{}: rows has shape {}, must be [N, 4]", file_.path(),
                                   shape_text(view.shape)));
    }
    std::vector<int32_t> keys;
    get("rows", Dtype::I32, {view.shape[0], 4}, keys);
    std::vector<float> weights;
    get("topk.weights", Dtype::F32, {sum(result_.tokens), shape_.topk}, weights);
    std::vector<uint64_t> first_token(shape_.ranks, 0);
    for (uint32_t rank = 1; rank < shape_.ranks; ++rank) {
      first_token[rank] = first_token[rank - 1] + result_.tokens[rank - 1];
    }
    result_.slots.resize(uint64_t{shape_.experts} * shape_.ranks);
    uint64_t least = 0;  // the smallest place in [token, k] of all ranks that may come next
    for (uint64_t i = 0; i < view.shape[0]; ++i) {
      const int32_t* key = keys.data() + i * 4;
      const auto below = [&](int at, uint64_t limit, const char* what) {
        if (key[at] < 0 || static_cast<uint64_t>(key[at]) >= limit) {
          refuse_row(i, fmt::format("{} {} is not below {}", what, key[at], limit));
        }
        return static_cast<uint32_t>(key[at]);
      };
      RoutedRow row;
      row.rank = below(0, shape_.ranks, "rank");
      row.token = below(1, result_.tokens[row.rank], "token");
      row.k = below(2, shape_.topk, "k");
      row.expert = below(3, shape_.experts, "expert");
      const uint64_t place = (first_token[row.rank] + row.token) * shape_.topk + row.k;
      if (place < least) refuse_row(i, "rank, token, k must ascend");
      least = place + 1;
      row.weight = weights.empty() ? 1.0f : weights[place];
      result_.rows.push_back(row);
      result_.slots[uint64_t{row.expert} * shape_.ranks + row.rank].push_back(
          row.token * shape_.topk + row.k);
    }
  }

  TensorFiles file_;
  const Shape& shape_;
  LayerResult result_;
};

}  // namespace

void write_dump(const std::string& path, const Problem& problem, const LayerResult& result,
                const UnquantisedSpecs* unquantised) {
  MOETWIN_CHECK(problem.shape == result.shape);
  const Shape& shape = problem.shape;
  const uint64_t tokens = sum(result.tokens);
  const uint64_t rows = result.rows.size();
  const uint64_t hidden = shape.hidden;
  const uint64_t intermediate = shape.intermediate;
  const uint64_t hidden_blocks = shape.hidden_blocks();
  const uint64_t intermediate_blocks = shape.intermediate_blocks();
  const std::vector<int32_t> keys = row_keys(result.rows);

  std::vector<TensorSource> tensors;
  if (has_stage(result, Stage::Y)) {
    tensors.push_back(tensor_source("y", Dtype::Bf16, {tokens, hidden}, result.y));
  }
  if (has_stage(result, Stage::Metadata)) {
    tensors.push_back(tensor_source("rows", Dtype::I32, {rows, 4}, keys));
  }
  if (has_stage(result, Stage::L1)) {
    tensors.push_back(
        tensor_source("l1.codes", Dtype::F8E4m3, {rows, intermediate}, result.l1_codes));
  }
  if (has_stage(result, Stage::L1Scales)) {
    tensors.push_back(tensor_source("l1.scales", Dtype::F32, {rows, shape.linear1_scale_groups()},
                                    result.l1_scales));
  }
  if (has_stage(result, Stage::L2)) {
    tensors.push_back(tensor_source("l2", Dtype::Bf16, {rows, hidden}, result.l2));
  }
  const auto of_ranks = [&](const char* name, Dtype dtype, uint64_t width, auto part) {
    tensors.push_back(rank_tensor(name, dtype, {tokens, width}, problem, part));
  };
  of_ranks("x.codes", Dtype::F8E4m3, hidden, &RankInput::x_codes);
  of_ranks("x.scales", Dtype::F32, hidden_blocks, &RankInput::x_scales);
  of_ranks("topk.idx", Dtype::I32, shape.topk, &RankInput::topk_idx);
  of_ranks("topk.weights", Dtype::F32, shape.topk, &RankInput::topk_weights);
  const uint64_t experts = shape.experts;
  const AllScales scales(problem);
  tensors.push_back(tensor_source("w1.scales", Dtype::F32,
                                  {experts, 2 * intermediate_blocks, hidden_blocks}, scales.w1));
  tensors.push_back(tensor_source("w2.scales", Dtype::F32,
                                  {experts, hidden_blocks, intermediate_blocks}, scales.w2));
  tensors.push_back(expert_codes("w1.codes", {experts, 2 * intermediate, hidden}, problem,
                                 &ExpertWeights::w1_codes));
  tensors.push_back(
      expert_codes("w2.codes", {experts, hidden, intermediate}, problem, &ExpertWeights::w2_codes));
  std::vector<std::vector<float>> x;
  if (unquantised != nullptr) {
    make_unquantised_activations(unquantised->x, shape, result.tokens, x);
    add_unquantised(problem, *unquantised, x, tokens, tensors);
  }
  write_safetensors(path, tensors);
}

LayerResult read_dump(const std::string& path, const Shape& shape,
                      const std::vector<uint32_t>& tokens) {
  return DumpReader(path, shape, tokens).read();
}

}  // namespace moetwin
