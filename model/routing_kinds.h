// The generated kinds of routing: how each draws the experts of one token. A token's experts are a
// pure function of the specification and of (rank, token), or of the token's number over all ranks
// where a kind counts them, so tokens can be drawn in any order and by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/shape.h"
#include "model/routing_spec.h"

namespace moetwin {

/// A token's coordinates.
struct TokenPlace {
  uint32_t rank = 0;
  uint32_t token = 0;
  uint64_t global = 0;  ///< counted over all ranks in order
};

class ExpertDraw {
 public:
  virtual ~ExpertDraw() = default;
  /// Fills the K slots of one token with ids 0 to E-1. Thread safe.
  virtual void draw(const TokenPlace& place, std::span<int32_t> slots) const = 0;
};

/// Whether a kind is drawn (and not given explicitly or read row by row from a file).
bool is_drawn(RoutingKind kind);

/// The draw of a drawn kind. Kind counts reads spec.path. Throws InputError for a field of `spec`
/// outside its limits.
std::unique_ptr<const ExpertDraw> make_expert_draw(const RoutingSpec& spec, const Shape& shape);

/// The draw of kind counts with the counts given, one an expert and not all 0; of `spec` seed and
/// duplicates are used.
std::unique_ptr<const ExpertDraw> make_counts_draw(const RoutingSpec& spec, const Shape& shape,
                                                   std::vector<uint64_t> counts);

}  // namespace moetwin
