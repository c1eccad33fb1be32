// Definitions that all sources share: types, the block size, and the functions that differ between CUDA and C++. A
// compiler for the CPU defines WIRECODEC_EMULATED and CUDA's names.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define THREADS 256u
#define WARPS (THREADS / 32u)
#define FULL_MASK 0xFFFFFFFFu  // all lanes of a warp
#define MAX_U32 0xFFFFFFFFu
#define KERNEL extern "C" __global__ void __launch_bounds__(256)
#define INLINE __device__ __forceinline__

#ifndef WIRECODEC_EMULATED
// Loads a word that another block may store, and acquires what was written before the store.
INLINE u64 load_acquire(const u64* place) {
  u64 word;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(place) : "memory");
  return word;
}

INLINE void store_release(u64* place, u64 word) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(place), "l"(word) : "memory");
}
#endif

template <class T> INLINE T minimum(T a, T b) { return a < b ? a : b; }
template <class T> INLINE T maximum(T a, T b) { return a < b ? b : a; }

INLINE bool is_finite(float x) { return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u; }
INLINE bool is_finite(double x) { return ((u64)__double_as_longlong(x) & 0x7FFull << 52) != 0x7FFull << 52; }

INLINE u32 lane_id() { return threadIdx.x & 31u; }
INLINE u32 warp_id() { return threadIdx.x >> 5; }

// Returns a mask of the lanes before this one.
INLINE u32 lane_mask_lt() { return (1u << lane_id()) - 1u; }

// Returns the sum over the lanes up to and including this one.
template <class T> INLINE T warp_inclusive_sum(T x) {
  for (u32 step = 1; step < 32; step <<= 1) {
    T other = __shfl_up_sync(FULL_MASK, x, step);
    if (lane_id() >= step) x += other;
  }
  return x;
}

// Returns the sum over all lanes, to all of them. For integers only, because the order differs from that of the
// specification.
template <class T> INLINE T warp_sum(T x) {
  for (u32 step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(FULL_MASK, x, step);
  return x;
}

// Returns the sum over the threads before this one, and the sum over all of them; `parts` is shared memory of WARPS
// + 1.
template <class T> INLINE T block_exclusive_sum(T x, T* parts, T* total) {
  T inclusive = warp_inclusive_sum(x);
  if (lane_id() == 31) parts[warp_id()] = inclusive;
  __syncthreads();
  T before = inclusive - x;
  T sum = 0;
  for (u32 w = 0; w < WARPS; w++) {
    if (w == warp_id()) before += sum;
    sum += parts[w];
  }
  *total = sum;
  __syncthreads();
  return before;
}
