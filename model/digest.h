// The stages of a result by name, which of them a backend gave, and their digests (XXH3 128-bit
// over canonical little-endian bytes). Schedule and state digests belong to the simulator.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "model/problem.h"

namespace moetwin {

/// The stages of a launch in protocol order.
enum class Stage : uint8_t { Slots, Metadata, L1, L1Scales, L2, Y };

constexpr std::array<Stage, 6> kStages = {Stage::Slots,    Stage::Metadata, Stage::L1,
                                          Stage::L1Scales, Stage::L2,       Stage::Y};

/// The name a stage has in JSON: slots, metadata, l1, l1_scales, l2, y.
const char* stage_name(Stage stage);

/// Whether the backend gave this stage. An empty array counts as given only where there is nothing
/// to give (no tokens, no routed rows).
bool has_stage(const LayerResult& result, Stage stage);

/// 32 lower-case hex digits each, high half first; empty for a stage that was not given.
struct StageDigests {
  std::string y;
  std::string slots;
  std::string metadata;
  std::string l1;
  std::string l1_scales;
  std::string l2;

  const std::string& of(Stage stage) const;
  std::string& of(Stage stage);

  friend bool operator==(const StageDigests&, const StageDigests&) = default;
};

/// Digests of every stage that the result has. The result must be complete in itself: array sizes
/// that follow from shape, tokens and rows, rows in ascending (rank, token, k).
StageDigests digest_stages(const LayerResult& result);

}  // namespace moetwin
