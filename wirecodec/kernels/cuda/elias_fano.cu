// The Elias-Fano index codec (formats/spec/index/elias-fano.md): layout, encoder, decoder.
#include "spans.cuh"

// Returns the base of a span; that of the span after the last is d. `first` points to the bases of spans 1, 2, …
INLINE u32 base_of(const u32* bases, u32 span, u32 spans, u32 d) {
  return span == 0 ? 0 : span == spans ? d : bases[span - 1];
}

// Returns the greatest b such that n · 2^b is at most the number of absent elements in a span.
INLINE u32 parameter_of(u32 n, u32 absent) {
  u32 b = 0;
  while ((u64)n << (b + 1) <= absent) b++;
  return b;
}

KERNEL elias_bases(const u32* indices, u32 r, u32* words) {
  const u32 span = blockIdx.x * THREADS + threadIdx.x;
  if (span < (r - 1) / SPAN) words[span] = indices[(span + 1) * SPAN - 1] + 1;
}

// One block. Computes each span's parameter and start from the bases in the section. `starts` is (⌈r/4096⌉ + 1,),
// counted from the first span; the last entry is the maximum. `bad[0]` is set if the bases leave a span fewer
// elements than it has indices.
KERNEL elias_layout(const u32* bases, u32 d, u32 r, u8* parameters, u32* starts, u32* bad) {
  __shared__ u32 parts[WARPS + 1];
  const u32 spans = (r - 1) / SPAN + 1, each = (spans + THREADS - 1) / THREADS;
  const u32 first = threadIdx.x * each, last = minimum(first + each, spans);
  u32 sum = 0, all = 0;
  for (u32 pass = 0; pass < 2; pass++) {
    u32 at = pass ? block_exclusive_sum(sum, parts, &all) : 0;
    for (u32 span = first; span < last; span++) {
      const u32 n = minimum(r - span * SPAN, SPAN);
      const i64 absent = (i64)base_of(bases, span + 1, spans, d) - base_of(bases, span, spans, d) - n;
      const u32 gaps = absent < 0 ? 0 : (u32)absent, b = parameter_of(n, gaps);
      if (absent < 0) bad[0] = 1;
      if (pass) parameters[span] = (u8)b, starts[span] = at;
      at += low_words(n, b) + (n + (gaps >> b) + 31) / 32;
    }
    if (pass == 0) sum = at;
  }
  if (threadIdx.x == 0) starts[spans] = all;
}

// `bases` is the section, which begins with them. `length[0]` receives its words.
KERNEL elias_write(const u32* indices, u32 r, const u8* parameters, const u32* starts, u32* bases, u32* length) {
  __shared__ u32 low[BLOCK];
  __shared__ u32 high[HIGH_WORDS];
  const u32 span = blockIdx.x, n = minimum(r - span * SPAN, SPAN), b = parameters[span], inner = (r - 1) / SPAN;
  const u32 base = span ? bases[span - 1] : 0;
  u32* words = bases + inner;
  u32 at = starts[span];
  for (u32 w = threadIdx.x; w < HIGH_WORDS; w += THREADS) high[w] = 0;
  __syncthreads();
  for (u32 first = 0; first < n; first += BLOCK) {
    const u32 m = minimum(n - first, BLOCK), i = first + threadIdx.x;
    const u32 v = threadIdx.x < m ? indices[span * SPAN + i] - base - i : 0;
    low[threadIdx.x] = v & ((1u << b) - 1);
    const u32 place = (v >> b) + i;
    if (threadIdx.x < m && place < 32 * HIGH_WORDS) atomicOr(&high[place / 32], 1u << place % 32);
    __syncthreads();
    if (b)
      for (u32 w = threadIdx.x; w < low_words(m, b); w += THREADS) words[at + w] = low_word(low, m, b, w);
    at += low_words(m, b);
    __syncthreads();
  }
  const u32 last = ((indices[span * SPAN + n - 1] - base - (n - 1)) >> b) + n - 1;
  const u32 size = span < inner ? starts[span + 1] - at : last / 32 + 1;
  for (u32 w = threadIdx.x; w < size; w += THREADS) words[at + w] = high[w];
  if (span == inner && threadIdx.x == 0) length[0] = inner + at + size;
}

// Decodes the indices of the spans; `size` is the number of words after the bases. `bad[0]` is set if a check fails.
KERNEL elias_read(const u32* words, u32 size, const u32* bases, u32 d, u32 r, const u8* parameters, const u32* starts,
                  u32* indices, u32* bad) {
  __shared__ u32 ones[SPAN];
  __shared__ u32 parts[WARPS + 1];
  __shared__ u32 failed;
  const u32 span = blockIdx.x, n = minimum(r - span * SPAN, SPAN), b = parameters[span], inner = (r - 1) / SPAN;
  const u32 at = starts[span], high = at + low_words(n, b), stop = span < inner ? starts[span + 1] : size;
  if (threadIdx.x == 0) {
    failed = atomicOr(bad, 0u);
    if (high + 1 > stop || stop > size || (span == inner && stop > starts[inner + 1])) failed = 1;
    if (failed) bad[0] = 1;
  }
  __syncthreads();
  if (failed) return;
  bool wrong = span == inner && words[stop - 1] == 0;
  if (find_ones(words + high, stop - high, n, ones, parts) != n) {
    if (threadIdx.x == 0) bad[0] = 1;
    return;
  }
  const u32 base = span ? bases[span - 1] : 0;
  for (u32 first = 0; first < n; first += BLOCK) {
    const u32 m = minimum(n - first, BLOCK), i = first + threadIdx.x;
    const u32* low = words + at + low_words(first, b);
    wrong = wrong || stray_low_bit(low, m, b);
    if (threadIdx.x >= m) continue;
    const u32 v = ((ones[i] - i) << b) + low_bits(low, m, b, threadIdx.x);
    indices[span * SPAN + i] = base + i + v;
    if (i == n - 1)
      wrong = wrong || (span < inner ? base + i + v + 1 != bases[span] : (u64)base + i + v >= d);
    if (i) {
      const u32 j = i - 1, block = j / BLOCK * BLOCK;
      const u32 before =
          ((ones[j] - j) << b) + low_bits(words + at + low_words(block, b), minimum(n - block, BLOCK), b, j - block);
      wrong = wrong || before > v;
    }
  }
  if (wrong) bad[0] = 1;
}
