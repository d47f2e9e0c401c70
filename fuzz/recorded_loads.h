// How real models load their experts: a small part of the recorded counts in tests/data, carried in
// the program so that random cases need no file, and routing of any shape drawn by it. Which case
// gets which loads is the generator's business.
//
// Derived from `scripts/routing_output` of allenai/OLMoE (commit 357454f4, Apache-2.0), N.
// Muennighoff et al., "OLMoE: Open Mixture-of-Experts Language Models", 2024.
#pragma once

#include <cstdint>
#include <span>

#include "common/shape.h"
#include "model/routing_spec.h"

namespace moetwin {

/// One layer over one text domain: of kLoadUnit tokens, how many went to each expert; at least 1.
struct RecordedLoads {
  const char* model;
  const char* domain;
  uint32_t layer;
  std::span<const uint16_t> of_expert;
};
constexpr uint32_t kLoadUnit = 10'000;

std::span<const RecordedLoads> recorded_loads();

/// Routing written out (kind explicit) in which expert e of `shape` is taken as often, in
/// proportion, as recorded expert (first + e) modulo their number. Seed, weights, duplicates and
/// the share of masked slots are those of `like`; `tokens` has one count a rank.
RoutingSpec recorded_routing(const RecordedLoads& loads, uint32_t first, const RoutingSpec& like,
                             const Shape& shape, std::span<const uint32_t> tokens);

}  // namespace moetwin
