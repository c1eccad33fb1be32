// QSGD (formats/spec/value/qsgd.md): scales, codes and packing, and back. Arithmetic is binary32, rounded after each
// operation; that of norm l2 is binary64. A block of threads processes a block of 512 codes.
#include "counter.cuh"
#include "packing.cuh"

#define MIN_SCALE 0x0D800000u  // 2^-100

INLINE u32 flush_small_scale(u32 scale) { return scale < MIN_SCALE ? 0 : scale; }

// Writes the largest magnitude of each bucket to zeroed `scales`: a thread processes a row of 16, which belongs to
// one bucket.
KERNEL qsgd_max_scales(const u32* bits, u32 size, u32 bucket, u32* scales) {
  const u64 start = 16ull * (blockIdx.x * THREADS + threadIdx.x);
  if (start >= size) return;
  const u32 stop = minimum((u32)start + 16, size);
  u32 top = 0;
  for (u32 i = (u32)start; i < stop; i++) top = maximum(top, bits[i] & 0x7FFFFFFFu);
  atomicMax(&scales[start / bucket], top);
}

// Writes the root of each bucket's sum of squares, at most `largest` (raw bits of binary64): 16 lanes per bucket.
KERNEL qsgd_l2_scales(const u32* bits, u32 size, u32 bucket, u64 largest, u32* scales) {
  const u32 lane = threadIdx.x % 16;
  const u64 start = (u64)bucket * (blockIdx.x * (THREADS / 16) + threadIdx.x / 16);
  double sum = 0;
  for (u64 i = start + lane; i < size && i < start + bucket; i += 16) {
    const double x = (double)__uint_as_float(bits[i]);
    sum = sum + x * x;
  }
  for (u32 step = 8; step > 0; step >>= 1) sum = sum + __shfl_xor_sync(FULL_MASK, sum, step);
  const double root = sqrt(sum), top = __longlong_as_double((i64)largest);
  if (lane == 0 && start < size) scales[start / bucket] = __float_as_uint((float)(root < top ? root : top));
}

INLINE u32 qsgd_code(u32 x, float rate, u32 draw, i32 levels) {
  const i32 q = ((i32)(__uint_as_float(x) * rate) + (i32)draw) >> 16;
  return (u32)(minimum(maximum(q, -levels), levels) + levels);
}

// Writes the section: two words, the scales, the codes. `raw_scales` has the buckets' scales before rounding; it is
// null if buckets have 512 values, whose scales this kernel computes.
KERNEL qsgd_quantise(const u32* bits, u32 size, u32 bucket, u32 n, u32 norm, u32 low, u32 high, const u32* raw_scales,
                     u32* section) {
  __shared__ u32 codes[PACK_BLOCK];
  __shared__ u32 tops[WARPS];
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK), at = first_of_pair();
  u32 *scales = section + 2, *words = scales + (size - 1) / bucket + 1;
  if (blockIdx.x == 0 && threadIdx.x == 0) section[0] = n | norm << 8, section[1] = bucket;
  const u32 x = at < count ? bits[start + at] : 0, y = at + 16 < count ? bits[start + at + 16] : 0;
  if (!raw_scales) {
    u32 top = maximum(x & 0x7FFFFFFFu, y & 0x7FFFFFFFu);
    for (u32 step = 16; step > 0; step >>= 1) top = maximum(top, __shfl_xor_sync(FULL_MASK, top, step));
    if (lane_id() == 0) tops[warp_id()] = top;
    __syncthreads();
    for (u32 w = 0; w < WARPS; w++) top = maximum(top, tops[w]);
    if (threadIdx.x == 0) tops[0] = top;
    __syncthreads();
  }
  const i32 levels = (1 << (n - 1)) - 1;
  float rates[2];
  for (u32 j = 0; j < 2; j++) {
    const u32 b = (start + minimum(at + 16 * j, count - 1)) / bucket;
    const u32 scale = flush_small_scale(raw_scales ? raw_scales[b] : tops[0]);
    rates[j] = scale ? (float)(levels * 65536) / __uint_as_float(scale) : 0.0f;
    if (b * bucket == start + at + 16 * j) scales[b] = scale;
  }
  const u32 draw = draw_of_pair(low, high, blockIdx.x);
  codes[at] = qsgd_code(x, rates[0], draw >> 16, levels);
  codes[at + 16] = qsgd_code(y, rates[1], draw & 0xFFFFu, levels);
  __syncthreads();
  pack_block(codes, count, n, words + (u64)blockIdx.x * PACK_LANES * n);
}

// Decodes; `bad[0]` is set if a code is above 2s, or is not s in a bucket of scale 0.
KERNEL qsgd_dequantise(const u32* words, u32 size, u32 bucket, u32 n, const u32* scales, u32* out, u32* bad) {
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK);
  const u32 levels = (1u << (n - 1)) - 1;
  for (u32 i = threadIdx.x; i < count; i += THREADS) {
    const u32 code = unpack_code(words + (u64)blockIdx.x * PACK_LANES * n, count, n, i);
    const u32 scale = scales[(start + i) / bucket];
    const float step = __uint_as_float(scale) / (float)levels;
    u32 value = __float_as_uint((float)((i32)code - (i32)levels) * step);
    if (code == 2 * levels) value = scale;
    if (code == 0) value = scale | 0x80000000u;
    if (code > 2 * levels || (scale == 0 && code != levels)) bad[0] = 1;
    out[start + i] = value;
  }
}
