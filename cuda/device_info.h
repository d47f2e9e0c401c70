// Which card there is, and the one error for having none that can run the kernel.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace moetwin {

/// There is no card that can run the kernel: one line that begins "no CUDA device: ". The command
/// line turns it into exit status 3.
class NoCudaDevice : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct DeviceInfo {
  std::string name;
  std::string driver;  ///< version of the driver; empty where the system does not tell it
  uint32_t sms = 0;
  uint64_t memory_bytes = 0;
};

/// Describes card `device` and checks that the kernel can run on it. Throws NoCudaDevice.
DeviceInfo device_info(uint32_t device = 0);

}  // namespace moetwin
