#include "cuda/ranks/handle_exchange.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/check.h"

namespace moetwin {
namespace {

[[noreturn]] void broken(const char* what) {
  throw ChannelError(ChannelFault::Broken, std::string(what) + ": " + std::strerror(errno));
}

FileHandle make_socket() {
  FileHandle socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) broken("a socket for memory handles");
  return socket;
}

/// A name without a file: it starts with a zero byte and goes with the process.
struct Address {
  sockaddr_un address{};
  socklen_t size;

  Address(const std::string& name, uint32_t rank) {
    const std::string full = "moetwin-" + name + "-" + std::to_string(rank);
    MOETWIN_CHECK(full.size() + 1 <= sizeof(address.sun_path));
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, full.data(), full.size());
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + full.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// Handles go to processes of the same user alone.
bool is_own_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

/// Room for one file in a message's ancillary data.
union Ancillary {
  cmsghdr head;
  char bytes[CMSG_SPACE(sizeof(int))];
};

msghdr message_with(iovec& byte, Ancillary& ancillary) {
  msghdr message{};
  message.msg_iov = &byte;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof(ancillary.bytes);
  return message;
}

void send_handle(int fd, int handle, Deadline deadline) {
  char mark = 'h';
  iovec byte{&mark, 1};
  Ancillary ancillary{};
  msghdr message = message_with(byte, ancillary);
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &handle, sizeof(handle));
  while (::sendmsg(fd, &message, MSG_NOSIGNAL) != 1) {
    if (errno != EAGAIN && errno != EINTR) broken("passing a memory handle");
    wait_for(fd, true, deadline);
  }
}

FileHandle receive_handle(int fd, Deadline deadline) {
  char mark = 0;
  iovec byte{&mark, 1};
  Ancillary ancillary{};
  for (;;) {
    msghdr message = message_with(byte, ancillary);
    const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got == 0) throw ChannelError(ChannelFault::Closed, "a process has ended");
    if (got < 0) {
      if (errno != EAGAIN && errno != EINTR) broken("taking a memory handle");
      wait_for(fd, false, deadline);
      continue;
    }
    const cmsghdr* const head = CMSG_FIRSTHDR(&message);
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS)
      throw ChannelError(ChannelFault::Broken, "a message without a memory handle");
    int handle = -1;
    std::memcpy(&handle, CMSG_DATA(head), sizeof(handle));
    return FileHandle(handle);
  }
}

}  // namespace

HandleExchange::HandleExchange(const std::string& name, uint32_t rank, uint32_t ranks)
    : name_(name), rank_(rank), ranks_(ranks), listener_(make_socket()) {
  const Address address(name, rank);
  if (::bind(listener_.get(), address.get(), address.size) != 0 ||
      ::listen(listener_.get(), static_cast<int>(ranks)) != 0)
    broken("listening for memory handles");
}

std::vector<FileHandle> HandleExchange::exchange(int own, Deadline deadline) {
  // All listen, so connecting never waits for the other side: no order can deadlock.
  std::vector<FileHandle> connections(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    connections[rank] = make_socket();
    const Address address(name_, rank);
    if (::connect(connections[rank].get(), address.get(), address.size) != 0)
      broken("reaching another process for its memory handle");
  }
  for (uint32_t given = 0; given + 1 < ranks_;) {
    wait_for(listener_.get(), false, deadline);
    const FileHandle visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!visitor || !is_own_user(visitor.get())) continue;
    send_handle(visitor.get(), own, deadline);
    ++given;
  }
  std::vector<FileHandle> handles(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    if (rank != rank_) handles[rank] = receive_handle(connections[rank].get(), deadline);
  return handles;
}

}  // namespace moetwin
