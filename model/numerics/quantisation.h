// Tensors to codes and scales under the rules of a variant, outside the kernel (x, weights) and
// inside it (Linear1's output). With the contract's rules the bits are those of model/quantise.h
// and common/epilogue_math.h. It also counts what a rule lost.
#pragma once

#include <cstdint>
#include <vector>

#include "model/numerics/variant.h"
#include "model/problem.h"

namespace moetwin::numerics {

/// What became of the values of a tensor.
struct CodeCounts {
  uint64_t values = 0;
  uint64_t saturated = 0;   ///< finite and beyond the largest code's value, so that it was cut
  uint64_t flushed = 0;     ///< not zero, and became the code of zero
  uint64_t non_finite = 0;  ///< became the code of NaN

  void add(const CodeCounts& other);
};

/// Rows of activations as codes and scales.
struct CodedRows {
  CodeFormat format = CodeFormat::E4m3;
  uint32_t group = kScaleBlock;
  std::vector<uint8_t> codes;  ///< [rows, depth]
  std::vector<float> scales;   ///< [rows, groups]
};

/// x [rows, depth] under `rule`.
CodedRows code_rows(const RowRule& rule, const float* x, uint64_t rows, uint64_t depth);

/// A weight matrix as codes and scales.
struct CodedMatrix {
  CodeFormat format = CodeFormat::E4m3;
  uint32_t columns = kScaleBlock;  ///< that share a scale
  std::vector<uint8_t> codes;      ///< [rows, depth]
  std::vector<float> scales;       ///< [rows / 128, groups]
};

struct CodedWeights {
  CodedMatrix w1;  ///< [2I, H]
  CodedMatrix w2;  ///< [H, I]
};

/// w [rows, depth] under `rule`, rows a multiple of 128.
CodedMatrix code_matrix(const WeightRule& rule, const float* w, uint64_t rows, uint64_t depth);

/// What became of the values that codes were made from; rows of `depth`.
CodeCounts count_codes(const CodedRows& coded, const float* x, uint64_t depth);
CodeCounts count_codes(const CodedMatrix& coded, const float* w, uint64_t depth);

/// The nearest MXFP4 values of `count` weights of one row: groups of 32 share the power of two
/// 2^(floor(log2(amax)) - 2), elements are E2M1 (OCP Microscaling Formats 1.0). An all-zero group
/// gives zeros; one with a value that is not finite is left as it is.
void round_through_mxfp4(const float* w, uint64_t count, float* out);

/// code * scale in double, for `depth` channels of one row whose scales lie at `scales`.
void decode_row(CodeFormat format, const uint8_t* codes, const float* scales, uint32_t group,
                uint64_t depth, double* out);

}  // namespace moetwin::numerics
