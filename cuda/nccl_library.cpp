#include "cuda/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace moetwin {
namespace {

constexpr int kFirstVersionWithWindows = NCCL_VERSION(2, 28, 0);

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

NcclLibrary load() {
  NcclLibrary library;
  // The kernel uses no multicast, and a group of it is a resource of the whole host.
  ::setenv("NCCL_NVLS_ENABLE", "0", 0);
  void* handle = nullptr;
  for (const char* name : {"libnccl.so.2", MOETWIN_NCCL_LIBRARY})
    if (handle == nullptr) handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    library.missing = "there is no libnccl.so.2";
    return library;
  }
  bool complete = true;
#define MOETWIN_NCCL_LOAD(name)                                                            \
  library.name = reinterpret_cast<decltype(&::nccl##name)>(::dlsym(handle, "nccl" #name)); \
  complete = complete && library.name != nullptr;
  MOETWIN_NCCL_FUNCTIONS(MOETWIN_NCCL_LOAD)
#undef MOETWIN_NCCL_LOAD
  int version = 0;
  if (library.GetVersion != nullptr) library.GetVersion(&version);
  library.version = version_text(version);
  if (version < kFirstVersionWithWindows || !complete)
    library.missing = "NCCL " + library.version + " has no symmetric windows, 2.28 has";
  else if (version / 100 != NCCL_VERSION_CODE / 100)
    library.missing = "NCCL " + library.version + " is here, but moetwin was built with " +
                      version_text(NCCL_VERSION_CODE);
  return library;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace moetwin
