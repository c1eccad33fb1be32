// AdaComp's bins (kernels/cpu/select/adacomp.py): the maximum of |G| in each bin, and the elements that reach it. G
// = residual + gradient and H = G + ahead · gradient; each operation is rounded. G is written to `total`. A warp
// processes a bin.
#include "common.cuh"

template <class F> INLINE u64 key_of(F x);
template <> INLINE u64 key_of<float>(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
template <> INLINE u64 key_of<double>(double x) { return (u64)__double_as_longlong(x) & 0x7FFFFFFFFFFFFFFFull; }

// If `residual` is null, `gradient` is G. `total` may be `residual`; if `summed`, it holds G already. `keys`
// receives 1 for each element to send, else 0, for `select`. `tops` receives each bin's largest key. `bad[0]` is set
// if an element is not finite.
template <class F>
INLINE void fill_bins(const F* gradient, const F* residual, u32 summed, u32 size, u32 width, F ahead, u64 infinity,
                      F* total, u16* keys, u64* tops, u32* bad) {
  const u32 bin = blockIdx.x * WARPS + warp_of(), bins = (size + width - 1) / width;
  if (bin >= bins) return;
  const u32 start = bin * width, stop = smaller(start + width, size);
  u64 top = 0;
  for (u32 i = start + lane_of(); i < stop; i += 32) {
    const F g = summed ? total[i] : residual ? residual[i] + gradient[i] : gradient[i];
    if (!summed) total[i] = g;
    top = larger(top, key_of(g));
  }
  for (u32 step = 16; step > 0; step >>= 1) top = larger(top, __shfl_xor_sync(ALL, top, step));
  if (lane_of() == 0) {
    tops[bin] = top;
    if (top >= infinity) bad[0] = 1;
  }
  for (u32 i = start + lane_of(); i < stop; i += 32) {
    const F g = total[i];
    const F h = g + gradient[i] * ahead;
    keys[i] = (u16)(top && key_of(g) && key_of(h) >= top);
  }
}

KERNEL adacomp_f32(const float* gradient, const float* residual, u32 summed, u32 size, u32 width, u32 ahead,
                   float* total, u16* keys, u64* tops, u32* bad) {
  fill_bins<float>(gradient, residual, summed, size, width, __uint_as_float(ahead), 0x7F800000ull, total, keys, tops,
                   bad);
}

KERNEL adacomp_f64(const double* gradient, const double* residual, u32 summed, u32 size, u32 width, u64 ahead,
                   double* total, u16* keys, u64* tops, u32* bad) {
  fill_bins<double>(gradient, residual, summed, size, width, __longlong_as_double((i64)ahead), 0x7FF0000000000000ull,
                    total, keys, tops, bad);
}

// One block. Computes the mean of the bins' maxima: bin b belongs to partial sum b mod 16, in order. `wide` says
// whether keys are those of binary64.
KERNEL adacomp_scale(const u64* tops, u32 bins, u32 wide, double* mean) {
  __shared__ double sums[16];
  if (threadIdx.x < 16) {
    double sum = 0;
    for (u64 bin = threadIdx.x; bin < bins; bin += 16)
      sum = sum + (wide ? __longlong_as_double((i64)tops[bin]) : (double)__uint_as_float((u32)tops[bin]));
    sums[threadIdx.x] = sum;
  }
  __syncthreads();
  for (u32 half = 8; half > 0; half >>= 1) {
    if (threadIdx.x < half) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) mean[0] = sums[0] / (double)larger(bins, 1u);
}
