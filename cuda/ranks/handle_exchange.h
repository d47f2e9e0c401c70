// Passes an open file of each process to every other process of the run: how memory of one card is
// named to the others. Unix sockets of one host, not connected with the rendezvous.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/ranks/channel.h"

namespace moetwin {

class HandleExchange {
 public:
  /// Listens, so that the others may come. `name` is the run's own and new for each exchange.
  /// Throws ChannelError.
  HandleExchange(const std::string& name, uint32_t rank, uint32_t ranks);

  /// Gives `own` to every other rank and takes theirs: [ranks], the own entry empty. Every rank
  /// must be listening when the first one calls. Throws ChannelError.
  std::vector<FileHandle> exchange(int own, Deadline deadline);

 private:
  std::string name_;
  uint32_t rank_;
  uint32_t ranks_;
  FileHandle listener_;
};

}  // namespace moetwin
