// The first witness: the layer as the textbook writes it, with an explicit all-to-all and plain
// loops. It shares number formats, shapes, epilogue arithmetic and the tensor-core tile form with
// the kernel and none of its protocol: no slot table, no ring, no scheduler, no barrier.
#pragma once

#include <cstdint>

#include "model/problem.h"

namespace moetwin {

struct NaiveOptions {
  uint32_t threads = 0;  ///< OpenMP threads; 0: as many as OpenMP gives. Never changes a bit.
};

/// Runs one launch and returns every stage and the traffic of the textbook algorithm.
/// Memory: each token once a routed row, the result, and the weights of the experts at work (taken
/// at an expert's first row, dropped after its last).
/// Throws InputError for a topk_idx outside -1..E-1, and whatever the weight source throws.
LayerResult run_naive(const Problem& problem, const NaiveOptions& options = {});

}  // namespace moetwin
