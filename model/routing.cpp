#include "model/routing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "common/check.h"
#include "model/counter_random.h"
#include "model/launch_sizes.h"
#include "model/routing_kinds.h"
#include "model/team.h"
#include "model/tensor_files.h"
#include "model/trace_files.h"

namespace moetwin {
namespace {

/// Ids and perhaps weights of all tokens, ranks in order, as something outside gave them.
struct GivenRouting {
  std::vector<int32_t> topk_idx;    ///< [sum of tokens, K]
  std::vector<float> topk_weights;  ///< [sum of tokens, K] or empty
};

void take_explicit_row(const RoutingSpec& spec, const Shape& shape, uint32_t rank, uint32_t token,
                       GivenRouting& given) {
  const std::string place = "[" + std::to_string(rank) + "][" + std::to_string(token) + "]";
  const std::vector<int64_t>& ids = spec.topk_idx[rank][token];
  if (ids.size() != shape.topk) {
    throw InputError("routing.topk_idx" + place + ": " + std::to_string(ids.size()) +
                     " ids; shape.topk is " + std::to_string(shape.topk));
  }
  for (size_t k = 0; k < ids.size(); ++k) {
    if (ids[k] < kMaskedExpert || ids[k] >= int64_t{shape.experts}) {
      throw InputError("routing.topk_idx" + place + "[" + std::to_string(k) +
                       "]: " + std::to_string(ids[k]) + " is not -1 to " +
                       std::to_string(shape.experts - 1));
    }
    given.topk_idx.push_back(static_cast<int32_t>(ids[k]));
  }
  if (spec.topk_weights.empty()) return;
  const std::vector<double>& weights = spec.topk_weights[rank][token];
  if (weights.size() != shape.topk) {
    throw InputError("routing.topk_weights" + place + ": " + std::to_string(weights.size()) +
                     " weights; shape.topk is " + std::to_string(shape.topk));
  }
  for (size_t k = 0; k < weights.size(); ++k) {
    given.topk_weights.push_back(static_cast<float>(weights[k]));
    if (!std::isfinite(given.topk_weights.back())) {
      throw InputError("routing.topk_weights" + place + "[" + std::to_string(k) +
                       "]: is not finite in 32 bits");
    }
  }
}

template <class Rows>
void check_explicit_lengths(const char* field, const Rows& rows, std::span<const uint32_t> tokens) {
  if (rows.size() != tokens.size()) {
    throw InputError(std::string("routing.") + field + ": " + std::to_string(rows.size()) +
                     " ranks; shape.ranks is " + std::to_string(tokens.size()));
  }
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    if (rows[rank].size() == tokens[rank]) continue;
    throw InputError(std::string("routing.") + field + "[" + std::to_string(rank) +
                     "]: " + std::to_string(rows[rank].size()) + " tokens; tokens[" +
                     std::to_string(rank) + "] is " + std::to_string(tokens[rank]));
  }
}

GivenRouting take_explicit(const RoutingSpec& spec, const Shape& shape,
                           std::span<const uint32_t> tokens) {
  check_explicit_lengths("topk_idx", spec.topk_idx, tokens);
  if (!spec.topk_weights.empty()) {
    check_explicit_lengths("topk_weights", spec.topk_weights, tokens);
  }
  GivenRouting given;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    for (uint32_t token = 0; token < tokens[rank]; ++token) {
      take_explicit_row(spec, shape, rank, token, given);
    }
  }
  return given;
}

GivenRouting take_trace(const RoutingSpec& spec, const Shape& shape, uint64_t total) {
  const Trace trace = read_trace(spec.path, {shape.experts, shape.topk, spec.layer});
  if (spec.offset > trace.rows || trace.rows - spec.offset < total) {
    throw InputError("routing.path: the trace has " + std::to_string(trace.rows) +
                     " rows; routing.offset " + std::to_string(spec.offset) + " and " +
                     std::to_string(total) + " tokens need more");
  }
  const auto begin = static_cast<ptrdiff_t>(spec.offset * shape.topk);
  const auto end = static_cast<ptrdiff_t>((spec.offset + total) * shape.topk);
  GivenRouting given;
  given.topk_idx.assign(trace.topk_idx.begin() + begin, trace.topk_idx.begin() + end);
  if (!trace.topk_weights.empty()) {
    given.topk_weights.assign(trace.topk_weights.begin() + begin, trace.topk_weights.begin() + end);
  }
  return given;
}

GivenRouting take_file(const RoutingSpec& spec, const Shape& shape, uint64_t total) {
  const TensorFiles file(spec.path);
  const std::vector<uint64_t> wanted = {total, shape.topk};
  constexpr std::array<Dtype, 2> kIdTypes = {Dtype::I64, Dtype::I32};
  constexpr std::array<Dtype, 1> kWeightTypes = {Dtype::F32};
  const TensorView& idx = file.tensor("topk.idx", kIdTypes, wanted);
  const TensorView& weights = file.tensor("topk.weights", kWeightTypes, wanted);
  GivenRouting given;
  given.topk_idx = expert_ids(idx, file.path() + ": topk.idx", shape.experts);
  given.topk_weights.resize(given.topk_idx.size());
  if (!weights.bytes.empty()) {
    std::memcpy(given.topk_weights.data(), weights.bytes.data(), weights.bytes.size());
  }
  return given;
}

/// Weights of one token for routing that brings none.
void draw_weights(const RoutingSpec& spec, uint32_t rank, uint32_t token,
                  std::span<float> weights) {
  const Key key = Key(spec.seed, Stream::RoutingWeights).with(rank).with(token);
  switch (spec.weights) {
    case RoutingWeights::Normalized: {
      float sum = 0;
      for (uint32_t k = 0; k < weights.size(); ++k) {
        weights[k] = unit_interval_above_zero(key.draw(k));
        sum += weights[k];
      }
      for (float& weight : weights) weight /= sum;
      return;
    }
    case RoutingWeights::Uniform:
      std::fill(weights.begin(), weights.end(), 1.0f / static_cast<float>(weights.size()));
      return;
    case RoutingWeights::Raw: {
      const Key zero_key = Key(spec.seed, Stream::RoutingZeroWeights).with(rank).with(token);
      for (uint32_t k = 0; k < weights.size(); ++k) {
        weights[k] = below(zero_key.draw(k), 16) == 0 ? 0.0f : normal_value(key, k);
      }
      return;
    }
  }
}

void mask_slots(const RoutingSpec& spec, uint32_t rank, uint32_t token, std::span<int32_t> idx,
                std::span<float> weights) {
  const Key key = Key(spec.seed, Stream::RoutingMask).with(rank).with(token);
  for (uint32_t k = 0; k < idx.size(); ++k) {
    if (!happens(key.draw(k), spec.masked)) continue;
    idx[k] = kMaskedExpert;
    weights[k] = 0;
  }
}

}  // namespace

void make_routing(const RoutingSpec& spec, const Shape& shape, std::span<const uint32_t> tokens,
                  std::vector<RankInput>& ranks) {
  const uint64_t total = check_launch_sizes(shape, tokens);
  if (!(spec.masked >= 0 && spec.masked <= 1)) {
    throw InputError("routing.masked: " + std::to_string(spec.masked) + " is not 0 to 1");
  }
  std::unique_ptr<const ExpertDraw> draw;
  GivenRouting given;
  if (is_drawn(spec.kind)) draw = make_expert_draw(spec, shape);
  if (spec.kind == RoutingKind::Explicit) given = take_explicit(spec, shape, tokens);
  if (spec.kind == RoutingKind::Trace) given = take_trace(spec, shape, total);
  if (spec.kind == RoutingKind::File) given = take_file(spec, shape, total);
  const bool can_mask = draw != nullptr || spec.kind == RoutingKind::Trace;

  ranks.resize(shape.ranks);
  uint64_t first = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    RankInput& input = ranks[rank];
    input.num_tokens = tokens[rank];
    input.topk_idx.assign(size_t{tokens[rank]} * shape.topk, kMaskedExpert);
    input.topk_weights.assign(size_t{tokens[rank]} * shape.topk, 0);
    // A drawn slot takes about as long as so many elements of data.
    [[maybe_unused]] constexpr uint64_t kElementsOfDraw = 32;
#pragma omp parallel for schedule(static) if (worth_a_team(kElementsOfDraw * input.topk_idx.size()))
    for (uint32_t token = 0; token < tokens[rank]; ++token) {
      const size_t at = size_t{token} * shape.topk;
      const size_t given_at = (first + token) * shape.topk;
      const std::span<int32_t> idx = std::span(input.topk_idx).subspan(at, shape.topk);
      const std::span<float> weights = std::span(input.topk_weights).subspan(at, shape.topk);
      if (draw != nullptr) {
        draw->draw({rank, token, first + token}, idx);
      } else {
        std::copy_n(given.topk_idx.begin() + static_cast<ptrdiff_t>(given_at), shape.topk,
                    idx.begin());
      }
      if (given.topk_weights.empty()) {
        draw_weights(spec, rank, token, weights);
        for (uint32_t k = 0; k < shape.topk; ++k) {
          if (idx[k] == kMaskedExpert) weights[k] = 0;
        }
      } else {
        std::copy_n(given.topk_weights.begin() + static_cast<ptrdiff_t>(given_at), shape.topk,
                    weights.begin());
      }
      if (can_mask) mask_slots(spec, rank, token, idx, weights);
    }
    first += tokens[rank];
  }
}

}  // namespace moetwin
