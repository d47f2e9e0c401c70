// Fibers: switching, exceptions, unwinding, reuse, overflow. What runs on them is toy code.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/check.h"
#include "cpu_sim/fiber.h"

using namespace moetwin;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOETWIN_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MOETWIN_TEST_SANITIZED 1
#endif
#endif

namespace {

size_t resident_bytes() {
  std::ifstream stream("/proc/self/statm");
  size_t total_pages = 0;
  size_t resident_pages = 0;
  stream >> total_pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/// Appends its name on destruction.
struct Witness {
  std::vector<int>* log;
  int name;
  ~Witness() { log->push_back(name); }
};

/// Recurses until the stack pointer is `bytes` below where it began, then runs `at_depth`.
template <typename AtDepth>
[[gnu::noinline]] int sink(const char* begin, size_t bytes, AtDepth& at_depth) {
  volatile char frame[256];
  for (size_t i = 0; i < sizeof frame; i += 8) frame[i] = 1;
  const char* here = static_cast<const char*>(__builtin_frame_address(0));
  if (static_cast<size_t>(begin - here) < bytes) return sink(begin, bytes, at_depth) + frame[0];
  at_depth();
  return frame[8];
}

}  // namespace

TEST_CASE("fiber: each resume goes on where the last yield left") {
  FiberPool pool(3, 32768);
  std::vector<int> log;
  auto count = [&] {
    const int name = static_cast<int>(pool.current());
    for (int i = 0; i < 3; ++i) {
      log.push_back(10 * name + i);
      pool.yield();
    }
  };
  for (int i = 0; i < 3; ++i) CHECK(pool.spawn(&count) == static_cast<FiberId>(i));
  CHECK_FALSE(pool.started(0));
  for (int round = 0; round < 4; ++round)
    for (FiberId id : {2u, 0u, 1u}) {
      CHECK_FALSE(pool.finished(id));
      pool.resume(id);
      CHECK_FALSE(pool.on_fiber());
    }
  CHECK(log == std::vector<int>{20, 0, 10, 21, 1, 11, 22, 2, 12});
  for (FiberId id = 0; id < 3; ++id) CHECK(pool.finished(id));
}

TEST_CASE("fiber: what a body throws reaches its resumer, and only that fiber ends") {
  FiberPool pool(2, 32768);
  int finished = 0;
  auto thrower = [&] {
    pool.yield();
    throw std::runtime_error("from the body");
  };
  auto other = [&] {
    pool.yield();
    pool.yield();
    ++finished;
  };
  pool.spawn(&thrower);
  pool.spawn(&other);
  pool.resume(0);
  pool.resume(1);
  CHECK_THROWS_WITH_AS(pool.resume(0), "from the body", std::runtime_error);
  CHECK(pool.finished(0));
  pool.resume(1);
  pool.resume(1);
  CHECK(finished == 1);
}

TEST_CASE("fiber: exceptions caught inside the bodies of several fibers do not mix") {
  FiberPool pool(8, 65536);
  int caught = 0;
  auto body = [&] {
    const auto name = std::to_string(pool.current());
    for (int i = 0; i < 5; ++i) {
      std::string got;
      try {
        Witness* none = nullptr;
        pool.yield();
        if (none == nullptr) throw std::runtime_error(name);
      } catch (const std::runtime_error& error) {
        got = error.what();
      }
      pool.yield();
      if (got == name) ++caught;
    }
  };
  for (int i = 0; i < 8; ++i) pool.spawn(&body);
  for (int round = 0; round < 11; ++round)
    for (FiberId id = 0; id < 8; ++id) pool.resume(id);
  CHECK(caught == 40);
}

TEST_CASE("fiber: unwinding runs the destructors of suspended bodies in order, and no others") {
  std::vector<int> log;
  int handlers = 0;
  {
    FiberPool pool(4, 32768);
    auto body = [&] {
      const Witness outer{&log, static_cast<int>(pool.current())};
      try {
        const Witness inner{&log, 10 + static_cast<int>(pool.current())};
        pool.yield();
        pool.yield();
      } catch (const std::exception&) {
        ++handlers;
      }
    };
    for (int i = 0; i < 4; ++i) pool.spawn(&body);
    for (FiberId id : {3u, 0u, 1u}) pool.resume(id);
    pool.resume(0);
    pool.resume(0);
    CHECK(log == std::vector<int>{10, 0});
  }
  CHECK(log == std::vector<int>{10, 0, 11, 1, 13, 3});
  CHECK(handlers == 0);
}

TEST_CASE("fiber: a reset pool serves the next run as a new one would") {
  FiberPool pool(50, 32768);
  std::vector<int> log;
  long sum = 0;
  auto body = [&] {
    const Witness witness{&log, 1};
    for (int i = 0;; ++i) {
      sum += i;
      pool.yield();
    }
  };
  for (int run = 0; run < 200; ++run) {
    const int fibers = 1 + run % 50;
    for (int i = 0; i < fibers; ++i) REQUIRE(pool.spawn(&body) == static_cast<FiberId>(i));
    for (int round = 0; round < 3; ++round)
      for (int i = 0; i < fibers; ++i) pool.resume(static_cast<FiberId>(i));
    REQUIRE(sum == 3 * fibers);
    pool.reset();
    REQUIRE(log.size() == static_cast<size_t>(fibers));
    REQUIRE(pool.size() == 0);
    log.clear();
    sum = 0;
  }
}

// A sanitizer stops the program itself when a body runs over, or lays frames out with gaps.
#if !defined(MOETWIN_TEST_SANITIZED)
TEST_CASE("fiber: a stack run over is reported while deep and after the way back") {
  FiberPool pool(3, 16384);
  std::vector<int> log;
  auto neighbour = [&] {
    const Witness witness{&log, 1};
    pool.yield();
  };
  bool yields_deep = false;
  auto yield_deep = [&] {
    if (yields_deep) pool.yield();
  };
  auto deep = [&] {
    const auto* begin = static_cast<const char*>(__builtin_frame_address(0));
    sink(begin, pool.stack_bytes(), yield_deep);
    pool.yield();
  };
  for (const bool while_deep : {true, false}) {
    yields_deep = while_deep;
    pool.spawn(&neighbour);
    pool.spawn(&deep);
    pool.resume(0);
    CHECK_THROWS_AS(pool.resume(1), InternalError);
    CHECK(pool.broken());
    CHECK_THROWS_AS(pool.resume(0), InternalError);
    pool.reset();
    CHECK(log.empty());

    pool.spawn(&neighbour);
    pool.resume(0);
    pool.reset();
    CHECK(log.size() == 1);
    log.clear();
  }
}

TEST_CASE("fiber: a frame that leaps over the guard is reported at its yield") {
  FiberPool pool(2, 16384);
  auto leap = [&] {
    volatile char unwritten[20000];
    asm volatile("" : : "r"(unwritten) : "memory");
    pool.yield();
  };
  pool.spawn(&leap);
  pool.spawn(&leap);
  CHECK_THROWS_AS(pool.resume(1), InternalError);
}
#endif

TEST_CASE("fiber: a body that needs most of its stack is not reported") {
  FiberPool pool(40, 16384);
  auto nothing = [] {};
  auto deep = [&] {
    const auto* begin = static_cast<const char*>(__builtin_frame_address(0));
    sink(begin, pool.stack_bytes() / 2, nothing);
    pool.yield();
  };
  for (FiberId id = 0; id < 40; ++id) pool.spawn(&deep);
  for (int round = 0; round < 2; ++round)
    for (FiberId id = 0; id < 40; ++id) CHECK_NOTHROW(pool.resume(id));
}

TEST_CASE("fiber: memory follows the stacks that run, not those that are reserved") {
  FiberPool pool(76000, 65536);
  auto body = [&] { pool.yield(); };
  const size_t before = resident_bytes();
  for (size_t i = 0; i < pool.capacity(); ++i) pool.spawn(&body);
  for (FiberId id = 0; id < 76000; id += 38) pool.resume(id);
  const size_t grown = resident_bytes() - before;
  size_t started = 0;
  for (FiberId id = 0; id < 76000; ++id) started += pool.started(id);
  CHECK(started == 2000);
#if !defined(MOETWIN_TEST_SANITIZED)
  CHECK(grown < size_t{2000} * 16384 + 76000 * 64);
#else
  (void)grown;
#endif
}

TEST_CASE("fiber: wrong use is refused") {
  FiberPool pool(1, 0);
  CHECK(pool.stack_bytes() >= 16384);
  auto body = [&] { CHECK_THROWS_AS(pool.resume(0), InternalError); };
  CHECK_THROWS_AS(pool.resume(0), InternalError);
  CHECK_THROWS_AS(pool.yield(), InternalError);
  pool.spawn(&body);
  CHECK_THROWS_AS(pool.spawn(&body), InternalError);
  pool.resume(0);
  CHECK_THROWS_AS(pool.resume(0), InternalError);
  CHECK_THROWS_AS(FiberPool(size_t{1} << 31, size_t{1} << 30), InputError);
}
