// AdaComp's bins (kernels/cpu/select/adacomp.py): the maximum of |G| in each bin, and the elements that reach it. G
// = residual + gradient and H = G + factor · gradient; each operation is rounded. G is written to `total`. A warp
// processes a bin.
#include "common.cuh"

template <class F> INLINE u64 key_of(F x);
template <> INLINE u64 key_of<float>(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
template <> INLINE u64 key_of<double>(double x) { return (u64)__double_as_longlong(x) & 0x7FFFFFFFFFFFFFFFull; }

// If `residual` is null, `gradient` is G. `total` may be `residual`; if `is_summed`, it holds G already. `keys`
// receives 1 for each element to send, else 0, for `select`. `maxima` receives each bin's largest key. `bad[0]` is set
// if an element is not finite.
template <class F>
INLINE void fill_bins(const F* gradient, const F* residual, u32 is_summed, u32 size, u32 width, F factor, u64 infinity,
                      F* total, u16* keys, u64* maxima, u32* bad) {
  const u32 bin = blockIdx.x * WARPS + warp_id(), bins = (size + width - 1) / width;
  if (bin >= bins) return;
  const u32 start = bin * width, stop = minimum(start + width, size);
  u64 top = 0;
  for (u32 i = start + lane_id(); i < stop; i += 32) {
    const F g = is_summed ? total[i] : residual ? residual[i] + gradient[i] : gradient[i];
    if (!is_summed) total[i] = g;
    top = maximum(top, key_of(g));
  }
  for (u32 step = 16; step > 0; step >>= 1) top = maximum(top, __shfl_xor_sync(FULL_MASK, top, step));
  if (lane_id() == 0) {
    maxima[bin] = top;
    if (top >= infinity) bad[0] = 1;
  }
  for (u32 i = start + lane_id(); i < stop; i += 32) {
    const F g = total[i];
    const F h = g + gradient[i] * factor;
    keys[i] = (u16)(top && key_of(g) && key_of(h) >= top);
  }
}

KERNEL adacomp_f32(const float* gradient, const float* residual, u32 is_summed, u32 size, u32 width, u32 factor,
                   float* total, u16* keys, u64* maxima, u32* bad) {
  fill_bins<float>(gradient, residual, is_summed, size, width, __uint_as_float(factor), 0x7F800000ull, total, keys,
                   maxima, bad);
}

KERNEL adacomp_f64(const double* gradient, const double* residual, u32 is_summed, u32 size, u32 width, u64 factor,
                   double* total, u16* keys, u64* maxima, u32* bad) {
  fill_bins<double>(gradient, residual, is_summed, size, width, __longlong_as_double((i64)factor),
                    0x7FF0000000000000ull, total, keys, maxima, bad);
}

// One block. Computes the mean of the bins' maxima: bin b belongs to partial sum b mod 16, in order. `wide` says
// whether keys are those of binary64.
KERNEL adacomp_scale(const u64* maxima, u32 bins, u32 wide, double* mean) {
  __shared__ double sums[16];
  if (threadIdx.x < 16) {
    double sum = 0;
    for (u64 bin = threadIdx.x; bin < bins; bin += 16)
      sum = sum + (wide ? __longlong_as_double((i64)maxima[bin]) : (double)__uint_as_float((u32)maxima[bin]));
    sums[threadIdx.x] = sum;
  }
  __syncthreads();
  for (u32 half = 8; half > 0; half >>= 1) {
    if (threadIdx.x < half) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) mean[0] = sums[0] / (double)maximum(bins, 1u);
}
