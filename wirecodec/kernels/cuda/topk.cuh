// The k-th largest key, by counting digits of 11 bits from the top; `select` breaks ties.
//
// The state of a search is in the device's memory. Every kernel reads there whether it has work, so the host
// launches a fixed sequence and never waits. When the remaining elements fit a buffer, `select` copies them there,
// and the search continues among them.
//
// The first search guesses a threshold from a sample, later ones from the last search. A guess is never trusted: if
// the elements that reach it are fewer than k, or too many, all keys are counted.
#pragma once
#include "common.cuh"

#define DIGIT 11u
#define DIGITS 2048u
#define SAMPLES 8192u
#define COUNTED 8u  // loads of a thread that are in flight

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
  for (u64 first = block * THREADS + warp_id() * 32; first < size; first += (u64)COUNTED * step) {
    W loaded[COUNTED];
#pragma unroll
    for (u32 j = 0; j < COUNTED; j++) {
      const u64 i = first + (u64)j * step + lane_id();
      loaded[j] = i < size ? (W)(source.at((u32)i) & key_bits) : (W)0;
    }
#pragma unroll
    for (u32 j = 0; j < COUNTED; j++) {
      // Digit 0 follows from the others. Zeros, which may be many, all have it.
      u32 digit = (u32)((u64)loaded[j] >> shift) & (DIGITS - 1) & ((1u << (left - shift)) - 1);
      if ((u64)loaded[j] >> left != prefix) digit = 0;
      const u32 counted = __ballot_sync(FULL_MASK, digit != 0);
      if (counted == 0) continue;
      // Keys close to each other have one digit, which a lane adds for all.
      const u32 lead = (u32)__ffs((i32)counted) - 1, common = __shfl_sync(FULL_MASK, digit, lead);
      const u32 same = __ballot_sync(FULL_MASK, digit == common);
      if (lane_id() == lead) atomicAdd(&shared[common], (u32)__popc(same));
      else if (digit && digit != common) atomicAdd(&shared[digit], 1u);
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < DIGITS; i += THREADS)
    if (shared[i]) atomicAdd(&counts[i], shared[i]);
}

struct CountShared {
  u32 digits[DIGITS];
  u32 parts[WARPS + 1];
  u32 zeros, is_last;
};

// Returns whether this block is the last of `blocks` that call this; it sees what the others wrote before. `done` is
// zeroed, and is zeroed again.
INLINE bool is_last_block(u32* done, u32 blocks, u32* shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    *shared = atomicAdd(done, 1u) + 1 == blocks;
    if (*shared) *done = 0;
  }
  __syncthreads();
  return *shared != 0;
}

// Finds the digit of the k-th key from `counts`, and zeroes them for the next digit. One block calls it.
INLINE void find_digit(Search* search, volatile u32* counts, u32 capacity, CountShared* shared) {
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

// Counts a digit of all keys; the last block finds that of the k-th key. `counts` has DIGITS words and one more, all
// zeroed. The search continues until all keys with the prefix, and those above, fit `capacity`, or no bits are left.
template <class W, class Source>
INLINE void find_next_digit(Search* search, const Source& source, u32 size, u32* counts, u32 capacity,
                            CountShared* shared, u32 block, u32 blocks) {
  count_keys<W>(search, source, size, counts, shared->digits, block, blocks);
  if (is_last_block(&counts[DIGITS], blocks, &shared->is_last)) find_digit(search, counts, capacity, shared);
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

// One element of each of `samples` stretches.
template <class W, class Source> struct Sampled {
  const Source& source;
  u32 size, samples;
  INLINE W at(u32 i) const {
    return source.at((u32)((u64)i * size / samples) + (i * 2654435761u >> 8) % (size / samples));
  }
};

// Sets a rule that selects keys from the rank-th of a sample on. One block calls it.
template <class W, class Source>
INLINE void guess(Search* search, const Source& source, u32 size, u32 rank, u32 width, u32* counts,
                  CountShared* shared) {
  const u32 samples = minimum(size, SAMPLES);
  if (threadIdx.x == 0) begin(search, rank, samples, width);
  __syncthreads();
  for (u32 digit = 0; digit < 2; digit++) {
    count_keys<W>(search, Sampled<W, Source>{source, size, samples}, samples, counts, shared->digits, 0, 1);
    __syncthreads();
    if (search->needs_count) find_digit(search, counts, 0, shared);
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    search->threshold = maximum(search->threshold, 1ull);
    search->ties = MAX_U32;
  }
}
