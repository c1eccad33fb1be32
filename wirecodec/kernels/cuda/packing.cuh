// Packed codes of n bits, in blocks of 512 and a shorter last one (formats/SPEC.md, 1.1).
#pragma once
#include "common.cuh"

#define PACK_BLOCK 512u
#define PACK_LANES 16u

// Returns the u32 words of `count` codes of one block.
INLINE u32 packed_words(u32 count, u32 n) {
  return count == PACK_BLOCK ? PACK_LANES * n : (count * n + 31) / 32;
}

// Returns word w of the codes of one block, which are in `codes`. In a full block it belongs to lane w mod 16, as
// its word w div 16; the shorter last block is one lane.
INLINE u32 packed_word(const u32* codes, u32 count, u32 n, u32 w) {
  const bool whole = count == PACK_BLOCK;
  const u32 stride = whole ? PACK_LANES : 1, lane = whole ? w % PACK_LANES : 0, at = whole ? w / PACK_LANES : w;
  const u32 rows = count / stride;
  u32 word = 0;
  for (u32 row = 32 * at / n; row < rows && row * n < 32 * at + 32; row++) {
    const i32 shift = (i32)(row * n) - (i32)(32 * at);
    const u32 code = codes[row * stride + lane];
    word |= shift >= 0 ? code << shift : code >> -shift;
  }
  return word;
}

// Writes the codes of one block; all threads call it, after a barrier.
INLINE void pack_block(const u32* codes, u32 count, u32 n, u32* words) {
  for (u32 w = threadIdx.x; w < packed_words(count, n); w += THREADS) words[w] = packed_word(codes, count, n, w);
}

// Returns code i of one block.
INLINE u32 unpack_code(const u32* words, u32 count, u32 n, u32 i) {
  const bool whole = count == PACK_BLOCK;
  const u32 stride = whole ? PACK_LANES : 1, lane = whole ? i % PACK_LANES : 0;
  const u32 bit = (whole ? i / PACK_LANES : i) * n, at = bit / 32, shift = bit % 32;
  u32 code = words[at * stride + lane] >> shift;
  if (shift + n > 32) code |= words[(at + 1) * stride + lane] << (32 - shift);
  return code & ((1u << n) - 1);
}
