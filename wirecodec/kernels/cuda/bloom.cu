// The Bloom index codec (formats/spec/index/bloom.md): insertion, query of the whole universe, sampling. The 64
// elements of a group share k windows of 8 bytes. So one AND of k rotated words tests all of them.
#include "counter.cuh"
#include "lookback.cuh"

#define STEP 0x9E3779B97F4A7C15ull

INLINE u64 rotate_left(u64 word, u32 count) { return count ? word << count | word >> (64 - count) : word; }

// Reads 8 bytes from byte `at` of a filter of `words` u64, which wraps around.
INLINE u64 window_at(const u64* filter, u64 words, u64 at) {
  const u64 w = at / 8;
  const u32 shift = (u32)(at % 8) * 8;
  if (shift == 0) return filter[w];
  return filter[w] >> shift | filter[w + 1 < words ? w + 1 : 0] << (64 - shift);
}

// Derives the byte and the rotation of a window from half of a hash word.
INLINE u64 window_of(u32 half, u64 length, u32* rotation) {
  *rotation = half & 63;
  return (u64)(half >> 6) * length >> 26;
}

// Sets the bits of (n,) ascending indices in zeroed `filter`, of `words` u64.
KERNEL bloom_insert(const u32* indices, u32 n, u32 k, u64 words, u64* filter) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= n) return;
  u64 z = (u64)(indices[i] >> 6) * (16 * STEP), word = 0;
  for (u32 j = 0; j < k; j++) {
    if (j % 2 == 0) word = splitmix64_finalize(z += STEP); else word >>= 32;
    u32 rotation;
    const u64 at = window_of((u32)word, 8 * words, &rotation);
    const u64 bit = rotate_left(1ull << (indices[i] & 63), (64 - rotation) & 63);
    const u32 shift = (u32)(at % 8) * 8;
    atomicOr(&filter[at / 8], bit << shift);
    if (shift && bit >> (64 - shift)) atomicOr(&filter[at / 8 + 1 < words ? at / 8 + 1 : 0], bit >> (64 - shift));
  }
}

// Tests the elements 0 … d-1. Writes those that the filter holds as a bitmap of u64, and adds their number to
// found[0].
KERNEL bloom_query(const u64* filter, u64 words, u32 k, u32 d, u64* bitmap, u32* found) {
  const u32 group = blockIdx.x * THREADS + threadIdx.x;
  const u32 groups = (d + 63) / 64;
  u64 mask = group < groups ? ~0ull : 0;
  u64 z = (u64)group * (16 * STEP), word = 0;
  for (u32 j = 0; j < k && mask; j++) {
    if (j % 2 == 0) word = splitmix64_finalize(z += STEP); else word >>= 32;
    u32 rotation;
    const u64 at = window_of((u32)word, 8 * words, &rotation);
    mask &= rotate_left(window_at(filter, words, at), rotation);
  }
  if (d % 64 && group == groups - 1) mask &= (1ull << (d % 64)) - 1;
  if (group < groups) bitmap[group] = mask;
  const u32 count_of_warp = warp_sum((u32)__popcll(mask));
  if (lane_id() == 0 && count_of_warp) atomicAdd(found, count_of_warp);
}

// Policy p1 selects r of `total` positives by selection sampling: a draw decides whether the i-th is selected, given
// how many were selected before. One thread decides; all threads compute the draws' high products, 256 at a time.
KERNEL bloom_sample(const u32* positives, u32 total, u32 r, u32 low, u32 high, u32* out) {
  __shared__ u32 ranks[THREADS];
  __shared__ u32 elements[THREADS];
  u32 selected = 0;
  for (u32 first = 0; first < total; first += THREADS) {
    const u32 i = first + threadIdx.x;
    if (i < total) {
      ranks[threadIdx.x] = (u32)((u64)draw32(low, high, i) * (total - i) >> 32);
      elements[threadIdx.x] = positives[i];
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (u32 j = 0; j < minimum(total - first, THREADS); j++)
        if (selected < r && ranks[j] < r - selected) out[selected++] = elements[j];
    __syncthreads();
  }
}
