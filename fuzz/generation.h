// What one process brings home from its share of a generation, and its form on the way to the
// others. Merging is the campaign's business.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/campaign.h"
#include "fuzz/signals.h"

namespace moetwin {

/// A case with signals that were new when its generation began.
struct Reached {
  uint64_t index = 0;
  Signals signals;
  std::vector<uint64_t> draws;
};

struct GenerationYield {
  uint64_t rows = 0;
  uint64_t checked = 0;
  uint64_t related = 0;
  bool stop = false;  ///< this process's time is over
  std::vector<Reached> reached;
  std::vector<CampaignFinding> findings;

  /// Takes in another's, all but `stop`.
  void add(GenerationYield other);
  /// Ascending by case.
  void sort();
};

std::string yield_to_text(const GenerationYield& yield);
/// Throws InputError for a text that yield_to_text did not make.
GenerationYield yield_from_text(const std::string& text);

}  // namespace moetwin
