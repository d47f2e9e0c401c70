#include "cpu_sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <string>
#include <utility>

#include "common/check.h"

#if defined(__SANITIZE_ADDRESS__)
#define MOETWIN_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOETWIN_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define MOETWIN_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MOETWIN_THREAD_SANITIZER 1
#endif
#endif

#if defined(MOETWIN_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define MOETWIN_NO_ADDRESS_CHECK __attribute__((no_sanitize("address")))
#else
#define MOETWIN_NO_ADDRESS_CHECK
#endif
#if defined(MOETWIN_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace moetwin {

namespace {

namespace context = boost::context::detail;

/// Ends a suspended body. No std::exception, so that ordinary handlers let it pass.
struct Unwind {};

constexpr uint64_t kGuard = 0x5afe57ac5afe57acull;
constexpr size_t kGuardWords = 8;
/// Stacks lie back to back, and each boundary is this far below the end of a page: the guard words
/// of one stack share their page with the first frames of the stack below, and cost no page.
constexpr size_t kGuardBytes = kGuardWords * sizeof(uint64_t);
constexpr size_t kMinStackBytes = 16384;
#if defined(MOETWIN_ADDRESS_SANITIZER)
constexpr size_t kFrameGrowth = 4;
#else
constexpr size_t kFrameGrowth = 1;
#endif

/// Tops at one distance from a page would all fall into the same few sets of the first-level
/// cache; 32 different distances spread them.
constexpr size_t top_offset(FiberId id) { return (id % 32) * size_t{64}; }

constexpr uint8_t kResumesPerLook = 16;

/// Looks also where a body that ran over has left the address sanitizer's marks.
MOETWIN_NO_ADDRESS_CHECK bool guard_holds(const std::byte* low) {
  const auto* words = reinterpret_cast<const uint64_t*>(low);
  uint64_t difference = 0;
  for (size_t i = 0; i < kGuardWords; ++i) difference |= words[i] ^ kGuard;
  return difference == 0;
}

}  // namespace

/// Boost.Context's types stay out of the header.
struct FiberPool::Entry {
  static void enter(context::transfer_t from) {
    auto* pool = static_cast<FiberPool*>(from.data);
    pool->resumer_ = from.fctx;
#if defined(MOETWIN_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(nullptr, &pool->control_low_, &pool->control_bytes_);
#endif
    pool->run_body();
    pool->leave_for_good();
  }
};

FiberPool::FiberPool(size_t max_fibers, size_t stack_bytes) : max_fibers_(max_fibers) {
  MOETWIN_CHECK(max_fibers < kNone && stack_bytes <= size_t{1} << 30);
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  stack_bytes = (stack_bytes > kMinStackBytes ? stack_bytes : kMinStackBytes) * kFrameGrowth;
  stack_bytes_ = (stack_bytes + page - 1) / page * page;
  // One stack more lies unused at the low end: a first fiber that runs over stays in the arena.
  arena_bytes_ = (max_fibers + 1) * stack_bytes_ + page;
  void* memory = mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    throw InputError("fibers: " + std::to_string(max_fibers) + " stacks of " +
                     std::to_string(stack_bytes_) +
                     " bytes do not fit the address space; use fewer ranks or SMs");
  // A huge page under every first frame would make each fiber cost 2 MiB. Refusal is harmless.
  (void)madvise(memory, arena_bytes_, MADV_NOHUGEPAGE);
  arena_ = static_cast<std::byte*>(memory);
  stacks_ = arena_ + stack_bytes_ + page - kGuardBytes;
  records_.reserve(max_fibers);
}

FiberPool::~FiberPool() {
  reset();
  munmap(arena_, arena_bytes_);
}

FiberId FiberPool::spawn(Body body, void* argument) {
  MOETWIN_CHECK(records_.size() < max_fibers_);
  const auto id = static_cast<FiberId>(records_.size());
  Record& record = records_.emplace_back();
  record.body = body;
  record.argument = argument;
  record.resumes = 0;
#if defined(MOETWIN_ADDRESS_SANITIZER) || defined(MOETWIN_THREAD_SANITIZER)
  sanitizer_stacks_.resize(records_.size());
#endif
  return id;
}

void FiberPool::start(FiberId id) {
  std::byte* low = stack_low(id);
#if defined(MOETWIN_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(low, stack_bytes_);
  sanitizer_stacks_[id] = {};
#endif
#if defined(MOETWIN_THREAD_SANITIZER)
  sanitizer_stacks_[id].thread_fiber = __tsan_create_fiber(0);
#endif
  std::fill_n(reinterpret_cast<uint64_t*>(low), kGuardWords, kGuard);
  std::byte* top = low + stack_bytes_ - top_offset(id);
  records_[id].context = context::make_fcontext(top, static_cast<size_t>(top - low), Entry::enter);
}

void FiberPool::run_body() {
  const Record& record = records_[current_];
  try {
    record.body(record.argument);
  } catch (const Unwind&) {
  } catch (...) {
    if (!unwinding_) failure_ = std::current_exception();
  }
}

void FiberPool::leave_for_good() {
  records_[current_].state = State::Finished;
#if defined(MOETWIN_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(nullptr, control_low_, control_bytes_);
#endif
#if defined(MOETWIN_THREAD_SANITIZER)
  __tsan_switch_to_fiber(control_.thread_fiber, 0);
#endif
  context::jump_fcontext(resumer_, nullptr);
  __builtin_unreachable();
}

// Inlined, because each return after a switch is a mispredicted one.
[[gnu::always_inline]] inline void FiberPool::switch_in(FiberId id) {
  Record& record = records_[id];
  if (record.state == State::Fresh) start(id);
  record.state = State::Running;
  current_ = id;
#if defined(MOETWIN_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(&control_.fake_stack, stack_low(id), stack_bytes_);
#endif
#if defined(MOETWIN_THREAD_SANITIZER)
  control_.thread_fiber = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(sanitizer_stacks_[id].thread_fiber, 0);
#endif
  const context::transfer_t back = context::jump_fcontext(record.context, this);
#if defined(MOETWIN_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(control_.fake_stack, nullptr, nullptr);
#endif
  current_ = kNone;
  record.context = back.fctx;
  if (record.state == State::Running) record.state = State::Suspended;
  if (record.state == State::Finished) forget(id);
  // The context that came back lies at the stack pointer of the moment; the guard remembers what
  // happened in between. It lies far from all else, so it is not looked at every time.
  const std::byte* low = stack_low(id);
  const bool look = record.state == State::Finished || record.resumes++ % kResumesPerLook == 0;
  if (static_cast<std::byte*>(back.fctx) <= low || (look && !guard_holds(low))) broken_ = true;
}

void FiberPool::resume(FiberId id) {
  MOETWIN_CHECK(current_ == kNone && !broken_ && id < records_.size());
  MOETWIN_CHECK(records_[id].state == State::Suspended || records_[id].state == State::Fresh);
  switch_in(id);
  if (broken_) {
    failure_ = nullptr;
    throw InternalError("fiber " + std::to_string(id) + " ran over its stack of " +
                        std::to_string(stack_bytes_) + " bytes");
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void FiberPool::yield() {
  MOETWIN_CHECK(current_ != kNone);
#if defined(MOETWIN_ADDRESS_SANITIZER)
  void** fake_stack = &sanitizer_stacks_[current_].fake_stack;
  __sanitizer_start_switch_fiber(fake_stack, control_low_, control_bytes_);
#endif
#if defined(MOETWIN_THREAD_SANITIZER)
  __tsan_switch_to_fiber(control_.thread_fiber, 0);
#endif
  const context::transfer_t back = context::jump_fcontext(resumer_, nullptr);
  resumer_ = back.fctx;
#if defined(MOETWIN_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(sanitizer_stacks_[current_].fake_stack, &control_low_,
                                  &control_bytes_);
#endif
  if (unwinding_) throw Unwind{};
}

void FiberPool::forget(FiberId id) {
  (void)id;
#if defined(MOETWIN_THREAD_SANITIZER)
  __tsan_destroy_fiber(std::exchange(sanitizer_stacks_[id].thread_fiber, nullptr));
#endif
}

void FiberPool::unwind_all() {
  MOETWIN_CHECK(current_ == kNone);
  unwinding_ = true;
  for (FiberId id = 0; id < records_.size(); ++id) {
    if (records_[id].state == State::Suspended) {
      // A stack that ran over has damaged another one: nothing on any of them can be trusted.
      if (broken_)
        forget(id);
      else
        switch_in(id);
    }
    records_[id].state = State::Finished;
  }
  unwinding_ = false;
}

void FiberPool::reset() {
  unwind_all();
  records_.clear();
  sanitizer_stacks_.clear();
  failure_ = nullptr;
  broken_ = false;
}

}  // namespace moetwin
