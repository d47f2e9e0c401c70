// The kernels that run a layer and nothing else, one for every tile.
#include "cuda/moe_layer.h"

namespace moetwin {

KernelsByTile shipped_kernels() { return built_kernels<Variant::Shipped>(); }

}  // namespace moetwin
