// The Rice index codec of one array (rice.cuh), and its decoder.
#include "rice.cuh"

KERNEL rice_plan(const u32* indices, u32 r, u8* parameters, u32* quotients) {
  plan_blocks(indices, r, 0, parameters, quotients, blockIdx.x);
}

// One block.
KERNEL rice_layout(const u8* parameters, const u32* quotients, u32 r, u32* starts) {
  __shared__ u32 parts[WARPS + 1];
  lay_out(parameters, quotients, r, starts, parts);
}

KERNEL rice_directory(const u32* indices, u32 r, const u8* parameters, const u32* starts, u32* words) {
  write_directory(indices, r, 0, parameters, starts, words, blockIdx.x);
}

KERNEL rice_write(const u32* indices, u32 r, const u8* parameters, const u32* starts, u32* words) {
  __shared__ SpanShared shared;
  write_span(indices, r, 0, parameters, starts, words, blockIdx.x, &shared);
}

// One block. Reads the parameters and the spans' starts of a section of `size` words, at least those of the directory.
// `bad[0]` is set if a check fails.
KERNEL rice_open(const u32* words, u32 size, u32 r, u8* parameters, u32* starts, u32* bad) {
  __shared__ u32 parts[WARPS + 1];
  __shared__ u32 wrong;
  const u32 inner = (r - 1) / SPAN, blocks = (r - 1) / BLOCK + 1, directory = directory_words(r);
  if (threadIdx.x == 0) wrong = 0;
  __syncthreads();
  for (u32 p = threadIdx.x; p < blocks; p += THREADS) {
    const u32 bit = 16 * inner + PARAMETER_BITS * p, at = inner + bit / 32, shift = bit % 32;
    u32 b = words[at] >> shift;
    if (shift + PARAMETER_BITS > 32) b |= words[at + 1] << (32 - shift);
    b &= (1u << PARAMETER_BITS) - 1;
    parameters[p] = (u8)b;
    if (b > MAX_PARAMETER) wrong = 1;
  }
  const u32 used = (48 * inner + PARAMETER_BITS * blocks) % 32;
  if (used && words[directory - 1] >> used) wrong = 1;
  const u32 each = inner / THREADS + 1, first = threadIdx.x * each, last = minimum(first + each, inner);
  u32 sum = 0, all = 0;
  for (u32 span = first; span < last; span++) sum += words[inner + span / 2] >> (span % 2 * 16) & 0xFFFFu;
  u32 at = directory + block_exclusive_sum(sum, parts, &all);
  for (u32 span = first; span < last; span++) {
    starts[span] = at;
    at += words[inner + span / 2] >> (span % 2 * 16) & 0xFFFFu;
  }
  if (threadIdx.x == 0) {
    starts[inner] = directory + all;
    starts[inner + 1] = size;
    if (directory + all > size) wrong = 1;
  }
  __syncthreads();
  for (u32 span = threadIdx.x; span <= inner && !wrong; span += THREADS) {
    u32 low = 0;
    for (u32 j = 0; j < SPAN_BLOCKS && span * SPAN + j * BLOCK < r; j++)
      low += low_words(minimum(r - span * SPAN - j * BLOCK, BLOCK), parameters[span * SPAN_BLOCKS + j]);
    if (starts[span + 1] - starts[span] < low + 1) bad[0] = 1;
  }
  if (threadIdx.x == 0 && wrong) bad[0] = 1;
}

// Decodes the indices of the spans, unless `bad[0]` is set. It is set if a check fails.
KERNEL rice_read(const u32* words, const u8* parameters, const u32* starts, u32 d, u32 r, u32* indices, u32* bad) {
  __shared__ u32 ones[SPAN];
  __shared__ u32 parts[WARPS + 1];
  __shared__ u64 sums[WARPS + 1];
  __shared__ u32 failed;
  if (threadIdx.x == 0) failed = atomicOr(bad, 0u);  // another block may set it at any time: read it once for all
  __syncthreads();
  if (failed) return;
  const u32 span = blockIdx.x, n = minimum(r - span * SPAN, SPAN), inner = (r - 1) / SPAN;
  const u32 stop = starts[span + 1];
  u32 at = starts[span], unary = at;
  for (u32 first = 0; first < n; first += BLOCK)
    unary += low_words(minimum(n - first, BLOCK), parameters[(span * SPAN + first) / BLOCK]);
  bool wrong = words[stop - 1] == 0 || 32ull * (stop - 1 - unary) > (u64)d + n;
  wrong = wrong || find_ones(words + unary, stop - unary, n, ones, parts) != n;
  u64 index = span ? words[span - 1] : 0;  // the smallest value that the next index can have
  for (u32 first = 0; first < n && !wrong; first += BLOCK) {
    const u32 m = minimum(n - first, BLOCK), b = parameters[(span * SPAN + first) / BLOCK], i = first + threadIdx.x;
    wrong = stray_low_bit(words + at, m, b);
    u64 step = 0, all;
    if (threadIdx.x < m) {
      const u32 q = ones[i] - (i ? ones[i - 1] + 1 : 0);
      step = ((u64)q << b) + low_bits(words + at, m, b, threadIdx.x) + 1;
    }
    const u64 found = index + block_exclusive_sum(step, sums, &all) + step - 1;
    if (threadIdx.x < m) indices[span * SPAN + i] = (u32)found;
    index += all;
    wrong = wrong || index > d;
    at += low_words(m, b);
  }
  wrong = wrong || (span < inner && index != words[span]);
  if (wrong && threadIdx.x == 0) bad[0] = 1;
}
