// The processes of a campaign that mpirun has started. The only file pair that knows MPI, which is
// optional at configure time.
#pragma once

#include <memory>

#include "fuzz/peers.h"

namespace moetwin {

/// Peers whose end is announced: a process that goes without finish() takes the others down instead
/// of letting them wait for it.
class StartedPeers : public Peers {
 public:
  virtual void finish() {}
};

/// The processes that mpirun has started with this one; this one alone where none has been, or
/// where moetwin was built without MPI. To be called once a process.
std::unique_ptr<StartedPeers> started_peers();

}  // namespace moetwin
