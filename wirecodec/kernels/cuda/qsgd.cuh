// QSGD (formats/spec/value/qsgd.md): scales, codes and packing, and back. Arithmetic is binary32, rounded after each
// operation; that of norm l2 is binary64. A block of threads processes a block of 512 codes.
#pragma once
#include "counter.cuh"
#include "packing.cuh"

#define MIN_SCALE 0x0D800000u  // 2^-100

INLINE u32 flush_small_scale(u32 scale) { return scale < MIN_SCALE ? 0 : scale; }

INLINE u32 qsgd_code(u32 x, float rate, u32 draw, i32 levels) {
  const i32 q = ((i32)(__uint_as_float(x) * rate) + (i32)draw) >> 16;
  return (u32)(minimum(maximum(q, -levels), levels) + levels);
}

struct QuantiseShared {
  u32 codes[PACK_BLOCK];
  u32 tops[WARPS];
};

// Writes a block of the section: two words, the scales, the codes. `bits.at(i)` is a value. `raw_scales` has the
// buckets' scales before rounding; it is null if buckets have 512 values, whose scales this computes.
template <class Source>
INLINE void quantise(const Source& bits, u32 size, u32 bucket, u32 n, u32 norm, u32 low, u32 high, const u32* raw_scales,
                     u32* section, u32 block, QuantiseShared* shared) {
  const u32 start = block * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK), at = first_of_pair();
  u32 *scales = section + 2, *words = scales + (size - 1) / bucket + 1;
  if (block == 0 && threadIdx.x == 0) section[0] = n | norm << 8, section[1] = bucket;
  const u32 x = at < count ? bits.at(start + at) : 0, y = at + 16 < count ? bits.at(start + at + 16) : 0;
  if (!raw_scales) {
    u32 top = maximum(x & 0x7FFFFFFFu, y & 0x7FFFFFFFu);
    for (u32 step = 16; step > 0; step >>= 1) top = maximum(top, __shfl_xor_sync(FULL_MASK, top, step));
    if (lane_id() == 0) shared->tops[warp_id()] = top;
    __syncthreads();
    for (u32 w = 0; w < WARPS; w++) top = maximum(top, shared->tops[w]);
    if (threadIdx.x == 0) shared->tops[0] = top;
    __syncthreads();
  }
  const i32 levels = (1 << (n - 1)) - 1;
  float rates[2];
  for (u32 j = 0; j < 2; j++) {
    const u32 b = (start + minimum(at + 16 * j, count - 1)) / bucket;
    const u32 scale = flush_small_scale(raw_scales ? raw_scales[b] : shared->tops[0]);
    rates[j] = scale ? (float)(levels * 65536) / __uint_as_float(scale) : 0.0f;
    if (b * bucket == start + at + 16 * j) scales[b] = scale;
  }
  const u32 draw = draw_of_pair(low, high, block);
  shared->codes[at] = qsgd_code(x, rates[0], draw >> 16, levels);
  shared->codes[at + 16] = qsgd_code(y, rates[1], draw & 0xFFFFu, levels);
  __syncthreads();
  pack_block(shared->codes, count, n, words + (u64)block * PACK_LANES * n);
}

// Returns the value of a code.
INLINE u32 qsgd_value(u32 code, u32 scale, u32 levels) {
  const float step = __uint_as_float(scale) / (float)levels;
  if (code == 2 * levels) return scale;
  if (code == 0) return scale | 0x80000000u;
  return __float_as_uint((float)((i32)code - (i32)levels) * step);
}
