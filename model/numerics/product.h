// Rows times one block of 128 weight rows, summed as a variant's SumRule says: the one place where
// accumulators differ. With the contract's rules it is S2 and S9 of NUMERICS.
#pragma once

#include <cstdint>
#include <vector>

#include "model/numerics/quantisation.h"
#include "model/numerics/variant.h"

namespace moetwin::numerics {

/// Output columns of one call.
constexpr uint32_t kProductColumns = kScaleBlock;

class Product {
 public:
  /// For `rows` rows of `depth` channels and promotion every `span` channels (or kWhole). A span
  /// lies inside one scale group of both operands.
  Product(const SumRule& rule, uint32_t span, uint64_t rows, uint64_t depth);

  /// final [rows, 128] for weight rows 128 * block on.
  void multiply(const CodedRows& a, const CodedMatrix& w, uint64_t block,
                std::vector<float>& final);

 private:
  struct Span {
    uint64_t begin;
    uint64_t end;
  };

  void promote_spans(const CodedRows& a, const CodedMatrix& w, uint64_t block, float* final);
  void reuse(const CodedRows& a, const CodedMatrix& w, uint64_t block, float* final);
  void accumulate(const Span& span, const CodedRows& a, const CodedMatrix& w, uint64_t block);
  void accumulate_exactly(const Span& span, const CodedRows& a, const CodedMatrix& w,
                          uint64_t block);
  void accumulate_in_fp16(const Span& span, const CodedRows& a, const uint8_t* weights);
  float round_sum(float sum) const;

  SumRule rule_;
  uint64_t span_;
  uint64_t rows_;
  uint64_t depth_;
  std::vector<float> accumulator_;  ///< [rows, 128]
};

}  // namespace moetwin::numerics
