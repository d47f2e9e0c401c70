// Tensor maps: how the copy engine sees the matrices that are moved by 2-D tiles. Host code only.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/card_weights.h"
#include "cuda/kernel_params.h"

namespace moetwin {

/// The maps of one rank whose symmetric buffer starts at `base`. Loads take boxes of rows of
/// 128 bytes and swizzle them for the tensor core, stores take 64 rows of 64 bytes as they are.
/// A tap's map stays zero unless plan.taps. Throws NoCudaDevice where the driver cannot make maps.
RankMaps make_tensor_maps(const KernelArgs& args, uint64_t base, const RankWeights& weights);

}  // namespace moetwin
