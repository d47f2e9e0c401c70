// One thread: add one to every rank's counter, wait for the own one.
#include "cuda/meet.h"
#include "cuda/ptx.h"

namespace moetwin {
namespace {

__global__ void meet_cards(const __grid_constant__ MeetParams params) {
  for (uint32_t rank = 0; rank < params.ranks; ++rank)
    ptx::fetch_add(ptx::global_pointer(Global<uint32_t>{params.counters[rank]}), 1u, Order::Release,
                   Scope::Sys);
  uint32_t* const own = ptx::global_pointer(Global<uint32_t>{params.own});
  uint32_t* const flag = ptx::global_pointer(Global<uint32_t>{params.limits.abort_flag});
  const Awaited all = at_least(params.target);
  const uint64_t since = ptx::nanoseconds();
  while (!all.holds(ptx::load_acquire(own, Scope::Sys))) {
    if (ptx::load_relaxed_sys(flag) != 0) return;
    if (ptx::nanoseconds() - since <= params.limits.nanoseconds) continue;
    for (uint32_t card = 0; card < params.limits.num_cards; ++card)
      ptx::store_release_sys(ptx::global_pointer(Global<uint32_t>{params.limits.all_flags[card]}),
                             1);
    return;
  }
}

}  // namespace

cudaError_t meet(const MeetParams& params, cudaStream_t stream) {
  meet_cards<<<1, 1, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace moetwin
