// What the timed schedule takes each operation to cost, as data: latencies in nanoseconds, rates in
// bytes a microsecond. Latencies and rates of memory were measured alone on one H200 (2026-11-29);
// what is marked "fitted" was chosen so that whole launches take the time that they took there that
// day, the rate of L2 the day after (docs/measurements.md, `moetwin bench timed`).
// shared_bandwidth.h has the queues.
#pragma once

#include <cstdint>

namespace moetwin {

struct CostTable {
  uint64_t launch = 3000;          ///< from the host's launch until a CTA's first instruction
  uint64_t shared_access = 1;      ///< a store that nobody waits for
  uint64_t global_access = 600;    ///< a dependent load or atomic on the card
  uint64_t issue = 20;             ///< issuing a copy, arriving at a barrier
  uint64_t flag_gpu = 840;         ///< from a release on one SM to its acquire on another
  uint64_t flag_sys = 1370;        ///< the same between two cards
  uint64_t copy_latency = 700;     ///< a bulk copy on the card
  uint64_t peer_latency = 1400;    ///< a bulk copy from or to a peer card
  uint64_t dram_rate = 3'900'000;  ///< of all SMs together
  uint64_t l2_rate = 7'800'000;    ///< of all SMs together; fitted
  uint64_t link_rate = 371'000;    ///< of a card, from or to all peers
  uint64_t sm_rate = 100'000;      ///< of one SM; fitted
  uint64_t l2_kept = 30'000'000;   ///< weights read again after fewer bytes are in L2; fitted
  uint64_t l2_lost = 60'000'000;   ///< and after more, none of them; fitted
  uint64_t mma_step = 35;          ///< one 64x128x32 E4M3 step of an SM's tensor cores; fitted
  uint64_t promote = 90;           ///< one promotion of 64x128 sums; fitted
  uint64_t epilogue = 900;         ///< one warpgroup's epilogue of 64x128 sums; fitted
};

}  // namespace moetwin
