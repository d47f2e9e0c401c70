// The kernels that leave out the arrivals of one step, one for every tile.
#include "cuda/moe_layer.h"

namespace moetwin {

KernelsByTile planted_kernels() { return built_kernels<Variant::Planted>(); }

}  // namespace moetwin
