// QSGD of one array (qsgd.cuh).
#include "qsgd.cuh"

struct Bits {
  const u32* bits;
  INLINE u32 at(u32 i) const { return bits[i]; }
};

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

KERNEL qsgd_quantise(const u32* bits, u32 size, u32 bucket, u32 n, u32 norm, u32 low, u32 high, const u32* raw_scales,
                     u32* section) {
  __shared__ QuantiseShared shared;
  quantise(Bits{bits}, size, bucket, n, norm, low, high, raw_scales, section, blockIdx.x, &shared);
}

// Decodes; `bad[0]` is set if a code is above 2s, or is not s in a bucket of scale 0.
KERNEL qsgd_dequantise(const u32* words, u32 size, u32 bucket, u32 n, const u32* scales, u32* out, u32* bad) {
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK);
  const u32 levels = (1u << (n - 1)) - 1;
  for (u32 i = threadIdx.x; i < count; i += THREADS) {
    const u32 code = unpack_code(words + (u64)blockIdx.x * PACK_LANES * n, count, n, i);
    const u32 scale = scales[(start + i) / bucket];
    if (code > 2 * levels || (scale == 0 && code != levels)) bad[0] = 1;
    out[start + i] = qsgd_value(code, scale, levels);
  }
}
