// The tensor core of one warpgroup: 64 x 128 accumulators in f32 and the E4M3 step of K = 32 on
// operands in shared memory. Owns the descriptor of a 128-byte swizzled K-major tile (rows of 128
// codes, as tile loads with CU_TENSOR_MAP_SWIZZLE_128B leave them). Device code only.
#pragma once

#include <cstdint>

#include "common/kernel_plan.h"

namespace moetwin {

/// A thread's part of a 64 x 128 tile. Register 4 * c + 2 * half + i is row
/// 16 * warp + lane / 4 + 8 * half, column 8 * c + 2 * (lane % 4) + i.
struct AccumulatorTile {
  static constexpr uint32_t kChunks = kSliceN / 8;
  static constexpr uint32_t kRegisters = 4 * kChunks;
  float value[kRegisters];
};

namespace wgmma {

/// Rows of 128 bytes in groups of eight; the swizzle exchanges 16-byte units inside a group.
constexpr uint64_t kGroupBytes = 8 * kBlockK;
constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
constexpr uint32_t kUnusedLeadingOffset = 1u << 16;

/// A 128-byte swizzled operand as instructions name it: the half of its descriptor that differs
/// from operand to operand.
struct Operand {
  uint32_t low;

  /// `bytes` further on: whole rows of 128, in groups of eight, or steps of K. The hardware
  /// swizzles by address bits, so this just adds.
  __device__ __forceinline__ Operand operator+(uint32_t bytes) const {
    return {low + (bytes >> 4)};
  }
  __device__ __forceinline__ uint64_t descriptor() const {
    return kSwizzle128 | (kGroupBytes >> 4) << 32 | low;
  }
};

/// The operand that starts at shared address `address`, a multiple of 1024.
__device__ __forceinline__ Operand operand(uint32_t address) {
  return {kUnusedLeadingOffset | (address & 0x3FFFF) >> 4};
}

/// Orders register and shared-memory accesses of the warpgroup before its multiplications.
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// The registers of an accumulator, neighbours swapped or not.
#define MOETWIN_EIGHT(constraint, d, i, swap)                                                      \
  constraint(d[i ^ swap]), constraint(d[(i + 1) ^ swap]), constraint(d[(i + 2) ^ swap]),           \
      constraint(d[(i + 3) ^ swap]), constraint(d[(i + 4) ^ swap]), constraint(d[(i + 5) ^ swap]), \
      constraint(d[(i + 6) ^ swap]), constraint(d[(i + 7) ^ swap])
#define MOETWIN_ACCUMULATOR(constraint, d, swap)                                      \
  MOETWIN_EIGHT(constraint, d, 0, swap), MOETWIN_EIGHT(constraint, d, 8, swap),       \
      MOETWIN_EIGHT(constraint, d, 16, swap), MOETWIN_EIGHT(constraint, d, 24, swap), \
      MOETWIN_EIGHT(constraint, d, 32, swap), MOETWIN_EIGHT(constraint, d, 40, swap), \
      MOETWIN_EIGHT(constraint, d, 48, swap), MOETWIN_EIGHT(constraint, d, 56, swap)

/// wgmma.mma_async.m64n128k32, D = A * B when kChained is false, D = A * B + D when it is true.
#define MOETWIN_MMA(constraint, kChained, swap)                                           \
  asm volatile(                                                                           \
      "{\n"                                                                               \
      ".reg .pred chained;\n"                                                             \
      "setp.ne.b32 chained, %66, 0;\n"                                                    \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "                            \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "%64, %65, chained, 1, 1;\n"                                                        \
      "}\n"                                                                               \
      : MOETWIN_ACCUMULATOR(constraint, d, swap)                                          \
      : "l"(a), "l"(b), "n"(kChained))

/// Without kNewRegisters `d` is an operand, too, though nobody reads it: as results alone the
/// products of a k loop are so many sets of 64 registers to the compiler, which finds no room for
/// them beside the sums and spills, or gives up on products that run while anything else does.
template <bool kNewRegisters>
__device__ __forceinline__ void first_step(float (&d)[AccumulatorTile::kRegisters], uint64_t a,
                                           uint64_t b) {
  if constexpr (kNewRegisters)
    MOETWIN_MMA("=f", 0, 0);
  else
    MOETWIN_MMA("+f", 0, 0);
}

__device__ __forceinline__ void chained_step(float (&d)[AccumulatorTile::kRegisters], uint64_t a,
                                             uint64_t b) {
  MOETWIN_MMA("+f", 1, 0);
}

/// `kSteps` steps of K from zero, in one straight line: a branch between them would make the
/// compiler fence the registers again.
template <uint32_t kSteps, bool kNewRegisters>
__device__ __forceinline__ void multiply(float (&d)[AccumulatorTile::kRegisters], Operand a,
                                         Operand b) {
  fence();
  first_step<kNewRegisters>(d, a.descriptor(), b.descriptor());
  MOETWIN_UNROLL
  for (uint32_t step = 1; step < kSteps; ++step)
    chained_step(d, (a + step * kMmaK).descriptor(), (b + step * kMmaK).descriptor());
}

/// Retires every multiplication of the warpgroup; its results may be read after it, not before, so
/// the registers are operands too.
__device__ __forceinline__ void wait(float (&d)[AccumulatorTile::kRegisters]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : MOETWIN_ACCUMULATOR("+f", d, 0)::"memory");
}

/// Never run, but compiled: says in which registers running sums should lie. A warp's registers are
/// in two banks, by the parity of their numbers, each of which gives one operand a cycle. An
/// accumulator's registers ascend from an even one, and left to itself the compiler gives a sum a
/// register of the same parity as the product that is added to it. As operands of a product of
/// their own, neighbours swapped, sums lie in the other bank.
__device__ __forceinline__ void place_sums(float (&d)[AccumulatorTile::kRegisters]) {
  const uint64_t a = 0;
  const uint64_t b = 0;
  fence();
  MOETWIN_MMA("+f", 1, 1);
  commit();
  wait(d);
}

#undef MOETWIN_MMA
#undef MOETWIN_ACCUMULATOR
#undef MOETWIN_EIGHT

}  // namespace wgmma
}  // namespace moetwin
