// What cases cover of the ways a fused MoE layer can go wrong: features counted by name, and the
// list of those that a large set of generated cases must have. It runs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/problem.h"

namespace moetwin {

/// How often each feature was met.
using Coverage = std::map<std::string, uint64_t>;

/// Counts the features of one launch of a case, with the first launch those of the case itself.
/// `problem` is that launch's.
void cover_launch(const Case& c, size_t launch, const Problem& problem, Coverage& seen);

/// Every feature that the generator must bring.
std::vector<std::string> wanted_features();

}  // namespace moetwin
