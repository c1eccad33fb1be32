// CUDA's names for a CPU: only those that the sources in wirecodec/kernels/cuda use.
//
// Every thread is a fiber. Fibers run until they wait: for their block (__syncthreads), for their warp (ballots
// and shuffles), or for another block (load_acquire). The next fiber is drawn at random, so a missing barrier
// shows. Blocks start in a permuted order, and a few of them run alternately.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define WIRECODEC_EMULATED 1
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One section of the library holds all shared memory; the scheduler saves and restores it with each block.
#define __shared__ static __attribute__((section("simt_shared")))

namespace simt {
struct Index { unsigned x, y, z; };
Index thread_index();
Index block_index();
Index grid_size();
void barrier();
void yield();
// Inputs of the lanes of the warp that have not ended, and the mask of these lanes.
const unsigned long long* exchange(unsigned long long mine, unsigned mask, unsigned* there);

template <class T> unsigned long long word_of(T x) {
  unsigned long long word = 0;
  static_assert(sizeof(T) <= sizeof word, "a lane exchanges 64 bits at most");
  memcpy(&word, &x, sizeof x);
  return word;
}
template <class T> T of_word(unsigned long long word) {
  T x;
  memcpy(&x, &word, sizeof x);
  return x;
}
template <class T> T from_lane(T mine, unsigned mask, unsigned lane, bool inside) {
  unsigned there;
  const unsigned long long* all = exchange(word_of(mine), mask, &there);
  return inside ? of_word<T>(all[lane]) : mine;
}
}  // namespace simt

#define threadIdx (simt::thread_index())
#define blockIdx (simt::block_index())
#define gridDim (simt::grid_size())

inline void __syncthreads() { simt::barrier(); }
inline void __threadfence() {}
inline unsigned __ballot_sync(unsigned mask, bool p) {
  unsigned there, found = 0;
  const unsigned long long* all = simt::exchange(p, mask, &there);
  for (unsigned i = 0; i < 32; i++) found |= there >> i & 1 ? (unsigned)(all[i] != 0) << i : 0;
  return found;
}
inline bool __any_sync(unsigned mask, bool p) { return __ballot_sync(mask, p) != 0; }
inline void __syncwarp() { __ballot_sync(0xFFFFFFFFu, false); }
template <class T> T __shfl_sync(unsigned mask, T x, unsigned lane) {
  return simt::from_lane(x, mask, lane & 31, true);
}
template <class T> T __shfl_up_sync(unsigned mask, T x, unsigned step) {
  unsigned lane = threadIdx.x & 31;
  return simt::from_lane(x, mask, lane - step, lane >= step);
}
template <class T> T __shfl_down_sync(unsigned mask, T x, unsigned step) {
  unsigned lane = threadIdx.x & 31;
  return simt::from_lane(x, mask, lane + step, lane + step < 32);
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, unsigned bits) {
  return simt::from_lane(x, mask, ((threadIdx.x & 31) ^ bits) & 31, true);
}

// One fiber runs at a time, so these are atomic.
template <class T> T atomicAdd(T* p, T x) { T old = *p; *p = old + x; return old; }
template <class T> T atomicOr(T* p, T x) { T old = *p; *p = old | x; return old; }
template <class T> T atomicXor(T* p, T x) { T old = *p; *p = old ^ x; return old; }
template <class T> T atomicMin(T* p, T x) { T old = *p; *p = x < old ? x : old; return old; }
template <class T> T atomicMax(T* p, T x) { T old = *p; *p = x > old ? x : old; return old; }
inline unsigned long long load_acquire(const unsigned long long* p) { simt::yield(); return *p; }
inline void store_release(unsigned long long* p, unsigned long long x) { *p = x; simt::yield(); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline unsigned __float_as_uint(float x) { return (unsigned)simt::word_of(x); }
inline float __uint_as_float(unsigned x) { return simt::of_word<float>(x); }
inline long long __double_as_longlong(double x) { return (long long)simt::word_of(x); }
inline double __longlong_as_double(long long x) { return simt::of_word<double>((unsigned long long)x); }
