// Weight boxes and scales of one rank, taken on demand.
#include "cpu_sim/expert_cache.h"

#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/weight_layout.h"

namespace moetwin {

void ExpertCache::start_launch(std::shared_ptr<const WeightSource> source, const Shape& shape,
                               uint32_t rank, std::vector<uint64_t> tiles, bool keep) {
  if (source != source_ || !keep) kept_.clear();
  if (keep) kept_.resize(shape.num_local_experts());
  source_ = std::move(source);
  shape_ = shape;
  rank_ = rank;
  experts_.assign(shape.num_local_experts(), {});
  for (size_t e = 0; e < experts_.size(); ++e) experts_[e].tiles_left = tiles[e];
}

const ExpertWeights& ExpertCache::take(uint32_t local_expert) {
  Expert& expert = experts_[local_expert];
  if (expert.weights == nullptr) {
    expert.weights = source_->expert(rank_ * shape_.num_local_experts() + local_expert);
    expert.w1_scales = expert.weights->w1_scales;
    expert.w2_scales = expert.weights->w2_scales;
    if (!kept_.empty()) kept_[local_expert] = expert.weights;
  }
  return *expert.weights;
}

void ExpertCache::read_box(Tensor tensor, uint64_t row, uint32_t column, uint8_t* out) {
  const bool w1 = tensor == Tensor::W1;
  const uint32_t expert_rows = w1 ? 2 * shape_.intermediate : shape_.hidden;
  const uint32_t pitch = w1 ? shape_.hidden : shape_.intermediate;
  const uint32_t local_expert = static_cast<uint32_t>(row / expert_rows);
  const uint32_t first = static_cast<uint32_t>(row % expert_rows);
  MOETWIN_CHECK(local_expert < experts_.size() && first + kSliceN <= expert_rows &&
                column + kBlockK <= pitch);
  const ExpertWeights& weights = take(local_expert);
  const uint8_t* codes = w1 ? weights.w1_codes.data() : weights.w2_codes.data();
  for (uint32_t r = 0; r < kSliceN; ++r) {
    const uint32_t source = w1 ? w1_source_row(first + r, shape_.intermediate) : first + r;
    std::memcpy(out + size_t{r} * kBlockK, codes + size_t{source} * pitch + column, kBlockK);
  }
  Expert& expert = experts_[local_expert];
  if (expert.tiles_left > 0 && --expert.tiles_left == 0) expert.weights.reset();
}

uint64_t ExpertCache::num_scales(Tensor tensor) const {
  const uint64_t blocks = uint64_t{shape_.hidden_blocks()} * shape_.intermediate_blocks();
  return experts_.size() * blocks * (tensor == Tensor::W1 ? 2 : 1);
}

float ExpertCache::scale(Tensor tensor, uint64_t element) {
  const uint64_t per_expert = num_scales(tensor) / experts_.size();
  const uint32_t local_expert = static_cast<uint32_t>(element / per_expert);
  Expert& expert = experts_[local_expert];
  if (expert.w1_scales.empty()) take(local_expert);
  return (tensor == Tensor::W1 ? expert.w1_scales : expert.w2_scales)[element % per_expert];
}

}  // namespace moetwin
