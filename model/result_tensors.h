// Results as named tensors: what `--dump` writes, and its way back. A dump holds y, every stage and
// the inputs under the names a data file has, so that it is a valid data file. The file format is
// safetensors.h's business.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/data.h"
#include "model/problem.h"

namespace moetwin {

/// Writes what the result has of y [tokens, H] BF16, rows [N, 4] I32 (rank, token, k, expert),
/// l1.codes [N, I] F8_E4M3, l1.scales [N, I/64] F32 and l2 [N, H] BF16, and the inputs: x.codes,
/// x.scales, topk.idx (I32), topk.weights, and w1 and w2 codes and scales of all experts. Weights
/// pass through one expert at a time. `unquantised` adds x [tokens, H], w1 [E, 2I, H] and
/// w2 [E, H, I] in F32. Throws InputError if the file cannot be written.
void write_dump(const std::string& path, const Problem& problem, const LayerResult& result,
                const UnquantisedSpecs* unquantised = nullptr);

/// Reads the result of a dump, or of any file with at least one of its result tensors, so that y
/// computed elsewhere can be compared; what the file lacks is left empty. Slots follow from rows,
/// routing weights from topk.weights (1 where the file has none). Throws InputError naming the
/// tensor where type, shape or rows do not fit `shape` and `tokens`.
LayerResult read_dump(const std::string& path, const Shape& shape,
                      const std::vector<uint32_t>& tokens);

}  // namespace moetwin
