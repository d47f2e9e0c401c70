// The built kernels: each variant has one for every tile, and is compiled in a file of its own.
#pragma once

#include <cstdint>

#include "cuda/kernel_params.h"

namespace moetwin {

/// Builds of the kernel that differ in what they do besides the layer.
enum class Variant : uint8_t {
  Shipped,
  Planted,  ///< leaves out the arrivals of one step, to see a deadlock reported
  Traced,   ///< logs events for a timeline
};

constexpr uint32_t kMaxRowGroups = 2;

using Kernel = void (*)(KernelParams);

/// A variant's kernels, by groups of 64 rows - 1 and slices - 1.
struct KernelsByTile {
  Kernel kernel[kMaxRowGroups][kMaxSlices];
};

KernelsByTile shipped_kernels();
KernelsByTile planted_kernels();
KernelsByTile traced_kernels();

}  // namespace moetwin
