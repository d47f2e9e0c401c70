#include "app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace moetwin {
namespace {

constexpr std::chrono::milliseconds kPeriod{500};
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string what, uint64_t total)
    : what_(std::move(what)), total_(total), start_(std::chrono::steady_clock::now()) {
  if (isatty(STDERR_FILENO) != 0) painter_ = std::thread([this] { paint(); });
}

Progress::~Progress() {
  if (!painter_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  stop_signal_.notify_one();
  painter_.join();
}

void Progress::paint() {
  bool painted = false;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_signal_.wait_for(lock, kPeriod, [this] { return stop_; })) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const uint64_t done = done_.load(std::memory_order_relaxed);
    const std::string count = total_ == 0 ? std::string() : fmt::format(" {} of {},", done, total_);
    const std::string line =
        fmt::format("{}{}:{} {:.1f} s", kClearLine, what_, count, elapsed.count());
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
    painted = true;
  }
  if (painted) std::fputs(kClearLine, stderr);
}

}  // namespace moetwin
