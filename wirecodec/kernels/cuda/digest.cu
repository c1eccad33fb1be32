// Digests of arrays (formats/spec/patch.md, "Digests"), and the elements in which two arrays differ.
//
// A digest is a sum over words of 8 bytes. Threads add in any order, because the sum wraps modulo 2^64. The memory of
// an array may begin at any of its elements, so a word is read whole only at a multiple of 8 bytes.
#include "common.cuh"

#define ROWS 32u  // words per thread
#define TILE (THREADS * ROWS)

// Mixes a word with its number, counted from 1.
INLINE u64 fold(u64 word, u64 number) {
  u64 x = word + number * 0x9E3779B97F4A7C15ull;
  x = (x ^ x >> 32) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ x >> 29) * 0x94D049BB133111EBull;
  return x ^ x >> 32;
}

// Returns word j of `size` elements. The last one is padded with zeros.
template <class W> INLINE u64 load_word(const W* elements, u64 size, u64 j) {
  const u64 per = 8 / sizeof(W), first = j * per;
  if ((u64)elements % 8 == 0 && first + per <= size) return ((const u64*)elements)[j];
  u64 word = 0;
  for (u64 k = 0; k < per && first + k < size; k++) word |= (u64)elements[first + k] << 8 * sizeof(W) * k;
  return word;
}

// Adds a number of each thread to a place in memory. All lanes of a warp call it together.
INLINE void add_to(u64* place, u64 number) {
  const u64 sum = warp_sum(number);
  if (lane_id() == 0 && sum) atomicAdd(place, sum);
}

// Adds the mixed words of `size` elements to zeroed sum[0].
template <class W> INLINE void add_words(const W* elements, u64 size, u64* sum) {
  const u64 words = (size + 8 / sizeof(W) - 1) / (8 / sizeof(W)), first = (u64)blockIdx.x * TILE + threadIdx.x;
  u64 total = 0;
#pragma unroll 8
  for (u32 row = 0; row < ROWS; row++) {
    const u64 j = first + row * THREADS;
    if (j < words) total += fold(load_word(elements, size, j), j + 1);
  }
  add_to(sum, total);
}

#define DIGEST(name, W) \
  KERNEL name(const W* elements, u64 size, u64* sum) { add_words<W>(elements, size, sum); }
DIGEST(digest_u8, u8)
DIGEST(digest_u16, u16)
DIGEST(digest_u32, u32)
DIGEST(digest_u64, u64)

// Marks the elements that differ in a bitmap, and adds three numbers to zeroed `found`: how many these are, the mixed
// words of `before`, and by how much those of `after` are more. The last two stay 0 if `digests` is 0.
template <class W>
INLINE void compare(const W* before, const W* after, u64 size, u32 digests, u32* bitmap, u64* found) {
  const u32 per = 8 / sizeof(W), width = 8 * sizeof(W), group = 32 / per;  // lanes of one word of the bitmap
  const u64 words = (size + per - 1) / per, first = ((u64)blockIdx.x * WARPS + warp_id()) * 32 * ROWS;
  u64 count = 0, total = 0, moved = 0;
#pragma unroll 4
  for (u32 row = 0; row < ROWS; row++) {
    const u64 j = first + row * 32 + lane_id();
    u64 one = 0, other = 0;
    if (j < words) one = load_word(before, size, j), other = load_word(after, size, j);
    u32 mine = 0;
    for (u32 k = 0; k < per; k++) mine |= (u32)((W)(one >> width * k) != (W)(other >> width * k)) << k;
    if (digests && j < words) {
      const u64 mixed = fold(one, j + 1);
      total += mixed;
      if (mine) moved += fold(other, j + 1) - mixed;
    }
    count += (u64)__popc(mine);
    u32 word = mine << per * (lane_id() % group);
    for (u32 step = 1; step < group; step <<= 1) word |= __shfl_xor_sync(FULL_MASK, word, step);
    if (lane_id() % group == 0 && j * per < size) bitmap[j / group] = word;
  }
  add_to(&found[0], count);
  add_to(&found[1], total);
  add_to(&found[2], moved);
}

#define COMPARE(name, W)                                                                                      \
  KERNEL name(const W* before, const W* after, u64 size, u32 digests, u32* bitmap, u64* found) {            \
    compare<W>(before, after, size, digests, bitmap, found);                                                \
  }
COMPARE(compare_u8, u8)
COMPARE(compare_u16, u16)
COMPARE(compare_u32, u32)
COMPARE(compare_u64, u64)

// Adds to zeroed sum[0] by how much the digest of an array changes if the elements at ascending `indices` become
// `values`. The first thread of each word that changes has it.
template <class W>
INLINE void change(const W* elements, u64 size, const u32* indices, const W* values, u32 r, u64* sum) {
  const u32 per = 8 / sizeof(W), width = 8 * sizeof(W), i = blockIdx.x * THREADS + threadIdx.x;
  u64 moved = 0;
  if (i < r && (i == 0 || indices[i - 1] / per != indices[i] / per)) {
    const u64 j = indices[i] / per, word = load_word(elements, size, j);
    u64 changed = word;
    for (u32 k = i; k < r && indices[k] / per == j; k++) {
      const u32 shift = indices[k] % per * width;
      changed = (changed & ~((u64)(W)~(W)0 << shift)) | (u64)values[k] << shift;
    }
    moved = fold(changed, j + 1) - fold(word, j + 1);
  }
  add_to(sum, moved);
}

#define CHANGE(name, W)                                                                                       \
  KERNEL name(const W* elements, u64 size, const u32* indices, const W* values, u32 r, u64* sum) {          \
    change<W>(elements, size, indices, values, r, sum);                                                     \
  }
CHANGE(change_u8, u8)
CHANGE(change_u16, u16)
CHANGE(change_u32, u32)
CHANGE(change_u64, u64)
