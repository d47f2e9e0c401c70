// The bench's work on a block of one expert's rows: every distinct network and reference of a plan,
// and the errors of their stages. One call is one task of a thread; it shares nothing that it
// writes but the rows it is given.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/data.h"
#include "model/error_sums.h"
#include "model/expert_tasks.h"
#include "model/numerics/bench.h"
#include "model/numerics/bench_plan.h"
#include "model/numerics/quantisation.h"
#include "model/problem.h"

namespace moetwin::numerics {

/// Activations of all tokens as every task reads them.
struct BenchTokens {
  std::vector<float> unquantised;  ///< [tokens, H]
  std::vector<CodedRows> coded;    ///< [plan.x]
};

struct FfnErrors {
  ErrorSums linear1;
  ErrorSums activated;
  ErrorSums l1;
  ErrorSums l2;
  CodeCounts l1_counts;
  std::array<uint64_t, 256> l1_codes{};
};

struct WeightErrors {
  ErrorSums w1;
  ErrorSums w2;
  CodeCounts counts;
};

/// What one task gives; outputs are [rows, H] with the routing weights in.
struct ExpertBenchResult {
  std::vector<FfnErrors> ffns;
  std::vector<WeightErrors> weights;
  std::vector<std::vector<double>> out;              ///< [plan.inputs]
  std::vector<std::vector<double>> out_requantised;  ///< [plan.requantised]
  std::vector<double> out_total;                     ///< empty without unquantised tensors
};

struct ExpertBench {
  const Problem& problem;
  const BenchPlan& plan;
  const BenchTokens& tokens;
  const std::optional<UnquantisedSpecs>& unquantised;
  /// [plan.ffns]: [routed rows, H], where a task leaves its rows.
  std::vector<std::vector<uint16_t>>& l2;

  /// `first` says whether this is the expert's first task, which alone counts its weights.
  ExpertBenchResult run(uint32_t expert, const std::vector<ExpertRow>& rows, bool first) const;
};

}  // namespace moetwin::numerics
