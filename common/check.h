// Checks of the project's own invariants. A failing check is a bug of moetwin itself: it throws
// InternalError on the host and traps on the device. Mistakes of a caller (bad shapes, bad files)
// are InputError, raised where the input is read, never here.
#pragma once

#include "common/host_device.h"

#if !MOETWIN_DEVICE_CODE
#include <stdexcept>
#include <string>
#endif

namespace moetwin {

#if !defined(__CUDA_ARCH__)
/// A bug of moetwin: an invariant that the code itself promises does not hold.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// A mistake in what the caller gave: one line that names field, value and limit. The command line
/// turns it into exit status 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
#endif

namespace detail {
#if defined(__CUDACC__)
__host__ __device__
#endif
    [[noreturn]] inline void
    check_failed(const char* condition, const char* file, int line) {
#if MOETWIN_DEVICE_CODE
  (void)condition;
  (void)file;
  (void)line;
  __trap();
#else
  throw InternalError(std::string(file) + ":" + std::to_string(line) +
                      ": check failed: " + condition);
#endif
}
}  // namespace detail

}  // namespace moetwin

/// Always on, in every build.
#define MOETWIN_CHECK(condition) \
  ((condition) ? (void)0 : ::moetwin::detail::check_failed(#condition, __FILE__, __LINE__))
