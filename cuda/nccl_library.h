// NCCL's library, loaded when it is first asked for: a program that runs on one card starts without
// it. Which of its functions are used is listed here and nowhere else. Host code only.
#pragma once

#include <nccl.h>
#include <nccl_device.h>

#include <string>

namespace moetwin {

// X(name without its nccl): the functions that are taken from the library.
#define MOETWIN_NCCL_FUNCTIONS(X) \
  X(GetVersion)                   \
  X(GetErrorString)               \
  X(GetUniqueId)                  \
  X(CommInitRankConfig)           \
  X(CommGetAsyncError)            \
  X(CommFinalize)                 \
  X(CommDestroy)                  \
  X(CommAbort)                    \
  X(CommWindowRegister)           \
  X(CommWindowDeregister)         \
  X(MemAlloc)                     \
  X(MemFree)

struct NcclLibrary {
#define MOETWIN_NCCL_POINTER(name) decltype(&::nccl##name) name = nullptr;
  MOETWIN_NCCL_FUNCTIONS(MOETWIN_NCCL_POINTER)
#undef MOETWIN_NCCL_POINTER
  std::string version;  ///< "2.28.9"
  std::string missing;  ///< why it cannot be used; empty: it can
};

/// The library, loaded once. It must be of the headers' major and minor version: a
/// window's form on the card is part of the headers.
const NcclLibrary& nccl_library();

}  // namespace moetwin
