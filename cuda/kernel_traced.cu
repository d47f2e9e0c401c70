// The kernels that log events for a timeline, one for every tile.
#include "cuda/moe_layer.h"

namespace moetwin {

KernelsByTile traced_kernels() { return built_kernels<Variant::Traced>(); }

}  // namespace moetwin
