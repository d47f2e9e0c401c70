// Runs many independent cases and keeps their digests: on the CPU several at a time, on a card one
// after the other. The order of the results is that of the cases.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/backends.h"
#include "app/card_ranks.h"
#include "model/case.h"
#include "model/digest.h"

namespace moetwin {

struct NamedCase {
  std::string name;  ///< what messages about it begin with
  Case c;
};

struct GoldenRun {
  StageDigests digests;  ///< of the last launch
  std::string finding;   ///< the first that makes the run fail, in one line; empty: none
};

struct GoldenRunOptions {
  const Backend* backend = nullptr;
  CardRanks cards;
  uint32_t threads = 0;  ///< 0: all cores
  uint64_t memory_limit = UINT64_MAX;
  std::string what;  ///< for the progress line
};

/// Checks all cases before the first is run. Throws InputError that begins with the case's name.
std::vector<GoldenRun> run_golden_cases(const std::vector<NamedCase>& cases,
                                        const GoldenRunOptions& options);

}  // namespace moetwin
