// Recorded routing: top-k choices from .csv, .jsonl, .npy and .safetensors files and expert loads
// from a counts CSV, read from bytes or by path. It checks every id against the shape; which rows
// go to which token is decided in routing.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/safetensors.h"

namespace moetwin {

/// What a trace must fit.
struct TraceLimits {
  uint32_t experts = 1;  ///< ids are -1 to experts - 1
  uint32_t topk = 1;     ///< ids a row
  uint32_t layer = 0;    ///< .jsonl: the layer whose lines are taken
};

/// Longest line of a .jsonl trace, in bytes.
constexpr uint64_t kMaxTraceLine = uint64_t{1} << 20;

struct Trace {
  uint64_t rows = 0;
  std::vector<int32_t> topk_idx;    ///< [rows, K]
  std::vector<float> topk_weights;  ///< [rows, K], or empty where the file brings none
};

/// Each of these throws InputError, one line with `name` for the file, the row or line (the first
/// one after a header is 1), the column, the value and the limit.
///
/// CSV (RFC 4180): a header with e0..e(K-1), in any order, and either all or none of w0..w(K-1);
/// other columns are ignored, an e or w column beyond K is refused.
Trace parse_trace_csv(std::string_view bytes, const std::string& name, const TraceLimits& limits);
/// One JSON object a line, none over kMaxTraceLine; those of type "route" and the wanted layer are
/// taken, in order of the file (token_idx starts anew with each request and orders nothing).
Trace parse_trace_jsonl(std::string_view bytes, const std::string& name, const TraceLimits& limits);
/// Integers [N, K].
Trace parse_trace_npy(std::span<const uint8_t> bytes, const std::string& name,
                      const TraceLimits& limits);
/// topk.idx [N, K] I64 or I32 and optionally topk.weights [N, K] F32.
Trace parse_trace_safetensors(std::span<const uint8_t> bytes, const std::string& name,
                              const TraceLimits& limits);

/// The ids of a tensor of I64 or I32, row-major. `place` names it in the InputError for one that is
/// not -1 to experts - 1.
std::vector<int32_t> expert_ids(const TensorView& tensor, const std::string& place,
                                uint32_t experts);

/// Reads a file as its extension says.
Trace read_trace(const std::string& path, const TraceLimits& limits);

/// Which rows of a counts CSV are meant.
struct CountsSelection {
  std::string model;
  std::string domain;
  uint32_t layer = 0;
};

constexpr uint64_t kMaxExpertCount = uint64_t{1} << 40;

/// Tokens per expert, [experts]: columns model, domain, layer, expert and count, others ignored.
/// Every expert must be given once and at least one count must not be 0.
std::vector<uint64_t> parse_expert_counts(std::string_view bytes, const std::string& name,
                                          const CountsSelection& selection, uint32_t experts);
std::vector<uint64_t> read_expert_counts(const std::string& path, const CountsSelection& selection,
                                         uint32_t experts);

}  // namespace moetwin
