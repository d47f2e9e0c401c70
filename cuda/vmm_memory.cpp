// Symmetric memory out of allocations of the CUDA driver's virtual memory management: each rank
// makes one, passes it to the others as a file handle, and maps all of them.
#include <cuda.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/driver_function.h"
#include "cuda/ranks/handle_exchange.h"
#include "cuda/symmetric_memory.h"

namespace moetwin {
namespace {

/// The driver's functions that this file needs.
struct Driver {
#define MOETWIN_DRIVER(name) decltype(&::name) name = driver_function<decltype(&::name)>(#name)
  MOETWIN_DRIVER(cuMemGetAllocationGranularity);
  MOETWIN_DRIVER(cuMemCreate);
  MOETWIN_DRIVER(cuMemRelease);
  MOETWIN_DRIVER(cuMemAddressReserve);
  MOETWIN_DRIVER(cuMemAddressFree);
  MOETWIN_DRIVER(cuMemMap);
  MOETWIN_DRIVER(cuMemUnmap);
  MOETWIN_DRIVER(cuMemSetAccess);
  MOETWIN_DRIVER(cuMemExportToShareableHandle);
  MOETWIN_DRIVER(cuMemImportFromShareableHandle);
#undef MOETWIN_DRIVER
};

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  throw SymmetricMemoryError(std::string("CUDA driver, ") + what + ": error " +
                             std::to_string(result));
}

/// One allocation, of this process or another, mapped for one card.
class Mapping {
 public:
  Mapping(const Driver& driver, CUmemGenericAllocationHandle handle, uint64_t bytes,
          uint32_t device)
      : driver_(driver), handle_(handle), bytes_(bytes) {
    try {
      check(driver_.cuMemAddressReserve(&address_, bytes, 0, 0, 0), "reserving addresses");
      check(driver_.cuMemMap(address_, bytes, 0, handle, 0), "mapping memory");
      mapped_ = true;
      CUmemAccessDesc access{};
      access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {static_cast<int>(device)}};
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      check(driver_.cuMemSetAccess(address_, bytes, &access, 1), "granting access to memory");
    } catch (...) {
      release();
      throw;
    }
  }
  ~Mapping() { release(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  uint64_t address() const { return address_; }
  CUmemGenericAllocationHandle handle() const { return handle_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void release() {
    if (mapped_) driver_.cuMemUnmap(address_, bytes_);
    if (address_ != 0) driver_.cuMemAddressFree(address_, bytes_);
    driver_.cuMemRelease(handle_);
    mapped_ = false;
    address_ = 0;
  }

  const Driver& driver_;
  CUmemGenericAllocationHandle handle_;
  uint64_t bytes_;
  CUdeviceptr address_ = 0;
  bool mapped_ = false;
};

class VmmMemory : public SymmetricMemory {
 public:
  VmmMemory(const RankPlace& place, uint32_t device, const std::string& name)
      : place_(place), device_(device), name_(name) {}

  bool allocate(uint64_t bytes) override {
    // A name for each exchange: a late rank of an earlier one must not be taken for one of this.
    exchange_ = std::make_unique<HandleExchange>(name_ + "-" + std::to_string(exchanges_++),
                                                 place_.rank, place_.ranks);
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {static_cast<int>(device_)}};
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    size_t granularity = 0;
    check(driver_.cuMemGetAllocationGranularity(&granularity, &properties,
                                                CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
          "asking for the granularity");
    const uint64_t rounded = (bytes + granularity - 1) / granularity * granularity;
    CUmemGenericAllocationHandle handle = 0;
    const CUresult made = driver_.cuMemCreate(&handle, rounded, &properties, 0);
    if (made == CUDA_ERROR_OUT_OF_MEMORY) return false;
    check(made, "making memory");
    fresh_ = std::make_unique<Mapping>(driver_, handle, rounded, device_);
    return true;
  }

  std::vector<uint64_t> connect(Deadline deadline) override {
    int exported = -1;
    check(driver_.cuMemExportToShareableHandle(&exported, fresh_->handle(),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
          "exporting memory");
    const FileHandle own(exported);
    const std::vector<FileHandle> handles = exchange_->exchange(own.get(), deadline);
    exchange_.reset();
    mappings_.clear();
    std::vector<uint64_t> addresses;
    const uint64_t bytes = fresh_->bytes();
    for (uint32_t rank = 0; rank < place_.ranks; ++rank) {
      if (rank == place_.rank) {
        mappings_.push_back(std::move(fresh_));
      } else {
        CUmemGenericAllocationHandle handle = 0;
        void* const file = reinterpret_cast<void*>(static_cast<intptr_t>(handles[rank].get()));
        check(driver_.cuMemImportFromShareableHandle(&handle, file,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
              "importing another rank's memory");
        mappings_.push_back(std::make_unique<Mapping>(driver_, handle, bytes, device_));
      }
      addresses.push_back(mappings_.back()->address());
    }
    return addresses;
  }

 private:
  Driver driver_;
  RankPlace place_;
  uint32_t device_;
  std::string name_;
  uint32_t exchanges_ = 0;
  std::unique_ptr<HandleExchange> exchange_;
  std::unique_ptr<Mapping> fresh_;
  std::vector<std::unique_ptr<Mapping>> mappings_;  ///< [ranks]
};

}  // namespace

std::unique_ptr<SymmetricMemory> make_vmm_memory(const RankPlace& place, uint32_t device,
                                                 const std::string& name) {
  return std::make_unique<VmmMemory>(place, device, name);
}

}  // namespace moetwin
