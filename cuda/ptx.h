// The instructions of the sm90 machine, one a function: the toolkit's cuda::ptx and
// cuda::atomic_ref where they have it, hand-written PTX where not. Device code only.
#pragma once

#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>

#include "common/machine.h"

namespace moetwin::ptx {

constexpr uint32_t kAllLanes = 0xFFFFFFFFu;

/// The CTA's shared memory; a 128-byte swizzled tile needs its alignment.
__device__ __forceinline__ uint8_t* shared_memory() {
  extern __shared__ __align__(1024) uint8_t moetwin_shared_memory[];
  return moetwin_shared_memory;
}

template <class T>
__device__ __forceinline__ T* shared_pointer(Shared<T> place) {
  return reinterpret_cast<T*>(shared_memory() + place.offset);
}

/// The pointer of an address in global memory, known as such to the compiler. (Not made with
/// __cvta_global_to_generic: nvcc 13.0's optimiser does not end on it in a loop.)
template <class T>
__device__ __forceinline__ T* global_pointer(Global<T> place) {
  T* const pointer = reinterpret_cast<T*>(place.address);
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

// Words with order and scope. Both are constants wherever these are inlined.

__device__ __forceinline__ constexpr cuda::memory_order cuda_order(Order order) {
  switch (order) {
    case Order::Acquire:
      return cuda::memory_order_acquire;
    case Order::Release:
      return cuda::memory_order_release;
    default:
      return cuda::memory_order_relaxed;
  }
}

template <class T>
__device__ __forceinline__ T fetch_add(T* word, T value, Order order, Scope scope) {
  if (scope == Scope::Sys)
    return cuda::atomic_ref<T, cuda::thread_scope_system>(*word).fetch_add(value,
                                                                           cuda_order(order));
  if (scope == Scope::Cta)
    return cuda::atomic_ref<T, cuda::thread_scope_block>(*word).fetch_add(value, cuda_order(order));
  return cuda::atomic_ref<T, cuda::thread_scope_device>(*word).fetch_add(value, cuda_order(order));
}

__device__ __forceinline__ uint32_t load_acquire(uint32_t* word, Scope scope) {
  if (scope == Scope::Sys)
    return cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).load(
        cuda::memory_order_acquire);
  if (scope == Scope::Cta)
    return cuda::atomic_ref<uint32_t, cuda::thread_scope_block>(*word).load(
        cuda::memory_order_acquire);
  return cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(*word).load(
      cuda::memory_order_acquire);
}

__device__ __forceinline__ uint32_t load_relaxed_sys(uint32_t* word) {
  return cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).load(
      cuda::memory_order_relaxed);
}

__device__ __forceinline__ void store_release_sys(uint32_t* word, uint32_t value) {
  cuda::atomic_ref<uint32_t, cuda::thread_scope_system>(*word).store(value,
                                                                     cuda::memory_order_release);
}

/// Loads a word that never changes, where it is asked for and not before: not kept in a register.
__device__ __forceinline__ uint32_t load_shared_again(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];"
               : "=r"(value)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(word))));
  return value;
}

// mbarriers.

__device__ __forceinline__ void mbarrier_init(uint64_t* bar, uint32_t arrivals) {
  cuda::ptx::mbarrier_init(bar, arrivals);
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t* bar) {
  cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared,
                             bar);
}

__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* bar, uint32_t bytes) {
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta,
                                       cuda::ptx::space_shared, bar, bytes);
}

/// Waits for a while at most; true once the phase of that parity is complete, and then acquires.
__device__ __forceinline__ bool mbarrier_try_wait(uint64_t* bar, uint32_t parity) {
  return cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cta, bar,
                                             parity);
}

__device__ __forceinline__ void fence_mbarrier_init() {
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

// Proxies.

__device__ __forceinline__ void fence_proxy_async(FenceSpace space) {
  if (space == FenceSpace::Shared)
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  else if (space == FenceSpace::Global)
    cuda::ptx::fence_proxy_async(cuda::ptx::space_global);
  else
    cuda::ptx::fence_proxy_async();
}

/// Stores 16 bytes that are not read again soon: the first to leave L2.
__device__ __forceinline__ void store_streaming(void* global, uint4 value) {
  __stcs(static_cast<uint4*>(global), value);
}

/// stmatrix.x4: lane 8 * m + r stores row r, 16 bytes, of matrix m of four; of matrix m each lane
/// holds in word m the columns 2 * (lane % 4) and one more of row lane / 4, two bytes each.
__device__ __forceinline__ void store_matrices(void* shared, const uint32_t (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
               "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

// Bulk copies. One thread issues them.

__device__ __forceinline__ void bulk_load(void* shared, const void* global, uint32_t bytes,
                                          uint64_t* bar) {
  cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, shared, global, bytes,
                           bar);
}

/// The same for bytes that nobody reads again: the first to leave L2.
__device__ __forceinline__ void bulk_load_once(void* shared, const void* global, uint32_t bytes,
                                               uint64_t* bar) {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(__cvta_generic_to_global(global)), "r"(bytes),
      "r"(static_cast<uint32_t>(__cvta_generic_to_shared(bar))), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void bulk_store(void* global, const void* shared, uint32_t bytes) {
  cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, global, shared, bytes);
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void tile_load(void* shared, const void* tensor_map, uint32_t row,
                                          uint32_t column, uint64_t* bar) {
  const int32_t coordinates[2] = {static_cast<int32_t>(column), static_cast<int32_t>(row)};
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, shared,
                                  tensor_map, coordinates, bar);
}

__device__ __forceinline__ void tile_store(const void* tensor_map, uint32_t row, uint32_t column,
                                           const void* shared) {
  const int32_t coordinates[2] = {static_cast<int32_t>(column), static_cast<int32_t>(row)};
  cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_global, cuda::ptx::space_shared, tensor_map,
                                  coordinates, shared);
}

__device__ __forceinline__ void bulk_commit() { cuda::ptx::cp_async_bulk_commit_group(); }

/// Until the sources of this thread's committed groups are read.
__device__ __forceinline__ void bulk_wait_read() {
  cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>{});
}

/// Until the destinations of this thread's committed groups are written as well.
__device__ __forceinline__ void bulk_wait_written() {
  cuda::ptx::cp_async_bulk_wait_group(cuda::ptx::n32_t<0>{});
}

// Arithmetic, registers, time, the end.

/// sum = a * b + sum, rounded once. Calls keep the order of the code.
__device__ __forceinline__ void fma_in_order(float& sum, float a, float b) {
  asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum) : "f"(a), "f"(b));
}

template <uint32_t kRegisters>
__device__ __forceinline__ void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <uint32_t kRegisters>
__device__ __forceinline__ void lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

__device__ __forceinline__ uint64_t nanoseconds() { return cuda::ptx::get_sreg_globaltimer(); }

[[noreturn]] __device__ __forceinline__ void exit_thread() {
  asm volatile("exit;");
  __builtin_unreachable();
}

}  // namespace moetwin::ptx
