// The one host/device macro. Everything in common/ that both machines call is marked with it, so
// that g++, clang and nvcc compile the same source.
#pragma once

#if defined(__CUDACC__)
#define MOETWIN_HD __host__ __device__ __forceinline__
#else
#define MOETWIN_HD inline
#endif

// A warp-role program: device code for the sm90 machine, an ordinary function for the simulator.
#if defined(__CUDACC__)
#define MOETWIN_ROLE __device__ __forceinline__
#else
#define MOETWIN_ROLE inline
#endif

// True while nvcc compiles device code: the few places where the two sides differ in how (never in
// what) they compute ask this, not a macro of their own.
#if defined(__CUDA_ARCH__)
#define MOETWIN_DEVICE_CODE 1
#else
#define MOETWIN_DEVICE_CODE 0
#endif

// Loops over register arrays must vanish on the GPU; some others must stay loops.
#if defined(__CUDACC__)
#define MOETWIN_UNROLL _Pragma("unroll")
#define MOETWIN_NO_UNROLL _Pragma("unroll 1")
#else
#define MOETWIN_UNROLL
#define MOETWIN_NO_UNROLL
#endif
