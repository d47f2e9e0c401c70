#include "fuzz/kept_weights.h"

#include <list>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

#include "common/check.h"
#include "model/data.h"

namespace moetwin {
namespace {

/// Everything that an expert's bits follow from.
using ExpertKey = std::tuple<DataKind, uint64_t, bool, uint32_t, uint32_t, uint32_t>;

uint64_t size_of(const ExpertWeights& w) {
  return w.w1_codes.size() + w.w2_codes.size() +
         sizeof(float) * (w.w1_scales.size() + w.w2_scales.size());
}

}  // namespace

class KeptWeights::Store {
 public:
  using Pointer = std::shared_ptr<const ExpertWeights>;

  explicit Store(uint64_t most) : most_(most) {}

  Pointer find(const ExpertKey& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().second;
  }

  void keep(const ExpertKey& key, const Pointer& weights) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (places_.count(key) != 0) return;
    entries_.emplace_front(key, weights);
    places_[key] = entries_.begin();
    bytes_ += size_of(*weights);
    while (bytes_ > most_ && !entries_.empty()) {
      bytes_ -= size_of(*entries_.back().second);
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
  }

  uint64_t bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }

 private:
  using Entries = std::list<std::pair<ExpertKey, Pointer>>;

  std::mutex mutex_;
  uint64_t most_;
  uint64_t bytes_ = 0;
  Entries entries_;  ///< last used first
  std::map<ExpertKey, Entries::iterator> places_;
};

/// One run's weights: kept ones where there are any.
class KeptWeights::Source : public WeightSource {
 public:
  Source(std::shared_ptr<Store> store, const DataSpec& spec, const Shape& shape)
      : store_(std::move(store)), spec_(spec), shape_(shape), made_(make_weights(spec, shape)) {}

  std::shared_ptr<const ExpertWeights> expert(uint32_t expert) const override {
    MOETWIN_CHECK(expert < shape_.experts);
    const ExpertKey key(spec_.kind, spec_.seed, spec_.nan, shape_.hidden, shape_.intermediate,
                        expert);
    if (Store::Pointer kept = store_->find(key)) return kept;
    const Store::Pointer made = made_->expert(expert);
    store_->keep(key, made);
    return made;
  }

 private:
  std::shared_ptr<Store> store_;
  DataSpec spec_;
  Shape shape_;
  std::shared_ptr<const WeightSource> made_;
};

KeptWeights::KeptWeights(uint64_t bytes) : store_(std::make_shared<Store>(bytes)) {}

WeightMaker KeptWeights::maker() const {
  return [store = store_](const DataSpec& spec,
                          const Shape& shape) -> std::shared_ptr<const WeightSource> {
    if (spec.kind == DataKind::File) return make_weights(spec, shape);
    return std::make_shared<Source>(store, spec, shape);
  };
}

uint64_t KeptWeights::bytes() const { return store_->bytes(); }

}  // namespace moetwin
