// The Rice index codec (formats/spec/index/rice.md): plan and encoder of ascending indices from `base`, decoder.
#pragma once
#include "spans.cuh"

#define PARAMETER_BITS 5u

INLINE u32 gap(const u32* indices, u32 i, u32 base) {
  return i ? indices[i] - indices[i - 1] - 1 : indices[0] - base;
}

// Returns the words before the spans.
INLINE u32 directory_words(u32 r) {
  return (48 * ((r - 1) / SPAN) + PARAMETER_BITS * ((r - 1) / BLOCK + 1) + 31) / 32;
}

// Finds the best parameter of each block of 256, and the sum of its quotients: a warp processes a block.
INLINE void plan_blocks(const u32* indices, u32 r, u32 base, u8* parameters, u32* quotients, u32 number) {
  const u32 block = number * WARPS + warp_id(), start = block * BLOCK;
  if (start >= r) return;
  const u32 stop = minimum(start + BLOCK, r), m = stop - start;
  const i64 zeros = (i64)indices[stop - 1] - (start ? (i64)indices[start - 1] : (i64)base - 1) - m;
  const u64 scaled = (u64)(7 * zeros) / (10 * m);  // floor(log2) of this is that of 0.7 * mean, from 1 on
  const i32 f = 63 - __clzll((i64)(scaled | 1));
  const u32 b0 = (u32)maximum(0, minimum(f - 1, (i32)MAX_PARAMETER - 3));  // only f - 1 .. f + 2 can be best
  u32 sums[4] = {0, 0, 0, 0};
  for (u32 i = start + lane_id(); i < stop; i += 32)
    for (u32 step = 0; step < 4; step++) sums[step] += gap(indices, i, base) >> (b0 + step);
  u32 best = 0;
  for (u32 step = 0; step < 4; step++) {
    sums[step] = warp_sum(sums[step]);
    if (m * step + sums[step] < m * best + sums[best]) best = step;
  }
  if (lane_id() == 0) parameters[block] = (u8)(b0 + best), quotients[block] = sums[best];
}

// Computes the start of each span in words of the section, and the end of the last: (⌈r/4096⌉ + 1,) `starts`. One
// block calls it; `parts` is shared memory of WARPS + 1.
INLINE void lay_out(const u8* parameters, const u32* quotients, u32 r, u32* starts, u32* parts) {
  const u32 spans = (r - 1) / SPAN + 1, each = (spans + THREADS - 1) / THREADS;
  const u32 first = threadIdx.x * each, last = minimum(first + each, spans);
  u32 sum = 0, all = 0;
  for (u32 pass = 0; pass < 2; pass++) {
    u32 at = pass ? directory_words(r) + block_exclusive_sum(sum, parts, &all) : 0;
    for (u32 span = first; span < last; span++) {
      u32 low = 0, high = 0;
      for (u32 j = 0; j < SPAN_BLOCKS && span * SPAN + j * BLOCK < r; j++) {
        const u32 block = span * SPAN_BLOCKS + j, m = minimum(r - block * BLOCK, BLOCK);
        low += low_words(m, parameters[block]);
        high += m + quotients[block];
      }
      if (pass) starts[span] = at;
      at += low + (high + 31) / 32;
    }
    if (pass == 0) sum = at;
  }
  if (threadIdx.x == 0) starts[spans] = directory_words(r) + all;
}

// Writes words of the directory, a bit stream: ends of spans, lengths of 16 bits, parameters of 5.
INLINE void write_directory(const u32* indices, u32 r, u32 base, const u8* parameters, const u32* starts, u32* words,
                            u32 number) {
  const u32 w = number * THREADS + threadIdx.x, inner = (r - 1) / SPAN, blocks = (r - 1) / BLOCK + 1;
  if (w >= directory_words(r)) return;
  if (w < inner) {
    words[w] = indices[(w + 1) * SPAN - 1] + 1 - base;
    return;
  }
  const i64 begin = 32 * (i64)(w - inner);
  u32 word = 0;
  for (u32 span = 2 * (w - inner); span < inner && span < 2 * (w - inner) + 2; span++)
    word |= (starts[span + 1] - starts[span]) << (span % 2 * 16);
  const i64 from = begin - 16 * (i64)inner;  // position in the parameters' own stream
  for (i64 p = maximum(from - 4, (i64)0) / PARAMETER_BITS; p < blocks && p * PARAMETER_BITS < from + 32; p++) {
    const i64 shift = p * PARAMETER_BITS - from;
    if (shift > -(i64)PARAMETER_BITS) word |= shift >= 0 ? (u32)parameters[p] << shift : (u32)parameters[p] >> -shift;
  }
  words[w] = word;
}

struct SpanShared {
  u32 low[BLOCK];
  u32 high[HIGH_WORDS];
  u32 parts[WARPS + 1];
};

// Writes a span; a block calls it.
INLINE void write_span(const u32* indices, u32 r, u32 base, const u8* parameters, const u32* starts, u32* words,
                       u32 number, SpanShared* shared) {
  const u32 span = number, n = minimum(r - span * SPAN, SPAN);
  u32 at = starts[span], bit = 0;
  for (u32 w = threadIdx.x; w < HIGH_WORDS; w += THREADS) shared->high[w] = 0;
  for (u32 first = 0; first < n; first += BLOCK) {
    const u32 m = minimum(n - first, BLOCK), b = parameters[(span * SPAN + first) / BLOCK];
    const u32 g = threadIdx.x < m ? gap(indices, span * SPAN + first + threadIdx.x, base) : 0;
    shared->low[threadIdx.x] = g & ((1u << b) - 1);
    u32 all;
    const u32 before = block_exclusive_sum(threadIdx.x < m ? (g >> b) + 1 : 0, shared->parts, &all);
    const u32 place = bit + before + (g >> b);
    if (threadIdx.x < m && place < 32 * HIGH_WORDS) atomicOr(&shared->high[place / 32], 1u << place % 32);
    if (b)
      for (u32 w = threadIdx.x; w < low_words(m, b); w += THREADS) words[at + w] = low_word(shared->low, m, b, w);
    at += low_words(m, b);
    bit += all;
    __syncthreads();
  }
  for (u32 w = threadIdx.x; w < (bit + 31) / 32; w += THREADS) words[at + w] = shared->high[w];
}

struct OpenShared {
  u32 parts[WARPS + 1];
  u32 wrong;
};

// Reads the parameters and the spans' starts of a section of `size` words, at least those of the directory. `bad[0]`
// is set if a check fails. One block calls it.
INLINE void open_section(const u32* words, u32 size, u32 r, u8* parameters, u32* starts, u32* bad,
                         OpenShared* shared) {
  const u32 inner = (r - 1) / SPAN, blocks = (r - 1) / BLOCK + 1, directory = directory_words(r);
  if (threadIdx.x == 0) shared->wrong = 0;
  __syncthreads();
  for (u32 p = threadIdx.x; p < blocks; p += THREADS) {
    const u32 bit = 16 * inner + PARAMETER_BITS * p, at = inner + bit / 32, shift = bit % 32;
    u32 b = words[at] >> shift;
    if (shift + PARAMETER_BITS > 32) b |= words[at + 1] << (32 - shift);
    b &= (1u << PARAMETER_BITS) - 1;
    parameters[p] = (u8)b;
    if (b > MAX_PARAMETER) shared->wrong = 1;
  }
  const u32 used = (48 * inner + PARAMETER_BITS * blocks) % 32;
  if (used && words[directory - 1] >> used) shared->wrong = 1;
  const u32 each = inner / THREADS + 1, first = threadIdx.x * each, last = minimum(first + each, inner);
  u32 sum = 0, all = 0;
  for (u32 span = first; span < last; span++) sum += words[inner + span / 2] >> (span % 2 * 16) & 0xFFFFu;
  u32 at = directory + block_exclusive_sum(sum, shared->parts, &all);
  for (u32 span = first; span < last; span++) {
    starts[span] = at;
    at += words[inner + span / 2] >> (span % 2 * 16) & 0xFFFFu;
  }
  if (threadIdx.x == 0) {
    starts[inner] = directory + all;
    starts[inner + 1] = size;
    if (directory + all > size) shared->wrong = 1;
  }
  __syncthreads();
  for (u32 span = threadIdx.x; span <= inner && !shared->wrong; span += THREADS) {
    u32 low = 0;
    for (u32 j = 0; j < SPAN_BLOCKS && span * SPAN + j * BLOCK < r; j++)
      low += low_words(minimum(r - span * SPAN - j * BLOCK, BLOCK), parameters[span * SPAN_BLOCKS + j]);
    if (starts[span + 1] - starts[span] < low + 1) bad[0] = 1;
  }
  if (threadIdx.x == 0 && shared->wrong) bad[0] = 1;
}

struct ReadShared {
  u32 ones[SPAN];
  u32 parts[WARPS + 1];
  u64 sums[WARPS + 1];
  u32 failed;
};

// Decodes the indices of a span, unless `bad[0]` is set. It is set if a check fails. A block calls it.
INLINE void read_span(const u32* words, const u8* parameters, const u32* starts, u32 d, u32 r, u32* indices, u32* bad,
                      u32 number, ReadShared* shared) {
  if (threadIdx.x == 0) shared->failed = atomicOr(bad, 0u);  // another block may set it at any time: read it once for all
  __syncthreads();
  if (shared->failed) return;
  const u32 span = number, n = minimum(r - span * SPAN, SPAN), inner = (r - 1) / SPAN;
  const u32 stop = starts[span + 1];
  u32 at = starts[span], unary = at;
  for (u32 first = 0; first < n; first += BLOCK)
    unary += low_words(minimum(n - first, BLOCK), parameters[(span * SPAN + first) / BLOCK]);
  bool wrong = words[stop - 1] == 0 || 32ull * (stop - 1 - unary) > (u64)d + n;
  wrong = wrong || find_ones(words + unary, stop - unary, n, shared->ones, shared->parts) != n;
  u64 index = span ? words[span - 1] : 0;  // the smallest value that the next index can have
  for (u32 first = 0; first < n && !wrong; first += BLOCK) {
    const u32 m = minimum(n - first, BLOCK), b = parameters[(span * SPAN + first) / BLOCK], i = first + threadIdx.x;
    wrong = stray_low_bit(words + at, m, b);
    u64 step = 0, all;
    if (threadIdx.x < m) {
      const u32 q = shared->ones[i] - (i ? shared->ones[i - 1] + 1 : 0);
      step = ((u64)q << b) + low_bits(words + at, m, b, threadIdx.x) + 1;
    }
    const u64 found = index + block_exclusive_sum(step, shared->sums, &all) + step - 1;
    if (threadIdx.x < m) indices[span * SPAN + i] = (u32)found;
    index += all;
    wrong = wrong || index > d;
    at += low_words(m, b);
  }
  wrong = wrong || (span < inner && index != words[span]);
  if (wrong && threadIdx.x == 0) bad[0] = 1;
}
