// Generated weights kept from case to case, the least used dropped first: making them costs more
// than the case that needs them. make_weights() makes them, so their bits are its bits.
#pragma once

#include <cstdint>
#include <memory>

#include "model/problem.h"

namespace moetwin {

/// Thread safe.
class KeptWeights {
 public:
  /// Keeps up to `bytes` of codes and scales, and what runs still hold.
  explicit KeptWeights(uint64_t bytes);

  /// What RunOptions::weights and WeightCache take. It may outlive this object.
  WeightMaker maker() const;

  /// Bytes kept now.
  uint64_t bytes() const;

 private:
  class Store;
  class Source;
  std::shared_ptr<Store> store_;
};

}  // namespace moetwin
