// Selects the elements that pass a rule, as a bitmap and as ascending indices with their values, in one read of the
// array.
//
// An element's key is its word under a mask: without the sign it is the magnitude, which orders as integers do. Keys
// above `rule[0]` pass, and the first `rule[1]` of those equal to it. Both are in the device's memory, where a
// search may have written them.
#pragma once
#include "lookback.cuh"

#define ITEMS 16u
#define TILE (THREADS * ITEMS)
#define HALF 31  // bits of each of the two counts in a look-back word

struct Counts {
  u32 more[WARPS], same[WARPS];
  u64 before;
  u32 tile;
};

struct Output {
  u32* bitmap;    // a bit per element; or null
  u32* indices;   // of the elements that pass
  u32 capacity;   // maximum number to write
  u32* found;     // how many pass; the first of them that is infinite or NaN, initially MAX_U32
  u64 infinity;   // the key of infinity; 0 for no check
};

// Words in memory.
template <class W> struct Words {
  const W* words;
  INLINE W at(u32 i) const { return words[i]; }
  INLINE void store_unselected(u32, W) const {}
};

// The sum of two arrays, rounded; elements that do not pass are left in `rest`, with zeros elsewhere.
struct Sums32 {
  const float *gradient, *residual;
  u32* rest;
  INLINE u32 at(u32 i) const { return __float_as_uint(gradient[i] + residual[i]); }
  INLINE void store_unselected(u32 i, u32 word) const { rest[i] = word; }
};

struct Sums64 {
  const double *gradient, *residual;
  u64* rest;
  INLINE u64 at(u32 i) const { return (u64)__double_as_longlong(gradient[i] + residual[i]); }
  INLINE void store_unselected(u32 i, u64 word) const { rest[i] = word; }
};

template <class W, class Source>
INLINE void select_tile(const Source& source, u32 size, const u32* numbers, W mask, const u64* rule,
                        const Output& out, W* values, u64* states, u32* tickets, Counts* shared) {
  const u32 tile = take_tile(tickets, &shared->tile);
  if (tile > 0 && tile * TILE >= size) return;
  const W threshold = (W)rule[0];
  const u32 ties = (u32)minimum(rule[1], (u64)MAX_U32);
  const u32 first = tile * TILE + warp_id() * 32 * ITEMS + lane_id();
  W loaded[ITEMS];
  u32 reach[ITEMS], sum_more = 0, sum_same = 0;  // a row of 32 has few elements that reach the threshold, or none
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) loaded[j] = first + 32 * j < size ? source.at(first + 32 * j) : (W)0;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    const W key = loaded[j] & mask;
    reach[j] = __ballot_sync(FULL_MASK, first + 32 * j < size && key >= threshold);
    if (reach[j]) {
      const u32 same = __ballot_sync(FULL_MASK, key == threshold) & reach[j];
      sum_more += (u32)__popc(reach[j] ^ same);
      sum_same += (u32)__popc(same);
    }
  }
  if (lane_id() == 0) shared->more[warp_id()] = sum_more, shared->same[warp_id()] = sum_same;
  __syncthreads();
  if (warp_id() == 0) {
    u64 sum = 0;
    for (u32 w = 0; w < WARPS; w++) sum += (u64)shared->more[w] << HALF | shared->same[w];
    const u64 before = tile_exclusive_sum(states, tile, sum);
    if (lane_id() == 0) {
      shared->before = before;
      if ((u64)(tile + 1) * TILE >= size) {
        const u64 all = before + sum;
        out.found[0] = (u32)(all >> HALF) + minimum((u32)(all & ((1u << HALF) - 1)), ties);
      }
    }
  }
  __syncthreads();
  u32 n = (u32)(shared->before >> HALF), equal_before = (u32)(shared->before & ((1u << HALF) - 1));
  for (u32 w = 0; w < warp_id(); w++) n += shared->more[w], equal_before += shared->same[w];
  u32 row = 0;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    const u32 i = first + 32 * j;
    bool pass = false;
    if (reach[j]) {
      const u32 same = __ballot_sync(FULL_MASK, (W)(loaded[j] & mask) == threshold) & reach[j], more = reach[j] ^ same;
      const u32 rank = equal_before + (u32)__popc(same & lane_mask_lt());
      pass = (more >> lane_id() & 1) || ((same >> lane_id() & 1) && rank < ties);
      const u32 passed = same ? __ballot_sync(FULL_MASK, pass) : more;
      if (lane_id() == j) row = passed;
      if (pass) {
        const u32 at = n + (u32)__popc(more & lane_mask_lt()) + minimum(rank, ties);
        if (at < out.capacity) {
          out.indices[at] = numbers ? numbers[i] : i;
          values[at] = loaded[j];
        }
        if (out.infinity && (u64)(loaded[j] & mask) >= out.infinity) atomicMin(&out.found[1], i);
      }
      n += (u32)__popc(more);
      equal_before += (u32)__popc(same);
    }
    if (i < size) source.store_unselected(i, pass ? (W)0 : loaded[j]);
  }
  const u32 word = (first - lane_id()) / 32 + lane_id();
  if (out.bitmap && lane_id() < ITEMS && word < (size + 31) / 32) out.bitmap[word] = row;
}
