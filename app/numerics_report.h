// Runs of the numerics bench as a screen and as JSON (DESIGN section 7).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/numerics_runs.h"
#include "model/numerics/explain_y.h"

namespace moetwin {

/// A y from elsewhere beside every variant, the nearest first.
struct NumericsY {
  std::string path;
  std::vector<numerics::YComparison> comparisons;

  bool explained() const { return comparisons.front().differing == 0; }
};

/// One screen: a line a variant, and where few variants were asked for each one's stages, tokens
/// and experts.
std::string numerics_screen(const NumericsRuns& runs, const std::vector<NumericsY>& ys);

/// The object of `numerics --json`. A number over no finite element is null.
nlohmann::ordered_json numerics_json(const NumericsRuns& runs, const std::vector<NumericsY>& ys);

}  // namespace moetwin
