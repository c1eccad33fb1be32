// The k-th largest key, by counting digits of 11 bits from the top; ties are for `select` to break.
//
// A search stands in the device's memory, and every step reads there whether it is wanted, so that the host
// launches a fixed sequence and waits for nothing. Once what is left fits a buffer, `select` takes it there,
// and the rest of the search goes on among so few.
#include "common.cuh"

#define DIGIT 11u
#define DIGITS 2048u

struct Search {
  u64 least, ties;  // the rule for `select`: keys above, and how many of those equal
  u64 prefix;       // of the k-th key, without its low `left` bits
  u64 left;
  u64 rank;         // of the k-th among the keys with that prefix, from the largest; 1 is first
  u64 total;        // keys with that prefix
  u64 above;        // keys above all those
  u64 open;         // whether the next digit is to be counted
  u64 sweep;        // whether `select` is to take what the rule says; it has been done otherwise
  u64 taken;        // how many that are
};

template <class W> INLINE void count_keys(const Search* search, const W* words, u32 size, u32* counts, u32* shared) {
  for (u32 i = threadIdx.x; i < DIGITS; i += THREADS) shared[i] = 0;
  __syncthreads();
  const u64 prefix = search->prefix;
  const u32 left = (u32)search->left, shift = left > DIGIT ? left - DIGIT : 0;
  const W key_bits = (W)((W)~(W)0 >> 1);
  const u32 step = gridDim.x * THREADS;
  for (u64 i = blockIdx.x * THREADS + threadIdx.x; i < size; i += 4ull * step) {
    W held[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++) held[j] = i + (u64)j * step < size ? (W)(words[i + (u64)j * step] & key_bits) : (W)0;
#pragma unroll
    for (u32 j = 0; j < 4; j++) {
      const u32 digit = (u32)((u64)held[j] >> shift) & (DIGITS - 1) & ((1u << (left - shift)) - 1);
      // Digit 0 follows from the others; zeros, of which there may be many, all have it.
      if (digit && (u64)held[j] >> left == prefix) atomicAdd(&shared[digit], 1u);
    }
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < DIGITS; i += THREADS)
    if (shared[i]) atomicAdd(&counts[i], shared[i]);
}

#define COUNT(name, W)                                                                                      \
  KERNEL name(const Search* search, const W* words, u32 size, const u32* count, u32* counts) {              \
    __shared__ u32 shared[DIGITS];                                                                          \
    if (search->open == 0) return;                                                                          \
    count_keys<W>(search, words, count ? smaller(*count, size) : size, counts, shared);                     \
  }

COUNT(count_digits_u16, u16)
COUNT(count_digits_u32, u32)
COUNT(count_digits_u64, u64)

// One block. Begins a search for the k-th of `size` keys of `width` bits.
KERNEL begin_search(Search* search, u64 k, u64 size, u32 width) {
  if (threadIdx.x) return;
  *search = Search{0, 0, 0, width, k, size, 0, 1, 1, 0};
}

// One block. The digit of the k-th key, from `counts`, which are zeroed for the next one. The search goes on
// until all keys with the prefix, and those above, fit `room`, or no bits are left.
KERNEL pick_digit(Search* search, u32* counts, u32 room) {
  __shared__ u32 upto[WARPS + 1];
  __shared__ u32 zeros;
  if (search->open == 0) return;
  const u32 rank = (u32)search->rank, total = (u32)search->total, above = (u32)search->above;
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
  u32 before = sum_before(sum, upto, &all);
  if (threadIdx.x == 0) zeros = total - all;  // of digit 0, not counted
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
      search->above = above + before;
      search->least = found << shift;
      search->ties = shift ? (u64)ALL : inside;
      search->open = shift && (u64)above + before + mine[j] > room;
    }
    before += mine[j];
  }
}

// One block. The search goes on among those that were taken.
KERNEL search_taken(Search* search) {
  if (threadIdx.x) return;
  search->open = search->left > 0;
  if (search->sweep) search->taken = search->above + (search->left ? search->total : search->rank);
}

// One block. A rule that takes what is at least `margin` below the threshold of the search before, if any.
KERNEL begin_warm(Search* search, u64 margin) {
  if (threadIdx.x) return;
  const u64 last = search->least;
  search->least = last > margin ? last - margin : 1;
  search->ties = ALL;
}

// One block. A rule that takes what reaches that of another search, and is not 0.
KERNEL begin_at(Search* search, const u64* rule) {
  if (threadIdx.x) return;
  search->least = larger(rule[0], 1ull);
  search->ties = ALL;
}

// One block. Whether what that rule took holds the top k: then the search goes on among it, else from the
// beginning. `found`: how many were taken; `room`: how many of them could be kept. Where `fewer` will do, it has
// ended if no more than k were taken: the rule stays.
KERNEL judge_warm(Search* search, const u32* found, u64 k, u64 size, u32 width, u32 room, u32 fewer) {
  if (threadIdx.x) return;
  const u64 taken = found[0];
  const bool ended = fewer && taken <= k;
  const bool holds = ended || (k <= taken && taken <= room);
  *search = Search{search->least, ALL, 0, ended ? 0 : width, k, holds ? taken : size, 0, !holds, !holds, taken};
}
