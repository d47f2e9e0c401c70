#include "cuda/ranks/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "cuda/ranks/message.h"

namespace moetwin {
namespace {

/// What a peer begins with, so that a stray program is not taken for one.
constexpr uint64_t kGreeting = 0x316e6977746f656d;

/// How long a hub waits at once before it looks for trouble, and a peer before it tries again.
constexpr double kLookSeconds = 0.1;
/// A stray connection gets no more of the hub's time than this.
constexpr double kGreetSeconds = 2;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string at(const RankPlace& place) { return place.address + ":" + std::to_string(place.port); }

Addresses resolve(const RankPlace& place) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &found);
  if (error != 0)
    throw RendezvousError("MASTER_ADDR: '" + place.address.substr(0, 100) +
                          "' is not a host: " + gai_strerror(error));
  return Addresses(found, &freeaddrinfo);
}

FileHandle make_socket(const addrinfo& address) {
  return FileHandle(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
}

/// Messages are short and awaited at once.
void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string fault_text(const ChannelError& error) {
  switch (error.fault()) {
    case ChannelFault::Closed:
      return "its process has ended";
    case ChannelFault::Late:
      return "it did not answer in time";
    default:
      return error.what();
  }
}

}  // namespace

RankHub::RankHub(const RankPlace& place)
    : place_(place), channels_(place.ranks), gone_(place.ranks) {
  MOETWIN_CHECK(place.rank == 0 && place.ranks >= 1 && place.ranks <= kMaxRankProcesses);
  const Addresses addresses = resolve(place);
  int error = 0;
  for (const addrinfo* a = addresses.get(); a != nullptr && !listener_; a = a->ai_next) {
    FileHandle socket = make_socket(*a);
    const int on = 1;
    if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (socket && ::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 &&
        ::listen(socket.get(), static_cast<int>(kMaxRankProcesses)) == 0)
      listener_ = std::move(socket);
    else
      error = errno;
  }
  if (!listener_)
    throw RendezvousError("MASTER_PORT: rank 0 cannot listen at " + at(place) + ": " +
                          std::strerror(error));
  port_ = bound_port(listener_.get());
  place_.port = port_;
}

void RankHub::accept_all(Deadline deadline, const std::function<std::string()>& trouble) {
  const auto missing = [&] {
    std::string names;
    for (uint32_t rank = 1; rank < place_.ranks; ++rank)
      if (!channels_[rank]) names += (names.empty() ? "" : ", ") + std::to_string(rank);
    return names;
  };
  while (!missing().empty()) {
    const std::string said = trouble ? trouble() : std::string();
    if (!said.empty())
      throw RendezvousError("RANK: " + missing() + " of " + std::to_string(place_.ranks) +
                            " did not come: " + said);
    try {
      wait_for(listener_.get(), false, std::min(deadline, seconds_from_now(kLookSeconds)));
    } catch (const ChannelError&) {
      if (std::chrono::steady_clock::now() < deadline) continue;
      throw RendezvousError("RANK: " + missing() + " of " + std::to_string(place_.ranks) +
                            " did not come to " + at(place_) + " in time");
    }
    FileHandle socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) greet(std::move(socket), std::min(deadline, seconds_from_now(kGreetSeconds)));
  }
}

void RankHub::greet(FileHandle socket, Deadline deadline) {
  send_at_once(socket.get());
  Channel channel(std::move(socket));
  try {
    const std::string message = channel.receive(deadline);
    MessageReader read(message);
    if (read.value<uint64_t>() != kGreeting) return;
    const uint32_t rank = read.value<uint32_t>();
    const uint32_t ranks = read.value<uint32_t>();
    std::string refusal;
    if (ranks != place_.ranks)
      refusal = "WORLD_SIZE: " + std::to_string(ranks) + " on rank " + std::to_string(rank) +
                " is not rank 0's " + std::to_string(place_.ranks);
    else if (rank == 0 || rank >= place_.ranks || channels_[rank])
      refusal = "RANK: " + std::to_string(rank) + " is there twice";
    channel.send(refusal, deadline);
    if (!refusal.empty()) throw RendezvousError(refusal);
    channels_[rank] = std::move(channel);
  } catch (const ChannelError&) {
  } catch (const MessageError&) {
    // No process of ours; it may come again.
  }
}

void RankHub::lose(uint32_t rank, const ChannelError& error) {
  gone_[rank] = fault_text(error);
  channels_[rank].reset();
}

void RankHub::send(std::string_view message, Deadline deadline) {
  for (uint32_t rank = 1; rank < place_.ranks; ++rank) {
    if (!channels_[rank]) continue;
    try {
      channels_[rank]->send(message, deadline);
    } catch (const ChannelError& error) {
      lose(rank, error);
    }
  }
}

std::vector<RankAnswer> RankHub::receive(Deadline deadline) {
  std::vector<RankAnswer> answers(place_.ranks);
  for (uint32_t rank = 1; rank < place_.ranks; ++rank) {
    RankAnswer& answer = answers[rank];
    if (channels_[rank]) {
      try {
        answer.message = channels_[rank]->receive(deadline);
        answer.came = true;
      } catch (const ChannelError& error) {
        lose(rank, error);
      }
    }
    answer.why = gone_[rank];
  }
  return answers;
}

RankPeer::RankPeer(const RankPlace& place, Deadline deadline) {
  MOETWIN_CHECK(place.rank != 0 && place.rank < place.ranks);
  const Addresses addresses = resolve(place);
  for (;;) {
    for (const addrinfo* a = addresses.get(); a != nullptr && !channel_; a = a->ai_next) {
      FileHandle socket = make_socket(*a);
      if (!socket || ::connect(socket.get(), a->ai_addr, a->ai_addrlen) != 0) continue;
      send_at_once(socket.get());
      channel_.emplace(std::move(socket));
    }
    try {
      if (channel_) {
        MessageWriter hello;
        hello.value(kGreeting).value(place.rank).value(place.ranks);
        channel_->send(hello.bytes(), deadline);
        const std::string refusal = channel_->receive(deadline);
        if (!refusal.empty()) throw RendezvousError(refusal);
        return;
      }
    } catch (const ChannelError&) {
      channel_.reset();  // an earlier program that still held the port
    }
    if (std::chrono::steady_clock::now() >= deadline)
      throw RendezvousError("MASTER_ADDR: rank " + std::to_string(place.rank) +
                            " did not reach rank 0 at " + at(place) + " in time");
    std::this_thread::sleep_for(std::chrono::duration<double>(kLookSeconds));
  }
}

}  // namespace moetwin
