// Which kernel variants are built, for those who must refuse or draw others. Plain host code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include "common/check.h"
#include "common/kernel_options.h"

namespace moetwin {

/// Tile heights that a kernel variant is built for.
constexpr uint32_t kBuiltBlockM[] = {64, 128};

/// Throws InputError that lists the variants where none is built for these options.
inline void check_built(const KernelOptions& kernel) {
  if (std::find(std::begin(kBuiltBlockM), std::end(kBuiltBlockM), kernel.block_m) !=
      std::end(kBuiltBlockM))
    return;
  std::string built;
  for (const uint32_t block_m : kBuiltBlockM)
    built += (built.empty() ? "" : ", ") + std::to_string(block_m);
  throw InputError("kernel.block_m: " + std::to_string(kernel.block_m) +
                   " is no variant of the kernel; built are " + built);
}

}  // namespace moetwin
