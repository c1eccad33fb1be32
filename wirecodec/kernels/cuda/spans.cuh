// Parts that Rice and Elias-Fano share: spans of 4096 indices in blocks of 256, low bits in 8 lanes, high bits as
// positions of ones (formats/spec/index/rice.md, elias-fano.md). A block of threads processes a span.
#pragma once
#include "common.cuh"

#define SPAN 4096u
#define BLOCK 256u
#define SPAN_BLOCKS (SPAN / BLOCK)
#define LANES 8u
#define MAX_PARAMETER 24u
#define HIGH_WORDS 512u  // an encoded span has at most 3 high bits per index

// Returns the u32 words of the low bits, b each, of m indices of one block.
INLINE u32 low_words(u32 m, u32 b) { return (m * b + 31) / 32; }

// Returns word w of the low bits of m indices of a block: 8 lanes, or one lane in a shorter block.
INLINE u32 low_word(const u32* low, u32 m, u32 b, u32 w) {
  const u32 stride = m == BLOCK ? LANES : 1, lane = m == BLOCK ? w % LANES : 0, at = m == BLOCK ? w / LANES : w;
  u32 word = 0;
  for (u32 row = 32 * at / b; row < m / stride && row * b < 32 * at + 32; row++) {
    const i32 shift = (i32)(row * b) - (i32)(32 * at);
    const u32 bits = low[row * stride + lane];
    word |= shift >= 0 ? bits << shift : bits >> -shift;
  }
  return word;
}

// Returns the low bits of index j of a block that begins at `words`.
INLINE u32 low_bits(const u32* words, u32 m, u32 b, u32 j) {
  if (b == 0) return 0;
  const u32 stride = m == BLOCK ? LANES : 1, lane = m == BLOCK ? j % LANES : 0;
  const u32 bit = (m == BLOCK ? j / LANES : j) * b, at = bit / 32, shift = bit % 32;
  u32 low = words[at * stride + lane] >> shift;
  if (shift + b > 32) low |= words[(at + 1) * stride + lane] << (32 - shift);
  return low & ((1u << b) - 1);
}

// Returns whether a bit after the low bits of a shorter block is set.
INLINE bool stray_low_bit(const u32* words, u32 m, u32 b) {
  return m < BLOCK && (m * b) % 32 && words[low_words(m, b) - 1] >> (m * b) % 32;
}

// Finds the positions of the first n ones in `size` words, into shared `ones`; returns the number of ones, counted
// slightly beyond n. All threads call it; `parts` is shared memory of WARPS + 1.
INLINE u32 find_ones(const u32* words, u32 size, u32 n, u32* ones, u32* parts) {
  u32 found = 0;
  for (u32 first = 0; first < size && found <= n; first += THREADS) {
    const u32 w = first + threadIdx.x;
    const u32 loaded = w < size ? words[w] : 0;
    u32 all;
    u32 at = found + block_exclusive_sum((u32)__popc(loaded), parts, &all);
    for (u32 word = loaded; word; word &= word - 1, at++)
      if (at < n) ones[at] = 32 * w + (u32)__ffs((i32)word) - 1;
    found += all;
  }
  __syncthreads();
  return found;
}
