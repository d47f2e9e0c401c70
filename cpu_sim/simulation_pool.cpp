#include "cpu_sim/simulation_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace moetwin {
namespace {

constexpr uint64_t kLeastBytes = uint64_t{1} << 16;
/// Larger ones are rare, and may be mostly address space.
constexpr uint64_t kMostBytes = uint64_t{32} << 20;
constexpr uint64_t kMostFreeBytes = uint64_t{256} << 20;

}  // namespace

PagePool::Mapping PagePool::map(uint64_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return {};
  return {static_cast<uint8_t*>(base), bytes, false};
}

void PagePool::unmap(const Mapping& mapping) {
  if (mapping.base != nullptr) munmap(mapping.base, mapping.bytes);
}

PagePool::~PagePool() {
  for (const auto& [bytes, bases] : free_)
    for (uint8_t* base : bases) unmap({base, bytes, true});
}

PagePool::Mapping PagePool::take(uint64_t bytes) {
  if (bytes > kMostBytes) return map(bytes);
  const uint64_t size = std::bit_ceil(std::max(bytes, kLeastBytes));
  std::vector<uint8_t*>& bases = free_[size];
  if (bases.empty()) return map(size);
  uint8_t* base = bases.back();
  bases.pop_back();
  free_bytes_ -= size;
  return {base, size, true};
}

void PagePool::give(const Mapping& mapping) {
  if (mapping.base == nullptr) return;
  if (mapping.bytes > kMostBytes || free_bytes_ + mapping.bytes > kMostFreeBytes)
    return unmap(mapping);
  free_[mapping.bytes].push_back(mapping.base);
  free_bytes_ += mapping.bytes;
}

std::unique_ptr<FiberPool> SimulationPool::take_fibers(size_t max_fibers, size_t stack_bytes) {
  if (fibers_ != nullptr && fibers_->capacity() >= max_fibers &&
      fibers_->stack_bytes() >= stack_bytes)
    return std::move(fibers_);
  return std::make_unique<FiberPool>(max_fibers, stack_bytes);
}

void SimulationPool::give_fibers(std::unique_ptr<FiberPool> fibers) {
  if (fibers->broken() || (fibers_ != nullptr && fibers_->capacity() >= fibers->capacity())) return;
  fibers->reset();
  fibers_ = std::move(fibers);
}

}  // namespace moetwin
