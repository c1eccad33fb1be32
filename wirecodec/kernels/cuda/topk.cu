// The k-th largest key of one array (topk.cuh).
#include "topk.cuh"

template <class W> struct Words {
  const W* words;
  INLINE W at(u32 i) const { return words[i]; }
};

#define COUNT(name, W)                                                                                             \
  KERNEL name(Search* search, const W* words, u32 size, const u32* count, u32* counts, u32 capacity) {             \
    __shared__ CountShared shared;                                                                                 \
    if (search->needs_count == 0) return;                                                                          \
    const u32 n = count ? minimum(*count, size) : size;                                                            \
    find_next_digit<W>(search, Words<W>{words}, n, counts, capacity, &shared, blockIdx.x, gridDim.x);              \
  }

COUNT(count_digits_u16, u16)
COUNT(count_digits_u32, u32)
COUNT(count_digits_u64, u64)

// One block.
#define GUESS(name, W)                                                                            \
  KERNEL name(Search* search, const W* words, u32 size, u32 rank, u32 width, u32* counts) {       \
    __shared__ CountShared shared;                                                                \
    guess<W>(search, Words<W>{words}, size, rank, width, counts, &shared);                        \
  }

GUESS(begin_guess_u16, u16)
GUESS(begin_guess_u32, u32)
GUESS(begin_guess_u64, u64)

// One block.
KERNEL search_selected(Search* search) {
  if (threadIdx.x == 0) go_on(search);
}

// One block.
KERNEL begin_warm(Search* search, u64 margin) {
  if (threadIdx.x == 0) begin_near(search, margin);
}

// One block. Sets a rule that selects keys that reach another search's threshold and are not 0.
KERNEL begin_at(Search* search, const u64* rule) {
  if (threadIdx.x) return;
  search->threshold = maximum(rule[0], 1ull);
  search->ties = MAX_U32;
}

// One block. `found` is the number of selected elements.
KERNEL check_guess(Search* search, const u32* found, u64 k, u64 size, u32 width, u32 capacity, u32 fewer) {
  if (threadIdx.x == 0) check(search, found[0], k, size, width, capacity, fewer);
}
