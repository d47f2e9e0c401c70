#include "tests/gpu_check/plain_layer.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "common/check.h"
#include "common/slot_table.h"
#include "cuda/device_buffer.h"
#include "tests/gpu_check/plain_kernels.h"

namespace moetwin {
namespace {

void require(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("plain reference: ") + cudaGetErrorString(error));
}

/// An array on the card.
template <class T>
class CardArray {
 public:
  explicit CardArray(uint64_t count) : count_(count) {
    if (!buffer_.reserve(count * sizeof(T) + 1))
      throw std::runtime_error("plain reference: the card has too little memory");
  }
  explicit CardArray(const std::vector<T>& values) : CardArray(values.size()) { put(0, values); }

  void put(uint64_t at, const std::vector<T>& values) {
    require(
        cudaMemcpy(data() + at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> get() const {
    std::vector<T> values(count_);
    require(cudaMemcpy(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  T* data() const { return reinterpret_cast<T*>(buffer_.data()); }

 private:
  uint64_t count_;
  DeviceBuffer buffer_;
};

/// The routed rows, experts ascending.
struct Rows {
  std::vector<uint32_t> token;
  std::vector<float> weight;
  std::vector<int32_t> row_of_slot;
  std::vector<plain::RowTile> tiles;
};

Rows sort_rows(const Problem& problem) {
  const RankInput& input = problem.ranks.front();
  Rows rows;
  rows.row_of_slot.assign(input.topk_idx.size(), -1);
  for (uint32_t expert = 0; expert < problem.shape.experts; ++expert) {
    const auto first = static_cast<uint32_t>(rows.token.size());
    for (size_t slot = 0; slot < input.topk_idx.size(); ++slot) {
      if (input.topk_idx[slot] != static_cast<int32_t>(expert)) continue;
      rows.row_of_slot[slot] = static_cast<int32_t>(rows.token.size());
      rows.token.push_back(static_cast<uint32_t>(slot / problem.shape.topk));
      rows.weight.push_back(input.topk_weights[slot]);
    }
    const auto end = static_cast<uint32_t>(rows.token.size());
    for (uint32_t at = first; at < end; at += plain::kTile)
      rows.tiles.push_back({expert, at, std::min(plain::kTile, end - at)});
  }
  return rows;
}

/// Rows of `width` values from the order by expert to (token, k) ascending, or back.
std::vector<float> reorder(const std::vector<float>& from, const Rows& rows, size_t width,
                           bool to_experts) {
  std::vector<float> to(from.size());
  size_t canonical = 0;
  for (const int32_t sorted : rows.row_of_slot) {
    if (sorted < 0) continue;
    const size_t by_expert = static_cast<size_t>(sorted) * width;
    const size_t source = to_experts ? canonical * width : by_expert;
    const size_t target = to_experts ? by_expert : canonical * width;
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(source), width,
                to.begin() + static_cast<std::ptrdiff_t>(target));
    ++canonical;
  }
  return to;
}

/// One of the two weight matrices of every expert that has rows.
struct CardMatrix {
  CardArray<uint8_t> codes;
  CardArray<float> scales;
  plain::Weights weights;

  CardMatrix(uint32_t experts, uint32_t n, uint32_t k)
      : codes(uint64_t{experts} * n * k),
        scales(uint64_t{experts} * (n / 128) * (k / 128)),
        weights{codes.data(), scales.data(), n, k} {}

  void put(uint32_t expert, const std::vector<uint8_t>& c, const std::vector<float>& s) {
    codes.put(expert * c.size(), c);
    scales.put(expert * s.size(), s);
  }
};

}  // namespace

PlainResult plain_layer(const Problem& problem, const std::vector<float>* given) {
  MOETWIN_CHECK(problem.shape.ranks == 1);
  const Shape& s = problem.shape;
  const RankInput& input = problem.ranks.front();
  const Rows rows = sort_rows(problem);
  const auto count = static_cast<uint32_t>(rows.token.size());
  CardMatrix w1(s.experts, 2 * s.intermediate, s.hidden);
  CardMatrix w2(s.experts, s.hidden, s.intermediate);
  for (size_t i = 0; i < rows.tiles.size(); ++i) {
    const uint32_t expert = rows.tiles[i].expert;
    if (i != 0 && rows.tiles[i - 1].expert == expert) continue;
    const auto weights = problem.weights->expert(expert);
    w1.put(expert, weights->w1_codes, weights->w1_scales);
    w2.put(expert, weights->w2_codes, weights->w2_scales);
  }
  const CardArray<uint8_t> codes(input.x_codes);
  const CardArray<float> scales(input.x_scales);
  const CardArray<uint32_t> tokens(rows.token);
  const CardArray<float> row_weights(rows.weight);
  const CardArray<int32_t> slots(rows.row_of_slot);
  const CardArray<plain::RowTile> tiles(rows.tiles);
  const auto num_tiles = static_cast<uint32_t>(rows.tiles.size());
  const CardArray<float> x(uint64_t{count} * s.hidden);
  const CardArray<float> gate_up(uint64_t{count} * 2 * s.intermediate);
  CardArray<float> l1(uint64_t{count} * s.intermediate);
  const CardArray<float> l2(uint64_t{count} * s.hidden);
  const CardArray<uint16_t> y(uint64_t{input.num_tokens} * s.hidden);
  plain::gather(codes.data(), scales.data(), tokens.data(), count, s.hidden, x.data());
  plain::multiply(x.data(), w1.weights, tiles.data(), num_tiles, gate_up.data());
  plain::activate(gate_up.data(), row_weights.data(), count, s.intermediate, problem.clamp,
                  l1.data());
  PlainResult result;
  result.l1 = reorder(l1.get(), rows, s.intermediate, false);
  if (given != nullptr) l1.put(0, reorder(*given, rows, s.intermediate, true));
  plain::multiply(l1.data(), w2.weights, tiles.data(), num_tiles, l2.data());
  plain::combine(l2.data(), slots.data(), input.num_tokens, s.topk, s.hidden, y.data());
  require(cudaGetLastError());
  require(cudaDeviceSynchronize());
  result.y = y.get();
  return result;
}

}  // namespace moetwin
