// The counter hash of all random draws (formats/SPEC.md, section 5).
#pragma once
#include "common.cuh"

// Returns the i-th u32 of the stream whose halves are `low` and `high`.
INLINE u32 draw32(u32 low, u32 high, u32 i) {
  u32 x = i * 0x9E3779B9u + low;
  x ^= x >> 16;
  x *= 0x21F0AAADu;
  x ^= x >> 15;
  x += high;
  x *= 0xD35A2D97u;
  return x ^ (x >> 15);
}

// The finaliser of splitmix64.
INLINE u64 splitmix64_finalize(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Returns the first of the two values in block `block` of 512 that a thread of 256 processes. They share a draw: the
// first uses its upper half, the second its lower half.
INLINE u32 first_of_pair() { return threadIdx.x / 16 * 32 + threadIdx.x % 16; }
INLINE u32 draw_of_pair(u32 low, u32 high, u32 block) {
  return draw32(low, high, 256 * block + threadIdx.x / 16 * 16 + threadIdx.x % 16);
}
