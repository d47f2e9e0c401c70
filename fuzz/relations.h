// Relations that y obeys whatever the reference: changes of a case that must leave y alone, or that
// must move it in a known way. A broken one is a finding without any second machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/case.h"
#include "model/run.h"

namespace moetwin {

struct KernelArgs;

enum class Relation : uint8_t {
  Schedule,     ///< another schedule
  Landing,      ///< asynchronous work lands at other times
  SmCount,      ///< another number of SMs a rank
  BlockM,       ///< the other tile height
  Stages,       ///< another number of stages
  RingSize,     ///< a larger ring
  Scheduler,    ///< wave in place of ring, or the reverse
  Capacity,     ///< a larger capacity
  Poison,       ///< other poison, and padding computed or skipped
  LaunchAlone,  ///< the last launch by itself
  TokenOrder,   ///< the tokens of each rank in another order: y in that order
  Count,
};

constexpr uint32_t kNumRelations = static_cast<uint32_t>(Relation::Count);
const char* relation_name(Relation relation);

/// The changed case; nothing where the relation says nothing about this one.
struct RelatedCase {
  Case c;
  size_t first_launch = 0;  ///< launch i of `c` is launch first_launch + i of the original
  /// TokenOrder: what changes the inputs; else empty.
  std::function<void(Problem& problem, KernelArgs& args)> alter;
  uint64_t seed = 0;
  Relation relation = Relation::Count;
};
std::optional<RelatedCase> related_case(Relation relation, const Case& c, uint64_t seed);

/// Where the results break the relation, in one line; empty: nowhere. Both are complete.
std::string broken_relation(const RelatedCase& related, const std::vector<LayerResult>& original,
                            const std::vector<LayerResult>& changed);

}  // namespace moetwin
