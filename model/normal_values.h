// Many normal values at once: the vector form of normal_sum() in counter_random.h, which is the
// definition and gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "model/counter_random.h"

namespace moetwin {

/// out[i] = float(normal_sum(key, first + i)) * scale, one rounding each.
void fill_normal(const Key& key, uint64_t first, float scale, std::span<float> out);

}  // namespace moetwin
