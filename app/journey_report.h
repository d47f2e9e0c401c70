// Journeys of routed slots (cpu_sim/journey.h) in the protocol's words, for a screen and as JSON,
// and the values a slot had at each stage.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cpu_sim/journey.h"
#include "model/problem.h"

namespace moetwin {

/// What the numbers beside a journey's steps are.
enum class JourneyClock : uint8_t { Events, Nanoseconds };

/// A slot's values at every stage, decoded: code times scale, BF16 as it is.
struct SlotValues {
  std::vector<float> x;   ///< [H] as it left its rank
  std::vector<float> l1;  ///< [I] what Linear2 multiplies
  std::vector<float> l2;  ///< [H] the row that came back
  std::vector<float> y;   ///< [H] the token's result, all slots summed
};

/// `result` must hold the slot's row and kept Linear1.
SlotValues values_of(const SlotJourney& journey, const Problem& problem, const LayerResult& result);

/// One paragraph; a step that the run did not come to is named as such, and nothing behind it.
/// `values` may be null.
std::string journey_text(const SlotJourney& journey, const Shape& shape, JourneyClock clock,
                         const SlotValues* values);

/// One line a slot under a heading, for many.
std::string journey_table(const std::vector<SlotJourney>& journeys, JourneyClock clock);

/// {rank, token, k, expert, expert_rank, weight, slot, row, block, ring_slot, lap, x_full, steps,
/// linear1, linear2, values}; what is not known, and values where not asked for, are null.
nlohmann::ordered_json journey_json(const SlotJourney& journey, const Shape& shape,
                                    JourneyClock clock, const SlotValues* values);

}  // namespace moetwin
