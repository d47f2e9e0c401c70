// A run's results against both references: the naive path, which must give equal bits at every
// stage, and the double-precision layer, which says how large the contract's error is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/float64_reference.h"
#include "model/run.h"

namespace moetwin {

struct References {
  bool compared = false;          ///< with the naive path: not where that is what ran
  bool equal = true;              ///< every stage of every launch, bit for bit
  std::string difference;         ///< where not: the whole comparison of the first such launch
  std::vector<Finding> findings;  ///< of class mismatch, one a launch that differs
  ErrorMetrics error;             ///< of the last launch, against double from the same codes
  std::optional<double> relative_rms_total;  ///< against double from the unquantised tensors
};

/// Runs the references of every launch. `name` is the backend that gave `launches`, one a launch.
References run_references(const Case& c, const std::vector<LayerResult>& launches,
                          const std::string& name, uint32_t threads);

}  // namespace moetwin
