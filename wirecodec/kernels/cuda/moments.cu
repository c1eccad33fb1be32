// SIDCo's sums over magnitudes, in the order of the CPU's kernel (kernels/cpu/select/moments.py), and the sample of
// DGC (kernels/cpu/select/dgc.py).
#include "counter.cuh"

#define BLOCK 4096u   // elements per row of sums
#define LOADED 8u     // loads of a thread that are in flight
#define FOLDED 512u   // rows that are staged for their sum

template <class F, class W> INLINE F number_of(W word);
template <> INLINE float number_of<float, u32>(u32 word) { return __uint_as_float(word); }
template <> INLINE double number_of<double, u64>(u64 word) { return __longlong_as_double((i64)word); }

// Sums count, Σ y and Σ y² of the elements with low <= key < high, y = |x| · scale - origin. Row 0 has the elements
// after the last multiple of 64; row b has the b-th 4096 of the others, in 64 lanes that are folded in halves. The
// largest key goes to zeroed `top`. Each 64 threads process a row.
template <class F, class W>
INLINE void sum_rows(const W* bits, u32 size, u64 low, u64 high, F origin, F scale, double* sums, u64* top,
                     double (*folds)[64][3]) {
  const u32 quarter = threadIdx.x / 64, lane = threadIdx.x % 64;
  const u32 whole = size & ~63u, rows = 1 + (whole + BLOCK - 1) / BLOCK;
  const u32 row = blockIdx.x * (THREADS / 64) + quarter;
  F firsts = 0, squares = 0;
  u32 count = 0;
  u64 greatest = 0;
  if (row < rows) {
    const u32 start = row ? (row - 1) * BLOCK : whole;
    const u32 stop = row ? minimum(start + BLOCK, whole) : size;
    for (u32 first = start + lane; first < stop; first += 64 * LOADED) {
      W loaded[LOADED];
#pragma unroll
      for (u32 j = 0; j < LOADED; j++) loaded[j] = first + 64 * j < stop ? bits[first + 64 * j] : (W)0;
#pragma unroll
      for (u32 j = 0; j < LOADED; j++) {
        if (first + 64 * j >= stop) break;
        const W key = (W)(loaded[j] << 1) >> 1;
        greatest = maximum(greatest, (u64)key);
        const bool inside = (u64)key >= low && (u64)key < high;
        const F y = inside ? number_of<F, W>(key) * scale - origin : (F)0;
        firsts = firsts + y;
        squares = squares + y * y;
        count += inside;
      }
    }
  }
  double* mine = folds[quarter][lane];
  mine[0] = (double)count;
  mine[1] = (double)firsts;
  mine[2] = (double)squares;
  for (u32 step = 16; step > 0; step >>= 1) greatest = maximum(greatest, __shfl_xor_sync(FULL_MASK, greatest, step));
  if (lane_id() == 0 && greatest) atomicMax(top, greatest);
  __syncthreads();
  for (u32 half = 32; half > 0; half >>= 1) {
    if (lane < half)
      for (u32 j = 0; j < 3; j++) mine[j] = mine[j] + folds[quarter][lane + half][j];
    __syncthreads();
  }
  if (lane < 3 && row < rows) sums[3 * (u64)row + lane] = folds[quarter][0][lane];
}

// `origin` and `scale` are raw bits of binary64 numbers; they are rounded.
KERNEL sums_u32(const u32* bits, u32 size, u64 low, u64 high, u64 origin, u64 scale, double* sums, u64* top) {
  __shared__ double folds[THREADS / 64][64][3];
  sum_rows<float, u32>(bits, size, low, high, (float)__longlong_as_double((i64)origin),
                       (float)__longlong_as_double((i64)scale), sums, top, folds);
}

KERNEL sums_u64(const u64* bits, u32 size, u64 low, u64 high, u64 origin, u64 scale, double* sums, u64* top) {
  __shared__ double folds[THREADS / 64][64][3];
  sum_rows<double, u64>(bits, size, low, high, __longlong_as_double((i64)origin), __longlong_as_double((i64)scale),
                        sums, top, folds);
}

// One block. Adds the rows in order: count, Σ y, Σ y². Three threads add a part of the rows while the other warps load
// the next part, because the order leaves nothing else to do at the same time.
KERNEL fold_sums(const double* sums, u32 rows, double* out) {
  __shared__ double staged[2][3 * FOLDED];
  const u64 all = 3ull * rows, part = 3 * FOLDED;
  double sum = 0;
  u32 turn = 0;
  for (u64 start = 0; start < all + part; start += part, turn ^= 1) {
    if (warp_id())
      for (u64 i = threadIdx.x - 32; i < part && start + i < all; i += THREADS - 32) staged[turn][i] = sums[start + i];
    else if (start && threadIdx.x < 3) {
      const u32 n = (u32)minimum((all - (start - part)) / 3, (u64)FOLDED);
#pragma unroll 8
      for (u32 row = 0; row < n; row++) sum = sum + staged[turn ^ 1][3 * row + threadIdx.x];
    }
    __syncthreads();
  }
  if (threadIdx.x < 3) out[threadIdx.x] = sum;
}

// Sums x² of the elements of each row of SQUARES_ROW, in binary64 and in the order of the CPU's kernel
// (kernels/cpu/select/sums.py): 64 lanes, folded in halves. Each 64 threads process a row.
#define SQUARES_ROW 65536u

template <class F, class W>
INLINE void square_rows(const W* bits, u64 size, double* sums, double (*folds)[64]) {
  const u32 quarter = threadIdx.x / 64, lane = threadIdx.x % 64;
  const u64 row = (u64)blockIdx.x * (THREADS / 64) + quarter, start = row * SQUARES_ROW;
  const u64 stop = start + SQUARES_ROW < size ? start + SQUARES_ROW : size;
  double squares = 0;
  for (u64 i = start + lane; i < stop; i += 64) {
    const double x = (double)number_of<F, W>(bits[i]);
    squares = squares + x * x;
  }
  folds[quarter][lane] = squares;
  __syncthreads();
  for (u32 half = 32; half > 0; half >>= 1) {
    if (lane < half) folds[quarter][lane] = folds[quarter][lane] + folds[quarter][lane + half];
    __syncthreads();
  }
  if (lane == 0 && start < size) sums[row] = folds[quarter][0];
}

KERNEL squares_u32(const u32* bits, u64 size, double* sums) {
  __shared__ double folds[THREADS / 64][64];
  square_rows<float, u32>(bits, size, sums, folds);
}

KERNEL squares_u64(const u64* bits, u64 size, double* sums) {
  __shared__ double folds[THREADS / 64][64];
  square_rows<double, u64>(bits, size, sums, folds);
}

// Draws the sample of dgc: one word from each of n stretches of equal length.
template <class W>
INLINE void sample_words(const W* words, u64 size, u32 n, u32 low, u32 high, W* out) {
  const u64 q = blockIdx.x * THREADS + threadIdx.x;
  if (q >= n) return;
  const u64 start = q * size / n, length = (q + 1) * size / n - start;
  out[q] = words[start + ((u64)draw32(low, high, (u32)q) * length >> 32)];
}

#define SAMPLE(name, W)                                                     \
  KERNEL name(const W* words, u64 size, u32 n, u32 low, u32 high, W* out) { \
    sample_words<W>(words, size, n, low, high, out);                        \
  }
SAMPLE(sample_u16, u16)
SAMPLE(sample_u32, u32)
SAMPLE(sample_u64, u64)
