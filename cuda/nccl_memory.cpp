// Symmetric memory as a window of an NCCL communicator. All calls are non-blocking and watched, so
// that a rank that does not come ends in an error here, not in a hang.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/cuda_error.h"
#include "cuda/device_buffer.h"
#include "cuda/nccl_library.h"
#include "cuda/nccl_pointers.h"
#include "cuda/symmetric_memory.h"

namespace moetwin {
namespace {

constexpr auto kLook = std::chrono::milliseconds(1);
/// A communicator whose ranks are all alive is taken down in much less.
constexpr double kFinalizeSeconds = 5;

class NcclMemory : public SymmetricMemory {
 public:
  NcclMemory(const RankPlace& place, const std::string& id, Deadline deadline)
      : nccl_(nccl_library()), ranks_(place.ranks) {
    ncclUniqueId unique{};
    if (id.size() != sizeof(unique)) throw SymmetricMemoryError("NCCL: the id has another size");
    std::memcpy(&unique, id.data(), sizeof(unique));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t status =
        nccl_.CommInitRankConfig(&communicator_, static_cast<int>(place.ranks), unique,
                                 static_cast<int>(place.rank), &config);
    try {
      finish(status, "making a communicator", deadline);
    } catch (...) {
      end_communicator(false);
      throw;
    }
  }

  ~NcclMemory() override {
    bool together = !abandoned_;
    try {
      if (together) close(current_, seconds_from_now(kFinalizeSeconds));
    } catch (const SymmetricMemoryError&) {
      together = false;
    }
    end_communicator(together);
    for (void* const buffer : {fresh_.buffer, current_.buffer})
      if (buffer != nullptr) nccl_.MemFree(buffer);
  }

  void abandon() override { abandoned_ = true; }

  bool allocate(uint64_t bytes) override {
    if (fresh_.buffer != nullptr) nccl_.MemFree(std::exchange(fresh_.buffer, nullptr));
    fresh_.bytes = bytes;
    const ncclResult_t status = nccl_.MemAlloc(&fresh_.buffer, bytes);
    if (status == ncclUnhandledCudaError) {
      cudaGetLastError();
      fresh_.buffer = nullptr;
      return false;
    }
    check(status, "allocating memory");
    return true;
  }

  std::vector<uint64_t> connect(Deadline deadline) override {
    close(current_, deadline);
    current_ = std::exchange(fresh_, {});
    finish(nccl_.CommWindowRegister(communicator_, current_.buffer, current_.bytes,
                                    &current_.window, NCCL_WIN_COLL_SYMMETRIC),
           "registering a window", deadline);
    if (!is_on_card(current_.window))
      throw SymmetricMemoryError("NCCL " + nccl_.version + " gave no window");
    DeviceBuffer addresses;
    if (!addresses.reserve(ranks_ * sizeof(uint64_t)))
      throw CudaError("CUDA, the addresses of a window: out of memory");
    check_cuda(find_window_addresses(current_.window, ranks_,
                                     reinterpret_cast<uint64_t*>(addresses.data()), nullptr),
               "asking for a window's addresses");
    std::vector<uint64_t> out(ranks_);
    check_cuda(
        cudaMemcpy(out.data(), addresses.data(), ranks_ * sizeof(uint64_t), cudaMemcpyDeviceToHost),
        "reading a window's addresses");
    return out;
  }

 private:
  struct Window {
    void* buffer = nullptr;
    uint64_t bytes = 0;
    ncclWindow_t window = nullptr;
  };

  /// Where NCCL cannot share memory, a window is null or a mark that the card must not look into.
  static bool is_on_card(ncclWindow_t window) {
    cudaPointerAttributes attributes{};
    if (window == nullptr) return false;
    const cudaError_t known = cudaPointerGetAttributes(&attributes, window);
    cudaGetLastError();
    return known == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  }

  void check(ncclResult_t status, const char* what) const {
    if (status == ncclSuccess) return;
    throw SymmetricMemoryError("NCCL " + nccl_.version + ", " + what + ": " +
                               nccl_.GetErrorString(status));
  }

  /// Waits until what was begun with `status` is done. A call may report success and go on in the
  /// background all the same, so the communicator is asked in any case.
  void finish(ncclResult_t status, const char* what, Deadline deadline) const {
    if (status != ncclInProgress) check(status, what);
    for (;;) {
      check(nccl_.CommGetAsyncError(communicator_, &status), what);
      if (status != ncclInProgress) break;
      if (std::chrono::steady_clock::now() >= deadline)
        throw SymmetricMemoryError("NCCL " + nccl_.version + ", " + what + ": not done in time");
      std::this_thread::sleep_for(kLook);
    }
    check(status, what);
  }

  void close(Window& window, Deadline deadline) {
    if (window.window != nullptr)
      finish(nccl_.CommWindowDeregister(communicator_, std::exchange(window.window, nullptr)),
             "giving a window back", deadline);
    if (window.buffer != nullptr) nccl_.MemFree(std::exchange(window.buffer, nullptr));
  }

  /// Together with the other ranks, or without them.
  void end_communicator(bool together) {
    if (communicator_ == nullptr) return;
    try {
      if (!together) throw SymmetricMemoryError("a rank is gone");
      finish(nccl_.CommFinalize(communicator_), "ending", seconds_from_now(kFinalizeSeconds));
      nccl_.CommDestroy(communicator_);
    } catch (const SymmetricMemoryError&) {
      nccl_.CommAbort(communicator_);
    }
    communicator_ = nullptr;
  }

  const NcclLibrary& nccl_;
  uint32_t ranks_;
  ncclComm_t communicator_ = nullptr;
  Window fresh_;
  Window current_;
  bool abandoned_ = false;
};

}  // namespace

NcclState nccl_state() {
  const NcclLibrary& library = nccl_library();
  if (!library.missing.empty()) return {false, library.missing};
  return {true, "NCCL " + library.version};
}

std::string make_nccl_id() {
  ncclUniqueId id{};
  const ncclResult_t status = nccl_library().GetUniqueId(&id);
  if (status != ncclSuccess)
    throw SymmetricMemoryError(std::string("NCCL, making an id: ") +
                               nccl_library().GetErrorString(status));
  return std::string(reinterpret_cast<const char*>(&id), sizeof(id));
}

std::unique_ptr<SymmetricMemory> make_nccl_memory(const RankPlace& place, const std::string& id,
                                                  Deadline deadline) {
  return std::make_unique<NcclMemory>(place, id, deadline);
}

}  // namespace moetwin
