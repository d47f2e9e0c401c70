// How the processes of a run find each other and talk: rank 0 is the hub, every other rank has one
// connection to it. Nothing waits longer than its deadline. What is said is not its business.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/check.h"
#include "cuda/ranks/channel.h"
#include "cuda/ranks/rank_place.h"

namespace moetwin {

/// The processes did not come together: one line that names the ranks that are missing.
class RendezvousError : public InputError {
 public:
  using InputError::InputError;
};

/// What one rank said, or why it said nothing.
struct RankAnswer {
  bool came = false;
  std::string message;
  std::string why;  ///< where it did not come: "its process has ended", "it did not answer in time"
};

/// Rank 0's end.
class RankHub {
 public:
  /// Listens at `place.address`, `place.port`. Throws RendezvousError.
  explicit RankHub(const RankPlace& place);

  /// Where it listens.
  uint16_t port() const { return port_; }

  /// Waits for every other rank. `trouble` is asked now and then; what it says ends the wait.
  /// Throws RendezvousError that names the ranks that did not come.
  void accept_all(Deadline deadline, const std::function<std::string()>& trouble);

  /// Sends to every rank that is still there; one that cannot take it is gone from then on.
  void send(std::string_view message, Deadline deadline);
  /// [ranks]: an answer from each rank but this one. Who does not answer in time is gone.
  std::vector<RankAnswer> receive(Deadline deadline);

  uint32_t ranks() const { return place_.ranks; }
  /// Why a rank is gone; empty while it is there.
  const std::string& gone(uint32_t rank) const { return gone_[rank]; }

 private:
  void greet(FileHandle socket, Deadline deadline);
  void lose(uint32_t rank, const ChannelError& error);

  RankPlace place_;
  FileHandle listener_;
  uint16_t port_ = 0;
  std::vector<std::optional<Channel>> channels_;  ///< [ranks]
  std::vector<std::string> gone_;                 ///< [ranks]
};

/// The end of any other rank.
class RankPeer {
 public:
  /// Connects to rank 0, which may start later. Throws RendezvousError.
  RankPeer(const RankPlace& place, Deadline deadline);

  /// Both throw ChannelError.
  void send(std::string_view message, Deadline deadline) { channel_->send(message, deadline); }
  std::string receive(Deadline deadline) { return channel_->receive(deadline); }

 private:
  std::optional<Channel> channel_;
};

}  // namespace moetwin
