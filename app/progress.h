// Progress of long work: one line on standard error that rewrites itself while it lasts, only on a
// terminal and only after half a second. Results never go through it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace moetwin {

class Progress {
 public:
  /// `what` is a word or two ("run", "golden check"); `total` 0: only time is shown.
  explicit Progress(std::string what, uint64_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// One more of the total is done. Thread safe.
  void advance() { done_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void paint();

  std::string what_;
  uint64_t total_;
  std::atomic<uint64_t> done_{0};
  std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::condition_variable stop_signal_;
  bool stop_ = false;
  std::thread painter_;  ///< none where standard error is no terminal
};

}  // namespace moetwin
