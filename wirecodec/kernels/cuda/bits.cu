// Bitmaps from indices and back, and adding at indices.
#include "lookback.cuh"

#define ITEMS 4u
#define TILE (THREADS * ITEMS)

// Sets the bits `indices` in zeroed words.
KERNEL set_bits(const u32* indices, u32 size, const u32* count, u32* words) {
  const u32 n = count ? smaller(*count, size) : size;
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < n) atomicOr(&words[indices[i] >> 5], 1u << (indices[i] & 31));
}

// The numbers of the set bits of `size` words, ascending, as many as there is room for. `found[0]`: how many
// there are; `found[1]`: whether one of them is `d` or more. `states` and `tickets` are zeroed.
KERNEL positions(const u32* words, u32 size, u32 d, u32* indices, u32 room, u64* states, u32* tickets, u32* found) {
  __shared__ u32 parts[WARPS + 1];
  __shared__ u32 shared;
  __shared__ u64 tiles_before;
  const u32 tile = take_tile(tickets, &shared);
  const u32 first = tile * TILE + threadIdx.x * ITEMS;
  u32 held[ITEMS], sum = 0;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    held[j] = first + j < size ? words[first + j] : 0u;
    sum += (u32)__popc(held[j]);
  }
  u32 all;
  u32 at = sum_before(sum, parts, &all);
  if (warp_of() == 0) {
    const u64 before = sum_before_tile(states, tile, all);
    if (lane_of() == 0) {
      tiles_before = before;
      if ((u64)(tile + 1) * TILE >= size) found[0] = (u32)before + all;
    }
  }
  __syncthreads();
  at += (u32)tiles_before;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    for (u32 word = held[j]; word; word &= word - 1) {
      const u32 index = 32 * (first + j) + (u32)__ffs((i32)word) - 1;
      if (index >= d) found[1] = 1;
      if (at < room) indices[at] = index;
      at++;
    }
  }
}

// out[indices[i]] += scale * values[i]: the product is rounded, then the sum. Indices are unique. `scale`: its
// bits in the type of `out`.
KERNEL add_at_f32(float* out, const u32* indices, const float* values, u32 size, u32 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[indices[i]] = out[indices[i]] + __uint_as_float(scale) * values[i];
}

KERNEL add_at_f64(double* out, const u32* indices, const double* values, u32 size, u64 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[indices[i]] = out[indices[i]] + __longlong_as_double((i64)scale) * values[i];
}

// The same of all elements: without indices.
KERNEL add_all_f32(float* out, const float* values, u32 size, u32 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = out[i] + __uint_as_float(scale) * values[i];
}

KERNEL add_all_f64(double* out, const double* values, u32 size, u64 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = out[i] + __longlong_as_double((i64)scale) * values[i];
}
