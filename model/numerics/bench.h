// The numerics bench: one problem through the layer under many variants, and the error of each
// against double, by stage, token and expert. Variants share what they have in common: inputs,
// references, whole expert networks. It decides nothing about how results are shown.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/data.h"
#include "model/error_sums.h"
#include "model/numerics/quantisation.h"
#include "model/numerics/variant.h"
#include "model/problem.h"

namespace moetwin::numerics {

/// Where an error is measured. The first three compare codes times scales with the tensors before
/// quantisation; the others with double from the variant's own codes and scales of x and weights,
/// so that l1 is what requantisation adds and l2 and y what is left at the end. Combine alone
/// compares y with the exact sum of the variant's own rows.
enum class BenchStage : uint8_t {
  X,
  W1,
  W2,
  Linear1,
  Activated,
  L1,
  L2,
  Combine,
  Y,
  Count,
};
constexpr size_t kBenchStages = static_cast<size_t>(BenchStage::Count);
const char* bench_stage_name(BenchStage stage);

struct ExpertError {
  uint32_t expert = 0;
  uint64_t rows = 0;
  double relative_rms = 0;  ///< of its l2 rows
};

struct VariantResult {
  const Variant* variant = nullptr;
  std::array<ErrorSums, kBenchStages> stages;
  ErrorSums requantised;                 ///< y, the reference repeating the requantisation
  std::optional<ErrorSums> total;        ///< y, against double from the unquantised tensors
  CodeCounts x;                          ///< of all tokens
  CodeCounts weights;                    ///< of the experts that have rows
  CodeCounts l1;                         ///< of all routed rows
  std::array<uint64_t, 256> l1_codes{};  ///< how often each code occurs
  std::vector<double> token_rms;         ///< relative RMS of y, [tokens]
  std::vector<ExpertError> experts;      ///< those with rows, ascending
  std::vector<uint16_t> y;               ///< [tokens, H] BF16

  const ErrorSums& stage(BenchStage s) const { return stages[static_cast<size_t>(s)]; }
};

struct BenchOptions {
  uint32_t threads = 0;            ///< 0: as many as OpenMP gives. Never changes a bit.
  std::function<void()> advanced;  ///< called after each of bench_tasks() pieces of work, if set
};

/// Runs every variant of `variants`. Without `unquantised` codes times scales stand for the values
/// before quantisation wherever a variant quantises otherwise than the contract, and errors
/// against unquantised tensors are left out.
std::vector<VariantResult> run_bench(const Problem& problem,
                                     const std::optional<UnquantisedSpecs>& unquantised,
                                     const std::vector<const Variant*>& variants,
                                     const BenchOptions& options = {});

uint64_t bench_tasks(const Problem& problem);

/// Bytes that run_bench() holds for `rows` routed rows of `tokens` tokens, by estimate.
uint64_t bench_bytes(const Shape& shape, uint64_t tokens, uint64_t rows,
                     const std::vector<const Variant*>& variants);

}  // namespace moetwin::numerics
