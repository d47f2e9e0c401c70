// What one simulated run leaves for the next of the same thread: mappings with their pages, and
// stacks. Nothing of their content is trusted. It saves the kernel's work where runs are short.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cpu_sim/fiber.h"

namespace moetwin {

/// Anonymous memory, handed out and taken back. Not thread safe.
class PagePool {
 public:
  PagePool() = default;
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  struct Mapping {
    uint8_t* base = nullptr;  ///< null: the address space does not hold it
    uint64_t bytes = 0;
    bool used = false;  ///< may hold what an earlier user wrote; else zeros
  };

  /// At least `bytes`.
  Mapping take(uint64_t bytes);
  void give(const Mapping& mapping);

  /// A mapping of one's own, without a pool.
  static Mapping map(uint64_t bytes);
  static void unmap(const Mapping& mapping);

 private:
  std::map<uint64_t, std::vector<uint8_t*>> free_;  ///< by size
  uint64_t free_bytes_ = 0;
};

/// For runs of one thread, one after the other. It must outlive each of them.
class SimulationPool {
 public:
  PagePool& pages() { return pages_; }

  /// Room for `max_fibers` stacks of `stack_bytes`, empty.
  std::unique_ptr<FiberPool> take_fibers(size_t max_fibers, size_t stack_bytes);
  void give_fibers(std::unique_ptr<FiberPool> fibers);

 private:
  PagePool pages_;
  std::unique_ptr<FiberPool> fibers_;
};

}  // namespace moetwin
