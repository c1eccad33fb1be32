// Selects the elements that pass a rule, as a bitmap and as ascending indices with their values.
//
// An element's key is its word under a mask: without the sign it is the magnitude, which orders as integers do. Keys
// above `rule[0]` pass, and the first `rule[1]` of those equal to it. Both are in the device's memory, where a
// search may have written them.
//
// One kernel reads the array and writes a bit per element that reaches `rule[0]`; its warps are independent of each
// other. A second kernel reads the bits, and of the array only what they name.
#pragma once
#include "lookback.cuh"

#define FLAG_ROWS 32u  // rows of 32 elements per warp, of which a lane stores one as a word
#define FLAG_LOADED 8u // loads of a thread that are in flight
#define FLAG_TILE (THREADS * FLAG_ROWS)
#define SPARSE 4u      // words of the bitmap per thread where few elements pass
#define DENSE 1u       // where most pass
#define STAGED 2048u
#define HALF 31  // bits of each of the two counts in a look-back word

struct Place {
  u32* reach;    // the bitmap
  u64* states;   // look-back state per tile
  u32* tickets;
  u32* found;    // how many elements pass; the first of them that is infinite or NaN, or MAX_U32
};

struct Output {
  u32* indices;  // of the elements that pass
  u32 capacity;  // maximum number to write
  u64 infinity;  // the key of infinity; 0 for no check
};

// Words in memory.
template <class W> struct Words {
  const W* words;
  INLINE W at(u32 i) const { return words[i]; }
};

// The sum of two arrays, rounded, which is stored as it is read.
struct Sums32 {
  const float *gradient, *residual;
  u32* total;
  INLINE u32 at(u32 i) const { return total[i] = __float_as_uint(gradient[i] + residual[i]); }
};

struct Sums64 {
  const double *gradient, *residual;
  u64* total;
  INLINE u64 at(u32 i) const { return total[i] = (u64)__double_as_longlong(gradient[i] + residual[i]); }
};

// Marks the elements that reach rule[0] in one tile of FLAG_TILE, and prepares what `compact_tile` needs.
template <class W, class Source>
INLINE void flag_tile(const Source& source, u32 size, W mask, const u64* rule, const Place& place, u32 tile) {
  if (tile == 0 && threadIdx.x == 0) *place.tickets = place.found[0] = 0, place.found[1] = MAX_U32;
  if (threadIdx.x == 0) place.states[tile] = 0;  // fewer are needed where few pass
  const u32 first = tile * FLAG_TILE + warp_id() * 32 * FLAG_ROWS;
  if (first >= size) return;
  const W threshold = (W)rule[0];
  u32 mine = 0;
  if (size - first >= 32 * FLAG_ROWS) {
#pragma unroll
    for (u32 row = 0; row < FLAG_ROWS; row += FLAG_LOADED) {
      W loaded[FLAG_LOADED];
#pragma unroll
      for (u32 j = 0; j < FLAG_LOADED; j++) loaded[j] = source.at(first + 32 * (row + j) + lane_id());
#pragma unroll
      for (u32 j = 0; j < FLAG_LOADED; j++) {
        const u32 word = __ballot_sync(FULL_MASK, (W)(loaded[j] & mask) >= threshold);
        if (lane_id() == row + j) mine = word;
      }
    }
  } else {
    for (u32 row = 0; row < FLAG_ROWS && first + 32 * row < size; row++) {
      const u32 i = first + 32 * row + lane_id();
      const bool reaches = i < size && (W)(source.at(i) & mask) >= threshold;
      const u32 word = __ballot_sync(FULL_MASK, reaches);
      if (lane_id() == row) mine = word;
    }
  }
  const u32 at = first / 32 + lane_id();
  if (at < (size + 31) / 32) place.reach[at] = mine;
}

struct CompactShared {
  u32 staged[STAGED];
  u64 parts[WARPS + 1];
  u64 before;
  u32 tile;
};

// Returns which of a word's elements, from `first` on, are equal to the threshold. The lanes of a warp call it
// together, each with its own word.
template <class W, class Source>
INLINE u32 find_ties(const Source& source, u32 word, u32 first, W mask, W threshold) {
  u32 ties = 0;
  for (u32 row = 0; row < 32; row += FLAG_LOADED) {
    bool same[FLAG_LOADED];
#pragma unroll
    for (u32 j = 0; j < FLAG_LOADED; j++) {
      const u32 bits = __shfl_sync(FULL_MASK, word, row + j), begin = __shfl_sync(FULL_MASK, first, row + j);
      same[j] = (bits >> lane_id() & 1) && (W)(source.at(begin + lane_id()) & mask) == threshold;
    }
#pragma unroll
    for (u32 j = 0; j < FLAG_LOADED; j++) {
      const u32 found = __ballot_sync(FULL_MASK, same[j]);
      if (lane_id() == row + j) ties = found;
    }
  }
  return ties;
}

// Returns the lowest n set bits of a word.
INLINE u32 keep_lowest(u32 word, u32 n) {
  u32 rest = word;
  for (u32 j = 0; j < n && rest; j++) rest &= rest - 1;
  return word ^ rest;
}

// Writes indices and values of the elements that pass in a tile of ITEMS words per thread, and corrects its bitmap if there are ties too many. If
// `cleared` is not null, these elements are set to 0 there.
template <u32 ITEMS, class W, class Source>
INLINE void compact_tile(const Source& source, u32 size, const u32* numbers, W mask, const u64* rule, const Place& place,
                         const Output& out, W* values, W* cleared, CompactShared* shared) {
  const u32 tile = take_tile(place.tickets, &shared->tile), words = (size + 31) / 32;
  if (tile > 0 && tile * THREADS * ITEMS >= words) return;
  const W threshold = (W)rule[0];
  const u32 limit = (u32)minimum(rule[1], (u64)MAX_U32), first = (tile * THREADS + threadIdx.x) * ITEMS;
  u32 word[ITEMS], ties[ITEMS];
  u64 sum = 0;
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    word[j] = first + j < words ? place.reach[first + j] : 0u;
    ties[j] = limit < MAX_U32 ? find_ties(source, word[j], 32 * (first + j), mask, threshold) : 0u;
    sum += (u64)__popc(word[j] ^ ties[j]) << HALF | (u64)__popc(ties[j]);
  }
  u64 all;
  const u64 inside = block_exclusive_sum(sum, shared->parts, &all);
  if (warp_id() == 0) {
    const u64 before = tile_exclusive_sum(place.states, tile, all);
    if (lane_id() == 0) {
      shared->before = before;
      if ((u64)(tile + 1) * THREADS * ITEMS >= words) {
        const u64 found = before + all;
        place.found[0] = (u32)(found >> HALF) + minimum((u32)(found & ((1u << HALF) - 1)), limit);
      }
    }
  }
  __syncthreads();
  const u64 low = (1u << HALF) - 1, before = shared->before, mine = before + inside, last = before + all;
  u32 equal = (u32)(mine & low);
#pragma unroll
  for (u32 j = 0; j < ITEMS; j++) {
    if (ties[j] == 0) continue;
    const u32 kept = keep_lowest(ties[j], equal < limit ? limit - equal : 0);
    equal += (u32)__popc(ties[j]);
    word[j] ^= ties[j] ^ kept;
    place.reach[first + j] = word[j];
  }
  // Ranks count from the first element that passes in this tile.
  const u32 start = (u32)(before >> HALF) + minimum((u32)(before & low), limit);
  const u32 total = (u32)(last >> HALF) + minimum((u32)(last & low), limit) - start;
  u32 rank = (u32)(mine >> HALF) + minimum((u32)(mine & low), limit) - start;
  for (u32 begin = 0; begin < total; begin += STAGED) {
#pragma unroll
    for (u32 j = 0; j < ITEMS; j++)
      for (; word[j] && rank < begin + STAGED; word[j] &= word[j] - 1)
        shared->staged[rank++ - begin] = 32 * (first + j) + (u32)__ffs((i32)word[j]) - 1;
    __syncthreads();
    for (u32 k = threadIdx.x; k < minimum(total - begin, STAGED); k += THREADS) {
      const u32 i = shared->staged[k], at = start + begin + k;
      const W value = source.at(i);
      if (at < out.capacity) {
        out.indices[at] = numbers ? numbers[i] : i;
        values[at] = value;
      }
      if (out.infinity && (u64)(value & mask) >= out.infinity) atomicMin(&place.found[1], i);
      if (cleared) cleared[i] = 0;
    }
    __syncthreads();
  }
}
