// Memory of the card that is freed with its owner. Host code only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

namespace moetwin {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { release(); }

  /// Holds `bytes` bytes or more from now on; what was in it is lost if it had to grow. Returns
  /// false, and holds nothing, where the card has not got so much.
  bool reserve(uint64_t bytes) {
    if (bytes <= bytes_) return true;
    release();
    if (cudaMalloc(&pointer_, bytes) != cudaSuccess) {
      cudaGetLastError();  // the failed allocation is answered here, not at the next launch
      pointer_ = nullptr;
      return false;
    }
    bytes_ = bytes;
    return true;
  }

  uint8_t* data() const { return static_cast<uint8_t*>(pointer_); }
  uint64_t address() const { return reinterpret_cast<uint64_t>(pointer_); }
  uint64_t bytes() const { return bytes_; }

 private:
  void release() {
    if (pointer_ != nullptr) cudaFree(pointer_);
    pointer_ = nullptr;
    bytes_ = 0;
  }

  void* pointer_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace moetwin
