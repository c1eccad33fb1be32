// The k-th largest key, by counting digits of 11 bits from the top; `select` breaks ties.
//
// The state of a search is in the device's memory. Every kernel reads there whether it has work, so the host
// launches a fixed sequence and never waits. When the remaining elements fit a buffer, `select` copies them there,
// and the search continues among them.
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

template <class W> INLINE void count_keys(const Search* search, const W* words, u32 size, u32* counts, u32* shared) {
  for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) shared[i] = 0;
  __syncthreads();
  const u64 prefix = search->prefix;
  const u32 left = (u32)search->left, shift = left > DIGIT ? left - DIGIT : 0;
  const W key_bits = (W)((W)~(W)0 >> 1);
  const u32 step = gridDim.x * THREADS;
  for (u64 i = blockIdx.x * THREADS + threadIdx.x; i < size; i += 4ull * step) {
    W loaded[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++) loaded[j] = i + (u64)j * step < size ? (W)(words[i + (u64)j * step] & key_bits) : (W)0;
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

#define COUNT(name, W)                                                                         \
  KERNEL name(const Search* search, const W* words, u32 size, const u32* count, u32* counts) { \
    __shared__ u32 shared[DIGITS];                                                             \
    if (search->needs_count == 0) return;                                                      \
    count_keys<W>(search, words, count ? minimum(*count, size) : size, counts, shared);        \
  }

COUNT(count_digits_u16, u16)
COUNT(count_digits_u32, u32)
COUNT(count_digits_u64, u64)

// One block. Begins a search for the k-th of `size` keys of `width` bits.
KERNEL begin_search(Search* search, u64 k, u64 size, u32 width) {
  if (threadIdx.x) return;
  *search = Search{0, 0, 0, width, k, size, 0, 1, 1, 0};
}

// One block. Finds the digit of the k-th key from `counts`, and zeroes them for the next digit. The search continues
// until all keys with the prefix, and those above, fit `capacity`, or no bits are left.
KERNEL pick_digit(Search* search, u32* counts, u32 capacity) {
  __shared__ u32 parts[WARPS + 1];
  __shared__ u32 zeros;
  if (search->needs_count == 0) return;
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
  u32 before = block_exclusive_sum(sum, parts, &all);
  if (threadIdx.x == 0) zeros = total - all;  // digit 0 is not counted
  __syncthreads();
  if (top + 1 == DIGITS / THREADS) mine[DIGITS / THREADS - 1] = zeros;
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

// One block. Continues the search among the selected elements.
KERNEL search_selected(Search* search) {
  if (threadIdx.x) return;
  search->needs_count = search->left > 0;
  if (search->needs_select) search->selected = search->count_above + (search->left ? search->total : search->rank);
}

// One block. Sets a rule that selects keys from `margin` below the last search's threshold, if there was one.
KERNEL begin_warm(Search* search, u64 margin) {
  if (threadIdx.x) return;
  const u64 last = search->threshold;
  search->threshold = last > margin ? last - margin : 1;
  search->ties = MAX_U32;
}

// One block. Sets a rule that selects keys that reach another search's threshold and are not 0.
KERNEL begin_at(Search* search, const u64* rule) {
  if (threadIdx.x) return;
  search->threshold = maximum(rule[0], 1ull);
  search->ties = MAX_U32;
}

// One block. Tests whether the selected elements hold the top k. If they do, the search continues among them, else
// it starts over. `found` is the number of selected elements, `capacity` how many of them could be kept. If `fewer`
// is set and at most k were selected, the search has ended and the rule stays.
KERNEL check_warm(Search* search, const u32* found, u64 k, u64 size, u32 width, u32 capacity, u32 fewer) {
  if (threadIdx.x) return;
  const u64 selected = found[0];
  const bool ended = fewer && selected <= k;
  const bool holds = ended || (k <= selected && selected <= capacity);
  const u64 total = holds ? selected : size;
  *search = Search{search->threshold, MAX_U32, 0, ended ? 0 : width, k, total, 0, !holds, !holds, selected};
}
