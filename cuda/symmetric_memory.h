// Memory that each rank of a run has on its own card and that all the others reach by load and
// store. Two ways to make it: a window of an NCCL communicator (nccl_memory.cpp), and allocations
// of the CUDA driver passed on as file handles (vmm_memory.cpp). Host code only.
//
//   allocate()   on every rank by itself; when all have, any may
//   connect()    together: from then on the addresses of all ranks are known
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/ranks/channel.h"
#include "cuda/ranks/rank_place.h"

namespace moetwin {

/// This way of sharing memory does not work here; another may.
class SymmetricMemoryError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SymmetricMemory {
 public:
  virtual ~SymmetricMemory() = default;

  /// Room for `bytes` bytes on this rank's card, beside what there was, which goes with the next
  /// connect(). False where the card has not got so much.
  virtual bool allocate(uint64_t bytes) = 0;

  /// The addresses of all ranks' memory as this card reaches it, [ranks], this rank's own among
  /// them. Every rank calls. Throws SymmetricMemoryError and ChannelError.
  virtual std::vector<uint64_t> connect(Deadline deadline) = 0;

  /// A rank is gone: what is done together when the memory is given back is left out.
  virtual void abandon() {}
};

/// Through driver allocations. `name` is the run's own. Throws NoCudaDevice.
std::unique_ptr<SymmetricMemory> make_vmm_memory(const RankPlace& place, uint32_t device,
                                                 const std::string& name);

/// What NCCL's library on this machine is, and why it cannot be used where it cannot.
struct NcclState {
  bool usable = false;
  std::string text;  ///< "NCCL 2.28.9", or why not
};
NcclState nccl_state();

/// What rank 0 tells the others, so that they meet in one communicator. Throws
/// SymmetricMemoryError.
std::string make_nccl_id();

/// Through an NCCL communicator of all ranks, which is made here: every rank calls. Throws
/// SymmetricMemoryError.
std::unique_ptr<SymmetricMemory> make_nccl_memory(const RankPlace& place, const std::string& id,
                                                  Deadline deadline);

}  // namespace moetwin
