// The offset-float codec (formats/spec/value/offset-float.md): range, parameters, codes, values. A number is
// represented by its binary32 raw bits. Parameters stay in the device's memory between kernels.
#include "counter.cuh"
#include "packing.cuh"

#define MANTISSAS 24u
#define SAMPLE 512u
#define MIN_EPS 0x0D800000  // 2^-100

struct Format {
  u32 m, base, positive, negative;
};

// Requested parameters; a mantissa of -1 and an eps of 0 are to be chosen.
struct Request {
  i64 n, mantissa, eps, up, down, up_given, down_given, largest, stochastic;
};

// Writes the magnitudes of the largest and the smallest value to zeroed `extremes`; 0 for a sign that does not occur.
KERNEL offset_reach(const u32* bits, u32 size, u32* extremes) {
  u32 up = 0, down = 0;
  for (u64 i = blockIdx.x * THREADS + threadIdx.x; i < size; i += gridDim.x * THREADS) {
    const u32 word = bits[i], a = word & 0x7FFFFFFFu;
    if (word >> 31) down = maximum(down, a); else up = maximum(up, a);
  }
  for (u32 step = 16; step > 0; step >>= 1) {
    up = maximum(up, __shfl_xor_sync(FULL_MASK, up, step));
    down = maximum(down, __shfl_xor_sync(FULL_MASK, down, step));
  }
  if (lane_id() == 0) atomicMax(&extremes[0], up), atomicMax(&extremes[1], down);
}

// Computes the base and the numbers of codes for a mantissa of m bits.
INLINE Format make_format(u32 m, const Request& w) {
  const i64 cut = 23 - (i64)m, step = (i64)1 << cut;
  const i64 over = w.stochastic ? step - 1 : step >> 1;
  const i64 cap = w.largest >> cut, codes = ((i64)1 << w.n) - 1;
  const i64 top = minimum((w.up + (w.up_given ? 0 : over)) >> cut, cap);
  const i64 bottom = minimum((w.down + (w.down_given ? 0 : over)) >> cut, cap);
  const i64 both = w.up > 0 && w.down > 0 ? 1 : 0;
  i64 base = maximum((i64)1, w.stochastic ? (i64)MIN_EPS >> cut : (i64)0);
  if (w.eps > 0)
    base = minimum(maximum(base, w.eps >> cut), cap);
  else
    base = maximum(base, maximum((top + bottom + 3 - codes) >> 1, maximum(top, bottom) + 1 + both - codes));
  i64 positive = w.up > 0 ? maximum((i64)1, top - base + 1) : 0;
  i64 negative = w.down > 0 ? maximum((i64)1, bottom - base + 1) : 0;
  if (positive + negative > codes) {
    const i64 limit = maximum(codes - minimum(positive, negative), codes >> 1);
    positive = minimum(positive, limit);
    negative = minimum(negative, limit);
  }
  return Format{m, (u32)base, (u32)positive, (u32)negative};
}

// Returns the code of a magnitude truncated to m bits, at least `base`.
INLINE u32 signed_code(u32 u, u32 q, const Format& f) {
  const bool minus = u >> 31;
  const u32 codes = minus ? f.negative : f.positive;
  const u32 code = minimum(q - f.base + 1, codes);
  return minus && f.negative ? code + f.positive : code;
}

INLINE u32 nearest_code(u32 u, const Format& f) {
  const u32 cut = 23 - f.m, eps = f.base << cut, a = u & 0x7FFFFFFFu;
  const u32 half_eps = eps >= 0x1000000u ? eps - 0x800000u : (eps + 1) >> 1;
  if (a < half_eps) return 0;
  return signed_code(u, maximum((a + ((1u << cut) >> 1)) >> cut, f.base), f);
}

INLINE u32 stochastic_code(u32 u, u32 draw, const Format& f) {
  const u32 cut = 23 - f.m, eps = f.base << cut, a = u & 0x7FFFFFFFu;
  if (a >= eps) return signed_code(u, (a + (cut > 16 ? draw << (cut - 16) : draw >> (16 - cut))) >> cut, f);
  const float rate = 65536.0f / __uint_as_float(eps);
  const u32 one = ((u32)(i32)(__uint_as_float(a) * rate) + draw) >> 16;
  return one ? signed_code(u, f.base, f) : 0;
}

INLINE u32 value_of(u32 code, const Format& f) {
  if (code == 0) return 0;
  const u32 cut = 23 - f.m;
  if (code > f.positive) return ((f.base - 1 + code - f.positive) << cut) + 0x80000000u;
  return (f.base - 1 + code) << cut;
}

// Returns the expected squared error of a value.
INLINE double error_of(u32 u, const Format& f, bool stochastic) {
  const double x = (double)__uint_as_float(u);
  if (!stochastic) {
    const double difference = x - (double)__uint_as_float(value_of(nearest_code(u, f), f));
    return difference * difference;
  }
  const double below = x - (double)__uint_as_float(value_of(stochastic_code(u, 0, f), f));
  const double above = (double)__uint_as_float(value_of(stochastic_code(u, 0xFFFF, f), f)) - x;
  const double product = below * above;
  return product < 0 ? -product : product;
}

// One block. Writes the parameters to `format`, and the section's first three words to `header`. `extremes` is that of
// offset_reach, for bounds that are not given.
KERNEL offset_choose(const u32* bits, u32 size, u32 n, i32 mantissa, u32 eps, u32 up, u32 down, u32 up_given,
                     u32 down_given, u32 largest, u32 stochastic, const u32* extremes, Format* format, u32* header) {
  __shared__ u32 sample[SAMPLE];
  __shared__ double errors[MANTISSAS];
  const Request request = {n, mantissa, eps, up_given ? up : extremes[0], down_given ? down : extremes[1],
                         up_given, down_given, largest, stochastic};
  for (u32 q = threadIdx.x; q < SAMPLE; q += THREADS) {
    const u64 first = (u64)q * size / SAMPLE, after = (u64)(q + 1) * size / SAMPLE;
    const u64 at = size <= SAMPLE ? q : first + (((u64)draw32(0, 0, q) * (after - first)) >> 32);
    sample[q] = at < size ? bits[at] : 0;
  }
  __syncthreads();
  const u32 sample_size = minimum((size + 15) & ~15u, SAMPLE), lane = threadIdx.x % 16;
  for (u32 first = 0; first < MANTISSAS; first += THREADS / 16) {
    const u32 m = first + threadIdx.x / 16;
    const Format f = make_format(minimum(m, MANTISSAS - 1), request);
    double sum = 0;
    for (u32 i = lane; i < sample_size; i += 16) sum = sum + error_of(sample[i], f, stochastic);
    for (u32 step = 8; step > 0; step >>= 1) sum = sum + __shfl_xor_sync(FULL_MASK, sum, step);
    if (lane == 0 && m < MANTISSAS) errors[m] = sum;
  }
  __syncthreads();
  if (threadIdx.x) return;
  u32 best = 0;
  for (u32 m = 1; m < MANTISSAS; m++)
    if (errors[m] < errors[best]) best = m;
  *format = make_format(mantissa >= 0 ? (u32)mantissa : best, request);
  header[0] = n | format->m << 8;
  header[1] = format->positive | format->negative << 16;
  header[2] = format->base;
}

KERNEL offset_quantise(const u32* bits, u32 size, u32 n, u32 stochastic, u32 low, u32 high, const Format* format,
                       u32* words) {
  __shared__ u32 codes[PACK_BLOCK];
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK), at = first_of_pair();
  const Format f = *format;
  const u32 draw = stochastic ? draw_of_pair(low, high, blockIdx.x) : 0;
  for (u32 j = 0; j < 2; j++) {
    const u32 i = at + 16 * j, u = i < count ? bits[start + i] : 0;
    codes[i] = stochastic ? stochastic_code(u, j ? draw & 0xFFFFu : draw >> 16, f) : nearest_code(u, f);
  }
  __syncthreads();
  pack_block(codes, count, n, words + (u64)blockIdx.x * PACK_LANES * n);
}

// Decodes; `bad[0]` is set if a code is out of range.
KERNEL offset_dequantise(const u32* words, u32 size, u32 n, u32 m, u32 base, u32 positive, u32 negative, u32* out,
                         u32* bad) {
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK);
  const Format f = {m, base, positive, negative};
  for (u32 i = threadIdx.x; i < count; i += THREADS) {
    const u32 code = unpack_code(words + (u64)blockIdx.x * PACK_LANES * n, count, n, i);
    if (code > positive + negative) bad[0] = 1;
    out[start + i] = value_of(code, f);
  }
}
