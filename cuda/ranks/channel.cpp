#include "cuda/ranks/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace moetwin {
namespace {

constexpr double kLongestSeconds = 1e8;

[[noreturn]] void broken(const char* what) {
  throw ChannelError(ChannelFault::Broken, std::string(what) + ": " + std::strerror(errno));
}

[[noreturn]] void closed() {
  throw ChannelError(ChannelFault::Closed, "the connection was closed");
}

/// Milliseconds to poll for, at least 0; -1 for no deadline.
int poll_time(Deadline deadline) {
  if (deadline == kNoDeadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

}  // namespace

Deadline seconds_from_now(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::min(seconds, kLongestSeconds)));
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

void wait_for(int fd, bool to_write, Deadline deadline) {
  for (;;) {
    pollfd waited{fd, static_cast<int16_t>(to_write ? POLLOUT : POLLIN), 0};
    const int ready = ::poll(&waited, 1, poll_time(deadline));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) broken("waiting for another process");
    if (deadline != kNoDeadline && std::chrono::steady_clock::now() >= deadline)
      throw ChannelError(ChannelFault::Late, "nothing came in time");
  }
}

Channel::Channel(FileHandle socket) : socket_(std::move(socket)) {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) < 0)
    broken("preparing a connection");
}

void Channel::send(std::string_view message, Deadline deadline) {
  const uint64_t size = message.size();
  write(&size, sizeof(size), deadline);
  write(message.data(), size, deadline);
}

std::string Channel::receive(Deadline deadline) {
  uint64_t size = 0;
  read(&size, sizeof(size), deadline);
  if (size > kMaxMessageBytes)
    throw ChannelError(ChannelFault::Broken, "what came is no message of moetwin");
  std::string message(size, '\0');
  read(message.data(), size, deadline);
  return message;
}

void Channel::read(void* target, uint64_t bytes, Deadline deadline) {
  char* at = static_cast<char*>(target);
  while (bytes != 0) {
    const ssize_t got = ::recv(socket_.get(), at, bytes, 0);
    if (got > 0) {
      at += got;
      bytes -= static_cast<uint64_t>(got);
    } else if (got == 0 || errno == ECONNRESET) {
      closed();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket_.get(), false, deadline);
    } else if (errno != EINTR) {
      broken("receiving from another process");
    }
  }
}

void Channel::write(const void* source, uint64_t bytes, Deadline deadline) {
  const char* at = static_cast<const char*>(source);
  while (bytes != 0) {
    const ssize_t sent = ::send(socket_.get(), at, bytes, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += sent;
      bytes -= static_cast<uint64_t>(sent);
    } else if (errno == EPIPE || errno == ECONNRESET) {
      closed();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(socket_.get(), true, deadline);
    } else if (errno != EINTR) {
      broken("sending to another process");
    }
  }
}

}  // namespace moetwin
