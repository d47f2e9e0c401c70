// Stackful fibers for the simulated warps: one arena of stacks, resume and yield, unwinding. The
// only file that knows Boost.Context and the sanitizers' fiber interfaces. It decides no order: who
// runs next is the scheduler's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "cpu_sim/prefetch.h"

namespace moetwin {

using FiberId = uint32_t;

/// Fibers of one run, resumed from one control thread. Stacks are address space until touched:
/// a fiber that stays shallow costs one or two pages. Not thread-safe; a pool may move between
/// threads only while no fiber is suspended.
///
/// A body may throw: resume() rethrows it. A body must not yield inside a catch block or from a
/// destructor, and a suspended body is unwound by an exception that is no std::exception, so it
/// must let unknown exceptions pass.
class FiberPool {
 public:
  using Body = void (*)(void* argument);

  /// Reserves `max_fibers` stacks of `stack_bytes` (rounded up to whole pages, at least 16 KiB;
  /// four times as much under the address sanitizer). Throws InputError when the address space
  /// does not hold them.
  FiberPool(size_t max_fibers, size_t stack_bytes);
  /// Unwinds what is suspended.
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  /// A new fiber, not yet started; ids count from 0. `argument` must outlive the fiber. Touches no
  /// stack and allocates nothing once the pool has been used at this size.
  FiberId spawn(Body body, void* argument);

  /// As above for any callable object that outlives the fiber.
  template <typename Callable>
  FiberId spawn(Callable* callable) {
    return spawn([](void* argument) { (*static_cast<Callable*>(argument))(); }, callable);
  }

  /// Runs a fiber until it yields or ends; rethrows what its body threw. Called from the control
  /// thread, never from a fiber. Throws InternalError when the fiber ran over its stack, at its end
  /// or 16 resumes later at the latest: the pool is then broken() and only reset() or destruction
  /// are left (no destructors run on the stacks).
  void resume(FiberId id);

  /// Hints that a fiber will be resumed soon.
  void prefetch(FiberId id) const {
    constexpr size_t kFrames = 768;
    prefetch_bytes(records_[id].context, kFrames);
  }

  /// Called on a fiber: back to its resumer, returns at the next resume.
  void yield();

  bool finished(FiberId id) const { return records_[id].state == State::Finished; }
  bool started(FiberId id) const { return records_[id].state != State::Fresh; }
  bool on_fiber() const { return current_ != kNone; }
  /// The running fiber; only where on_fiber().
  FiberId current() const { return current_; }
  bool broken() const { return broken_; }

  size_t size() const { return records_.size(); }
  size_t capacity() const { return max_fibers_; }
  size_t stack_bytes() const { return stack_bytes_; }

  /// Ends all suspended fibers in ascending order, running the destructors on their stacks;
  /// never-started ones are dropped. What those destructors throw is lost.
  void unwind_all();

  /// unwind_all(), then the pool is empty and its stacks serve the next run.
  void reset();

 private:
  enum class State : uint8_t { Fresh, Suspended, Running, Finished };

  struct Record {
    void* context = nullptr;
    Body body = nullptr;
    void* argument = nullptr;
    State state = State::Fresh;
    uint8_t resumes = 0;  ///< modulo 256
  };

  /// What the sanitizers know of one stack; unused in other builds.
  struct SanitizerStack {
    void* fake_stack = nullptr;
    void* thread_fiber = nullptr;
  };

  struct Entry;  // the first frame of each stack

  static constexpr FiberId kNone = UINT32_MAX;

  std::byte* stack_low(FiberId id) const { return stacks_ + id * stack_bytes_; }
  void start(FiberId id);
  void run_body();
  void leave_for_good();
  inline void switch_in(FiberId id);
  void forget(FiberId id);

  size_t max_fibers_;
  size_t stack_bytes_;
  std::byte* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  std::byte* stacks_ = nullptr;  ///< low end of the first stack
  std::vector<Record> records_;
  FiberId current_ = kNone;
  void* resumer_ = nullptr;  ///< context of the control thread while a fiber runs
  std::exception_ptr failure_;
  bool unwinding_ = false;
  bool broken_ = false;

  std::vector<SanitizerStack> sanitizer_stacks_;
  SanitizerStack control_;
  [[maybe_unused]] const void* control_low_ = nullptr;
  [[maybe_unused]] size_t control_bytes_ = 0;
};

}  // namespace moetwin
