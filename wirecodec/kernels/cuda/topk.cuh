// The k-th largest key, by counting digits of 11 bits from the top; `select` breaks ties.
//
// The state of a search is in the device's memory. Every kernel reads there whether it has work, so the host
// launches a fixed sequence and never waits. When the remaining elements fit a buffer, `select` copies them there,
// and the search continues among them.
#pragma once
#include "common.cuh"

#define DIGIT 11u
#define DIGITS 2048u

struct Search {
  u64 threshold, ties;  // the rule for `select`: keys above pass, and so many equal ones
  u64 prefix;           // of the k-th key, without its low `left` bits
  u64 left;
  u64 rank;             // of the k-th key among those with that prefix; the largest has rank 1
  u64 total;            // keys with that prefix
  u64 count_above;      // keys above all those
  u64 needs_count;      // whether the next digit must be counted
  u64 needs_select;     // whether `select` must apply the rule; else it has done so
  u64 selected;         // number of selected elements
};

// Counts the digits of keys with the search's prefix in `counts`; `shared` has DIGITS words. The block is one of
// `blocks` that share the array.
template <class W, class Source>
INLINE void count_keys(const Search* search, const Source& source, u32 size, u32* counts, u32* shared, u32 block,
                       u32 blocks) {
  for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) shared[i] = 0;
  __syncthreads();
  const u64 prefix = search->prefix;
  const u32 left = (u32)search->left, shift = left > DIGIT ? left - DIGIT : 0;
  const W key_bits = (W)((W)~(W)0 >> 1);
  const u32 step = blocks * THREADS;
  for (u64 i = block * THREADS + threadIdx.x; i < size; i += 4ull * step) {
    W loaded[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++)
      loaded[j] = i + (u64)j * step < size ? (W)(source.at((u32)(i + (u64)j * step)) & key_bits) : (W)0;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      const u32 digit = (u32)((u64)loaded[j] >> shift) & (DIGITS - 1) & ((1u << (left - shift)) - 1);
      // Digit 0 follows from the others. Zeros, which may be many, all have it.
      if (digit && (u64)loaded[j] >> left == prefix) atomicAdd(&shared[digit], 1u);
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < DIGITS; i += THREADS)
    if (shared[i]) atomicAdd(&counts[i], shared[i]);
}

struct PickShared {
  u32 parts[WARPS + 1];
  u32 zeros;
};

// Finds the digit of the k-th key from `counts`, and zeroes them for the next digit. One block calls it.
INLINE void find_digit(Search* search, u32* counts, u32 capacity, PickShared* shared) {
  const u32 rank = (u32)search->rank, total = (u32)search->total, above = (u32)search->count_above;
  const u32 left = (u32)search->left, shift = left > DIGIT ? left - DIGIT : 0;
  const u64 prefix = search->prefix;
  u32 mine[DIGITS / THREADS], sum = 0;
  const u32 top = DIGITS - 1 - threadIdx.x * (DIGITS / THREADS);  // threads go from the highest digit down
  for (u32 j = 0; j < DIGITS / THREADS; j++) {
    mine[j] = counts[top - j];
    counts[top - j] = 0;
    sum += mine[j];
  }
  u32 all;
  u32 before = block_exclusive_sum(sum, shared->parts, &all);
  if (threadIdx.x == 0) shared->zeros = total - all;  // digit 0 is not counted
  __syncthreads();
  if (top + 1 == DIGITS / THREADS) mine[DIGITS / THREADS - 1] = shared->zeros;
  for (u32 j = 0; j < DIGITS / THREADS; j++) {
    if (before < rank && rank <= before + mine[j]) {
      const u64 found = prefix << (left - shift) | (top - j);
      const u32 inside = rank - before;
      search->prefix = found;
      search->left = shift;
      search->rank = inside;
      search->total = mine[j];
      search->count_above = above + before;
      search->threshold = found << shift;
      search->ties = shift ? (u64)MAX_U32 : inside;
      search->needs_count = shift && (u64)above + before + mine[j] > capacity;
    }
    before += mine[j];
  }
}

// Begins a search for the k-th of `size` keys of `width` bits.
INLINE void begin(Search* search, u64 k, u64 size, u32 width) { *search = Search{0, 0, 0, width, k, size, 0, 1, 1, 0}; }

// Continues the search among the selected elements.
INLINE void go_on(Search* search) {
  search->needs_count = search->left > 0;
  if (search->needs_select) search->selected = search->count_above + (search->left ? search->total : search->rank);
}

// Sets a rule that selects keys from `margin` below the last search's threshold, if there was one.
INLINE void begin_near(Search* search, u64 margin) {
  const u64 last = search->threshold;
  search->threshold = last > margin ? last - margin : 1;
  search->ties = MAX_U32;
}

// Tests whether the selected elements hold the top k. If they do, the search continues among them, else it starts
// over. `selected` elements were found, and `capacity` of them could be kept. If `fewer` is set and at most k were
// selected, the search has ended and the rule stays.
INLINE void check(Search* search, u64 selected, u64 k, u64 size, u32 width, u32 capacity, u32 fewer) {
  const bool ended = fewer && selected <= k;
  const bool holds = ended || (k <= selected && selected <= capacity);
  const u64 total = holds ? selected : size;
  *search = Search{search->threshold, MAX_U32, 0, ended ? 0 : width, k, total, 0, !holds, !holds, selected};
}
