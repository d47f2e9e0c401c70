// The virtual clock's cost table, in nanoseconds: what the timed schedule takes each operation to
// cost. From single measurements on one H200 (barrier, flag and copy rates); a simple model, which
// a report calls approximate.
#pragma once

#include <cstdint>

namespace moetwin {

struct CostTable {
  uint64_t shared_access = 1;
  uint64_t global_access = 600;        ///< a dependent load or atomic on the card
  uint64_t issue = 20;                 ///< issuing a copy, arriving at a barrier
  uint64_t flag_gpu = 840;             ///< from a release on one SM to its acquire on another
  uint64_t flag_sys = 1370;            ///< the same between two cards
  uint64_t copy_latency = 700;         ///< a bulk copy on the card
  uint64_t peer_latency = 1400;        ///< a bulk copy from or to a peer card
  uint64_t copy_bytes_per_us = 30000;  ///< one SM's share of the copy bandwidth
  uint64_t mma_step = 14;              ///< one 64x128x32 E4M3 step
  uint64_t epilogue = 900;             ///< one warpgroup's epilogue of a tile
};

}  // namespace moetwin
