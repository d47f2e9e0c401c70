#include "cuda/card_weights.h"

#include <cstring>
#include <string>

#include "common/check.h"
#include "common/weight_layout.h"
#include "cuda/cuda_error.h"

namespace moetwin {
namespace {

/// Sizes of one expert and places of the four arrays in a rank's buffer, in bytes.
struct WeightPlaces {
  uint64_t w1_bytes, w2_bytes, w1_scale_bytes, w2_scale_bytes;
  uint64_t w2, w1_scales, w2_scales, total;

  explicit WeightPlaces(const Shape& s) {
    const uint64_t experts = s.num_local_experts();
    w1_bytes = uint64_t{2} * s.intermediate * s.hidden;
    w2_bytes = uint64_t{s.hidden} * s.intermediate;
    w1_scale_bytes = uint64_t{4} * 2 * s.intermediate_blocks() * s.hidden_blocks();
    w2_scale_bytes = uint64_t{4} * s.hidden_blocks() * s.intermediate_blocks();
    w2 = experts * w1_bytes;  // a multiple of 128 * 128, so aligned for tile loads
    w1_scales = w2 + experts * w2_bytes;
    w2_scales = w1_scales + experts * w1_scale_bytes;
    total = w2_scales + experts * w2_scale_bytes;
  }
};

bool same_weights(const Shape& a, const Shape& b) {
  return a.ranks == b.ranks && a.experts == b.experts && a.hidden == b.hidden &&
         a.intermediate == b.intermediate;
}

}  // namespace

void CardWeights::prepare(const Problem& problem, LocalRanks local, cudaStream_t stream) {
  const Shape& shape = problem.shape;
  if (source_ != problem.weights || !same_weights(shape, shape_) || local.first != local_.first ||
      local.count != local_.count) {
    source_.reset();
    const WeightPlaces places(shape);
    if (buffers_.size() < local.count) buffers_.resize(local.count);
    for (uint32_t place = 0; place < local.count; ++place)
      if (!buffers_[place].reserve(places.total))
        throw InputError("shape.experts: " + std::to_string(shape.experts) + " need " +
                         std::to_string(places.total >> 20) +
                         " MiB of weights a rank on the card, which has not got them");
    present_.assign(shape.experts, false);
    source_ = problem.weights;
    shape_ = shape;
    local_ = local;
  }
  for (const RankInput& rank : problem.ranks)
    for (const int32_t id : rank.topk_idx) {
      if (id == kMaskedExpert) continue;
      const uint32_t expert = static_cast<uint32_t>(id);
      const uint32_t place = shape.rank_of_expert(expert) - local.first;
      if (place < local.count && !present_[expert]) upload(shape, expert, stream);
    }
}

void CardWeights::upload(const Shape& shape, uint32_t expert, cudaStream_t stream) {
  const auto weights = source_->expert(expert);
  const WeightPlaces places(shape);
  w1_rows_.resize(places.w1_bytes);
  for (uint32_t row = 0; row < 2 * shape.intermediate; ++row)
    std::memcpy(
        w1_rows_.data() + uint64_t{row} * shape.hidden,
        weights->w1_codes.data() + uint64_t{w1_source_row(row, shape.intermediate)} * shape.hidden,
        shape.hidden);
  uint8_t* const base = buffers_[shape.rank_of_expert(expert) - local_.first].data();
  const uint64_t local = shape.local_expert(expert);
  const auto copy = [&](uint64_t at, const void* from, uint64_t bytes) {
    check_cuda(cudaMemcpyAsync(base + at, from, bytes, cudaMemcpyHostToDevice, stream),
               "copying weights");
  };
  copy(local * places.w1_bytes, w1_rows_.data(), places.w1_bytes);
  copy(places.w2 + local * places.w2_bytes, weights->w2_codes.data(), places.w2_bytes);
  copy(places.w1_scales + local * places.w1_scale_bytes, weights->w1_scales.data(),
       places.w1_scale_bytes);
  copy(places.w2_scales + local * places.w2_scale_bytes, weights->w2_scales.data(),
       places.w2_scale_bytes);
  // The staging rows and the expert are gone after this; pageable copies may still read them.
  check_cuda(cudaStreamSynchronize(stream), "copying weights");
  present_[expert] = true;
}

RankWeights CardWeights::of(uint32_t rank) const {
  const WeightPlaces places(shape_);
  const uint64_t base = buffers_[rank - local_.first].address();
  return {base, base + places.w2, base + places.w1_scales, base + places.w2_scales};
}

}  // namespace moetwin
