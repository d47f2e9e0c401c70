// Routing of a launch: which experts each token goes to and with which weights, generated or read.
// Part of case format 1: every value depends on (seed, rank, token, k) alone, except where a kind
// counts tokens over all ranks. How each generated kind draws is in routing_kinds.h, how recorded
// routing is read in trace_files.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/shape.h"
#include "model/problem.h"
#include "model/routing_spec.h"

namespace moetwin {

/// Fills num_tokens, topk_idx [tokens, K] and topk_weights [tokens, K] of each rank and leaves the
/// rest of `ranks` as it is, after making it one entry a rank. `tokens` has one count a rank, at
/// most max_tokens_per_rank. Kinds trace, counts and file read `spec.path` (for file: the data
/// file).
/// Throws InputError, one line, for a value of `spec` outside its limits, lengths that do not fit
/// the shape and files that do not fit the case.
void make_routing(const RoutingSpec& spec, const Shape& shape, std::span<const uint32_t> tokens,
                  std::vector<RankInput>& ranks);

}  // namespace moetwin
