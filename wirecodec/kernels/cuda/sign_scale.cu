// The sign-scale codec (formats/spec/value/sign-scale.md): signs and one scale.
#include "common.cuh"

// Writes a bit for each value below zero; `all_equal[0]`, initially 1, becomes 0 if two magnitudes differ.
template <class W> INLINE void signs_of(const W* bits, u32 size, u32* signs, u32* all_equal) {
  const W minus_zero = (W)((W)1 << (8 * sizeof(W) - 1)), key = (W)(bits[0] & (W)~minus_zero);
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  const W word = i < size ? bits[i] : key;
  const u32 below = __ballot_sync(FULL_MASK, word > minus_zero);
  if (lane_id() == 0 && i < size) signs[i / 32] = below;
  if ((W)(word & (W)~minus_zero) != key) all_equal[0] = 0;
}

KERNEL signs_u32(const u32* bits, u32 size, u32* signs, u32* all_equal) { signs_of<u32>(bits, size, signs, all_equal); }
KERNEL signs_u64(const u64* bits, u32 size, u32* signs, u32* all_equal) { signs_of<u64>(bits, size, signs, all_equal); }

// Sums the magnitudes in 64 partial sums, in the order of the specification, which allows no more parallelism.
// Values are loaded ahead to hide memory latency.
template <class F> INLINE void sum_of(const F* values, u32 size, F shrink, double* partial) {
  if (threadIdx.x < 64) {
    double sum = 0;
    u64 i = threadIdx.x;
    for (; i + 64 * 15 < size; i += 64 * 16) {
      F loaded[16];
#pragma unroll
      for (u32 j = 0; j < 16; j++) loaded[j] = values[i + 64 * j] * shrink;
#pragma unroll
      for (u32 j = 0; j < 16; j++) sum = sum + (loaded[j] < 0 ? -(double)loaded[j] : (double)loaded[j]);
    }
    for (; i < size; i += 64) {
      const F x = values[i] * shrink;
      sum = sum + (x < 0 ? -(double)x : (double)x);
    }
    partial[threadIdx.x] = sum;
  }
  __syncthreads();
  for (u32 half = 32; half > 0; half >>= 1) {
    if (threadIdx.x < half) partial[threadIdx.x] = partial[threadIdx.x] + partial[threadIdx.x + half];
    __syncthreads();
  }
}

// One block. Computes the scale, binary32.
KERNEL mean_f32(const float* values, u32 size, const u32* all_equal, u32* scale) {
  __shared__ double partial[64];
  sum_of<float>(values, size, 1.0f, partial);
  if (threadIdx.x == 0)
    scale[0] = *all_equal ? __float_as_uint(values[0]) & 0x7FFFFFFFu
                          : __float_as_uint((float)(partial[0] / (double)size));
}

// One block. Computes the scale, binary64. If the sum overflows, it is computed again from scaled values.
KERNEL mean_f64(const double* values, u32 size, const u32* all_equal, u64* scale) {
  __shared__ double partial[64];
  const double shrink = 1.0 / 18446744073709551616.0;
  sum_of<double>(values, size, 1.0, partial);
  const bool over = (u64)__double_as_longlong(partial[0]) == 0x7FF0000000000000ull;
  const double sum = partial[0];
  __syncthreads();
  if (over) sum_of<double>(values, size, shrink, partial);
  if (threadIdx.x) return;
  const double mean = over ? partial[0] / (double)size / shrink : sum / (double)size;
  scale[0] = (u64)__double_as_longlong(*all_equal ? values[0] : mean) & 0x7FFFFFFFFFFFFFFFull;
}

// Sets each word of `out` to `one` if its bit is set, else to `zero`. `signs` need not be aligned.
template <class W> INLINE void expand(const u8* signs, u32 size, W zero, W one, W* out) {
  const u32 i = blockIdx.x * THREADS + threadIdx.x;
  if (i < size) out[i] = signs[i / 8] >> (i % 8) & 1 ? one : zero;
}

KERNEL expand_u16(const u8* signs, u32 size, u16 zero, u16 one, u16* out) { expand<u16>(signs, size, zero, one, out); }
KERNEL expand_u32(const u8* signs, u32 size, u32 zero, u32 one, u32* out) { expand<u32>(signs, size, zero, one, out); }
KERNEL expand_u64(const u8* signs, u32 size, u64 zero, u64 one, u64* out) { expand<u64>(signs, size, zero, one, out); }
