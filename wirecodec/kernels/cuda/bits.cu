// Bitmaps from indices and back, and addition at indices.
#include "lookback.cuh"

#define ITEMS 4u
#define TILE (THREADS * ITEMS)

// Sets the bits `indices` in zeroed words.
KERNEL set_bits(const u32* indices, u32 size, u32* words) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) atomicOr(&words[indices[i] >> 5], 1u << (indices[i] & 31));
}

// Writes the positions of the set bits of `size` words, ascending, up to `capacity` of them. `found[0]` receives
// their number; `found[1]` is set if a position is `d` or more. `states` and `tickets` must be zeroed.
KERNEL find_set_bits(const u32* words, u32 size, u32 d, u32* indices, u32 capacity, u64* states, u32* tickets,
                 u32* found) {
  __shared__ u32 parts[WARPS + 1];
  __shared__ u32 shared;
  __shared__ u64 tiles_before;
  const u32 tile = take_tile(tickets, &shared);
  const u32 first = tile * TILE + threadIdx.x * ITEMS;
  u32 loaded[ITEMS], sum = 0;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    loaded[j] = first + j < size ? words[first + j] : 0u;
    sum += (u32)__popc(loaded[j]);
  }
  u32 all;
  u32 at = block_exclusive_sum(sum, parts, &all);
  if (warp_id() == 0) {
    const u64 before = tile_exclusive_sum(states, tile, all);
    if (lane_id() == 0) {
      tiles_before = before;
      if ((u64)(tile + 1) * TILE >= size) found[0] = (u32)before + all;
    }
  }
  __syncthreads();
  at += (u32)tiles_before;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    for (u32 word = loaded[j]; word; word &= word - 1) {
      const u32 index = 32 * (first + j) + (u32)__ffs((i32)word) - 1;
      if (index >= d) found[1] = 1;
      if (at < capacity) indices[at] = index;
      at++;
    }
  }
}

// Computes out[indices[i]] += scale * values[i]; the product is rounded, then the sum. Indices are unique. `scale`
// holds the raw bits of a number in the type of `out`.
KERNEL add_at_f32(float* out, const u32* indices, const float* values, u32 size, u32 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[indices[i]] = out[indices[i]] + __uint_as_float(scale) * values[i];
}

KERNEL add_at_f64(double* out, const u32* indices, const double* values, u32 size, u64 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[indices[i]] = out[indices[i]] + __longlong_as_double((i64)scale) * values[i];
}

// Does the same for all elements.
KERNEL add_all_f32(float* out, const float* values, u32 size, u32 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = out[i] + __uint_as_float(scale) * values[i];
}

KERNEL add_all_f64(double* out, const double* values, u32 size, u64 scale) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = out[i] + __longlong_as_double((i64)scale) * values[i];
}

// Computes total[i] /= divisor, rounded.
KERNEL divide_f32(float* total, u32 size, u32 divisor) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) total[i] = total[i] / __uint_as_float(divisor);
}

KERNEL divide_f64(double* total, u32 size, u64 divisor) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) total[i] = total[i] / __longlong_as_double((i64)divisor);
}

// Computes edges[i], the number of ascending indices below (i + 1) * chunk.
KERNEL count_below_multiples(const u32* indices, u32 size, u32 chunk, u32 cuts, u32* edges) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= cuts) return;
  const u64 edge = (u64)(i + 1) * chunk;
  u32 low = 0, high = size;
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    if (indices[middle] < edge) low = middle + 1; else high = middle;
  }
  edges[i] = low;
}

// Computes counts[i], the number of ascending indices below edges[i].
KERNEL count_below(const u32* indices, u32 size, const u32* edges, u32 cuts, u32* counts) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= cuts) return;
  u32 low = 0, high = size;
  while (low < high) {
    const u32 middle = low + (high - low) / 2;
    if (indices[middle] < edges[i]) low = middle + 1; else high = middle;
  }
  counts[i] = low;
}

// Subtracts `base` from indices; the result is u32 or, if all fit, u16.
KERNEL subtract_base_u32(const u32* indices, u32 size, u32 base, u32* out) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = indices[i] - base;
}

KERNEL subtract_base_u16(const u32* indices, u32 size, u32 base, u16* out) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = (u16)(indices[i] - base);
}

// Finds the first word whose bits under `exponent` are all set, by an atomic minimum in first[0].
template <class W> INLINE void find_nonfinite(const W* words, u32 size, W exponent, u32* first) {
  for (u64 i = blockIdx.x * THREADS + threadIdx.x; i < size; i += gridDim.x * THREADS)
    if ((words[i] & exponent) == exponent) atomicMin(first, (u32)i);
}

KERNEL nonfinite_u16(const u16* words, u32 size, u64 exponent, u32* first) {
  find_nonfinite<u16>(words, size, (u16)exponent, first);
}
KERNEL nonfinite_u32(const u32* words, u32 size, u64 exponent, u32* first) {
  find_nonfinite<u32>(words, size, (u32)exponent, first);
}
KERNEL nonfinite_u64(const u64* words, u32 size, u64 exponent, u32* first) {
  find_nonfinite<u64>(words, size, exponent, first);
}
