// A connection to another process of the run that carries whole messages, and never waits longer
// than it is told to. It knows sockets, not ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace moetwin {

using Deadline = std::chrono::steady_clock::time_point;

/// So many seconds from now.
Deadline seconds_from_now(double seconds);

/// Ends only with the other process.
constexpr Deadline kNoDeadline = Deadline::max();

/// Why a message did not come or go.
enum class ChannelFault : uint8_t {
  Closed,  ///< the other process has ended or hung up
  Late,    ///< the deadline passed
  Broken,  ///< the system refused, or what came is no message
};

class ChannelError : public std::runtime_error {
 public:
  ChannelError(ChannelFault fault, const std::string& text)
      : std::runtime_error(text), fault_(fault) {}
  ChannelFault fault() const { return fault_; }

 private:
  ChannelFault fault_;
};

/// An open file that is closed with its owner.
class FileHandle {
 public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileHandle();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Most bytes a message may have.
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 30;

/// Waits until `fd` can be read (or written). Throws ChannelError (Late, Broken).
void wait_for(int fd, bool to_write, Deadline deadline);

class Channel {
 public:
  /// Takes over a connected stream socket, which it makes non-blocking.
  explicit Channel(FileHandle socket);

  /// Both throw ChannelError. After a fault the channel is of no further use.
  void send(std::string_view message, Deadline deadline);
  std::string receive(Deadline deadline);

 private:
  void read(void* target, uint64_t bytes, Deadline deadline);
  void write(const void* source, uint64_t bytes, Deadline deadline);

  FileHandle socket_;
};

}  // namespace moetwin
