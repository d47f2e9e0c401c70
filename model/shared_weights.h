// A weight source that remembers experts while someone holds them. How an expert's weights are made
// is left to what derives from it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "common/check.h"
#include "model/problem.h"

namespace moetwin {

/// Remembers experts while someone holds them.
class SharedWeights : public WeightSource {
 public:
  explicit SharedWeights(uint32_t experts) : entries_(experts) {}

  std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const override {
    MOETWIN_CHECK(expert < entries_.size());
    Entry& entry = entries_[expert];
    // One lock an expert: whoever asks while it is being made waits, others do not.
    const std::lock_guard<std::mutex> lock(entry.mutex);
    std::shared_ptr<const ExpertWeights> weights = entry.weights.lock();
    if (weights == nullptr) {
      weights = make(expert);
      entry.weights = weights;
    }
    return weights;
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::weak_ptr<const ExpertWeights> weights;
  };

  virtual std::shared_ptr<const ExpertWeights> make(uint32_t expert) const = 0;

  mutable std::vector<Entry> entries_;
};

}  // namespace moetwin
