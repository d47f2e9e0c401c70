// Built where NCCL's headers were not found: several cards share memory without it.
#include "cuda/symmetric_memory.h"

namespace moetwin {
namespace {

constexpr const char* kAbsent = "moetwin was built without NCCL";

}  // namespace

NcclState nccl_state() { return {false, kAbsent}; }

std::string make_nccl_id() { throw SymmetricMemoryError(kAbsent); }

std::unique_ptr<SymmetricMemory> make_nccl_memory(const RankPlace&, const std::string&, Deadline) {
  throw SymmetricMemoryError(kAbsent);
}

}  // namespace moetwin
