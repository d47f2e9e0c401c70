// The shape of one MoE layer and of the machine that runs it: the six numbers every other file
// derives its sizes from, with the limits of a case file. It knows no kernel plan and no data.
#pragma once

#include <cstdint>

#include "common/host_device.h"

namespace moetwin {

/// Channels that share one activation scale factor on entry; also the side of a weight scale block.
constexpr uint32_t kScaleBlock = 128;
/// Linear1 output columns that share one power-of-two scale factor (NUMERICS S6, S7).
constexpr uint32_t kLinear1ScaleGroup = 64;

constexpr uint32_t kMaxRanks = 128;
constexpr uint32_t kMaxExperts = 4096;
constexpr uint32_t kMaxTopk = 32;
constexpr uint32_t kMaxHidden = 16384;
constexpr uint32_t kMaxIntermediate = 32768;
constexpr uint32_t kMaxTokensPerRank = 1048576;

/// A routed slot that is switched off: not counted, not written, not combined.
constexpr int32_t kMaskedExpert = -1;

/// Sizes of a layer. Expert e lives on rank e / num_local_experts().
struct Shape {
  uint32_t ranks = 1;
  uint32_t experts = 1;
  uint32_t topk = 1;
  uint32_t hidden = 128;
  uint32_t intermediate = 128;
  uint32_t max_tokens_per_rank = 1;

  MOETWIN_HD constexpr uint32_t num_local_experts() const { return experts / ranks; }
  MOETWIN_HD constexpr uint32_t hidden_blocks() const { return hidden / kScaleBlock; }
  MOETWIN_HD constexpr uint32_t intermediate_blocks() const { return intermediate / kScaleBlock; }
  MOETWIN_HD constexpr uint32_t linear1_scale_groups() const {
    return intermediate / kLinear1ScaleGroup;
  }
  /// Slots one source rank may claim on one expert: duplicated ids take one slot each.
  MOETWIN_HD constexpr uint64_t slots_per_source() const {
    return uint64_t{max_tokens_per_rank} * topk;
  }
  MOETWIN_HD constexpr uint32_t rank_of_expert(uint32_t expert) const {
    return expert / num_local_experts();
  }
  MOETWIN_HD constexpr uint32_t local_expert(uint32_t expert) const {
    return expert % num_local_experts();
  }

  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

/// Why a shape is refused: the field of a case file, its value and the rule. `field` is null when
/// the shape is valid.
struct ShapeError {
  const char* field = nullptr;
  uint64_t value = 0;
  const char* limit = nullptr;

  constexpr explicit operator bool() const { return field != nullptr; }
};

/// Checks every limit of DESIGN section 7. Reports the first field that breaks one.
constexpr ShapeError validate(const Shape& s) {
  if (s.ranks < 1 || s.ranks > kMaxRanks) return {"shape.ranks", s.ranks, "1 to 128"};
  if (s.experts < 1 || s.experts > kMaxExperts) return {"shape.experts", s.experts, "1 to 4096"};
  if (s.experts % s.ranks != 0) return {"shape.experts", s.experts, "a multiple of shape.ranks"};
  if (s.topk < 1 || s.topk > kMaxTopk) return {"shape.topk", s.topk, "1 to 32"};
  if (s.hidden < 128 || s.hidden > kMaxHidden || s.hidden % 128 != 0)
    return {"shape.hidden", s.hidden, "a multiple of 128 from 128 to 16384"};
  if (s.intermediate < 128 || s.intermediate > kMaxIntermediate || s.intermediate % 128 != 0)
    return {"shape.intermediate", s.intermediate, "a multiple of 128 from 128 to 32768"};
  if (s.max_tokens_per_rank < 1 || s.max_tokens_per_rank > kMaxTokensPerRank)
    return {"shape.max_tokens_per_rank", s.max_tokens_per_rank, "1 to 1048576"};
  return {};
}

}  // namespace moetwin
