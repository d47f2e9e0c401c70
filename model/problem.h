// A problem: everything one launch of the layer computes from, in memory, and the result that any
// backend gives back. It knows neither case files nor the kernel's protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "common/shape.h"

namespace moetwin {

/// One expert's quantised weights (NUMERICS S1). W1 rows: `intermediate` gate rows, then
/// `intermediate` up rows. Scales are one a 128 x 128 block.
struct ExpertWeights {
  std::vector<uint8_t> w1_codes;  ///< [2I, H] E4M3
  std::vector<float> w1_scales;   ///< [2I/128, H/128]
  std::vector<uint8_t> w2_codes;  ///< [H, I] E4M3
  std::vector<float> w2_scales;   ///< [H/128, I/128]
};

/// Gives an expert's weights on demand, so that memory follows what is touched.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Global expert id. The same id always gives the same bits. Thread safe. The caller keeps the
  /// expert alive by holding the pointer; a source may make it anew after the last one is dropped.
  virtual std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const = 0;
};

struct DataSpec;
/// Makes the weights of a spec where a run wants them from elsewhere than make_weights(), with the
/// same bits. Thread safe.
using WeightMaker =
    std::function<std::shared_ptr<const WeightSource>(const DataSpec& spec, const Shape& shape)>;

/// What one rank brings to a launch.
struct RankInput {
  uint32_t num_tokens = 0;
  std::vector<uint8_t> x_codes;     ///< [tokens, H] E4M3
  std::vector<float> x_scales;      ///< [tokens, H/128]
  std::vector<int32_t> topk_idx;    ///< [tokens, K]; -1 is masked, else a global expert id < E
  std::vector<float> topk_weights;  ///< [tokens, K]; ignored where masked
};

/// One launch of the layer on all ranks.
struct Problem {
  Shape shape;
  float clamp = std::numeric_limits<float>::infinity();  ///< activation limit, infinity: none
  std::vector<RankInput> ranks;                          ///< [R]
  std::shared_ptr<const WeightSource> weights;
};

/// One routed (source rank, token, k): the key of every row stage.
struct RoutedRow {
  uint32_t rank = 0;
  uint32_t token = 0;
  uint32_t k = 0;
  uint32_t expert = 0;  ///< global id
  float weight = 0;
};

/// What one launch moved and held for communication, summed over all ranks. Bytes are payload that
/// crossed from one rank to another; what a rank hands to itself is not counted.
struct Traffic {
  uint64_t index_bytes = 0;     ///< counts, slot indices and routing weights
  uint64_t dispatch_bytes = 0;  ///< activation codes and scales
  uint64_t combine_bytes = 0;   ///< BF16 expert rows on their way back
  uint64_t buffer_bytes = 0;    ///< memory reserved for sending and receiving, own share included
  uint64_t barriers = 0;        ///< times that all ranks had to meet

  friend constexpr bool operator==(const Traffic&, const Traffic&) = default;
};

/// What a launch gives back, every stage in canonical order whatever backend made it. Rows are the
/// routed (rank, token, k) in ascending order, N of them.
struct LayerResult {
  Shape shape;
  std::vector<uint32_t> tokens;              ///< [R] real tokens a rank
  std::vector<uint16_t> y;                   ///< [sum of tokens, H] BF16
  std::vector<std::vector<uint32_t>> slots;  ///< [R * E_local * R]: sorted token*K+k of each
                                             ///< (rank, local expert, source rank)
  std::vector<RoutedRow> rows;               ///< [N]
  std::vector<uint8_t> l1_codes;             ///< [N, I] E4M3
  std::vector<float> l1_scales;              ///< [N, I/64]
  std::vector<uint16_t> l2;                  ///< [N, H] BF16
  Traffic traffic;                           ///< no part of digests or comparisons
};

}  // namespace moetwin
