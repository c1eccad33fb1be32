// Error feedback (wirecodec/cpu/residual.py): gradient + residual, and the next residual. Each operation is
// rounded. Indices are unique.
#include "common.cuh"

#define THREAD (blockIdx.x * THREADS + threadIdx.x)


// Returns the largest finite number, with the sign of x.
INLINE float clamp_to_finite(float x) { return __uint_as_float((__float_as_uint(x) & 0x80000000u) | 0x7F7FFFFFu); }
INLINE double clamp_to_finite(double x) {
  return __longlong_as_double((i64)(((u64)__double_as_longlong(x) & 1ull << 63) | ((0x7FFull << 52) - 1)));
}

template <class F> INLINE F number(u64 bits);
template <> INLINE float number<float>(u64 bits) { return __uint_as_float((u32)bits); }
template <> INLINE double number<double>(u64 bits) { return __longlong_as_double((i64)bits); }

// Computes out = gradient + residual. A sum beyond the type's range is clamped. If a gradient is not finite or a sum
// is NaN, `bad[0]` is set.
template <class F>
INLINE void add(const F* gradient, const F* residual, u32 size, F* out, u32* bad) {
  const u32 i = THREAD;
  if (i >= size) return;
  const F g = gradient[i];
  F total = g + residual[i];
  if (!is_finite(total)) {
    if (is_finite(g) && total == total) total = clamp_to_finite(total);
    else bad[0] = 1;
  }
  out[i] = total;
}

// Clamps finite numbers to `bound` in magnitude.
template <class F> INLINE void clip(const F* x, u32 size, F bound, F* out) {
  const u32 i = THREAD;
  if (i < size) out[i] = minimum(maximum(x[i], -bound), bound);
}

// Computes left[indices[i]] -= sent[i], or 0 if that is not finite; for all elements if `indices` is null.
template <class F> INLINE void subtract(F* left, const u32* indices, const F* sent, u32 size) {
  const u32 i = THREAD;
  if (i >= size) return;
  const u32 at = indices ? indices[i] : i;
  const F rest = left[at] - sent[i];
  left[at] = is_finite(rest) ? rest : 0;
}

// Computes left = beta · (x - sent) + keep · residual at the indices, or 0 if that is not finite; for all elements
// if `indices` is null. A null `sent` stands for 0; a null `residual` adds nothing.
template <class F>
INLINE void lowpass(const F* x, const F* residual, const u32* indices, const F* sent, u32 size, F beta, F keep,
                    F* left) {
  const u32 i = THREAD;
  if (i >= size) return;
  const u32 at = indices ? indices[i] : i;
  F rest = beta * (sent ? x[at] - sent[i] : x[at]);
  if (residual) rest = rest + keep * residual[at];
  left[at] = is_finite(rest) ? rest : 0;
}

// Computes out = keep · before + factor · gradient, and ahead = keep · out + factor · gradient if `ahead` is not null.
// A null `before` adds nothing. If a result is not finite, `bad[0]` is set.
template <class F>
INLINE void momentum(const F* gradient, const F* before, u32 size, F keep, F factor, F* out, F* ahead, u32* bad) {
  const u32 i = THREAD;
  if (i >= size) return;
  const F g = factor * gradient[i];
  const F u = before ? keep * before[i] + g : g;
  out[i] = u;
  bool finite = is_finite(u);
  if (ahead) {
    const F next = keep * u + g;
    ahead[i] = next;
    finite = finite && is_finite(next);
  }
  if (!finite) bad[0] = 1;
}

// Sets left[indices[i]] to 0; all elements if `indices` is null.
template <class F> INLINE void clear_at(F* left, const u32* indices, u32 size) {
  const u32 i = THREAD;
  if (i < size) left[indices ? indices[i] : i] = 0;
}

#define FEEDBACK(F, suffix)                                                                                   \
  KERNEL add_##suffix(const F* gradient, const F* residual, u32 size, F* out, u32* bad) {                     \
    add<F>(gradient, residual, size, out, bad);                                                      \
  }                                                                                                           \
  KERNEL clip_##suffix(const F* x, u32 size, u64 bound, F* out) { clip<F>(x, size, number<F>(bound), out); }  \
  KERNEL subtract_##suffix(F* left, const u32* indices, const F* sent, u32 size) {                            \
    subtract<F>(left, indices, sent, size);                                                                   \
  }                                                                                                           \
  KERNEL lowpass_##suffix(const F* x, const F* residual, const u32* indices, const F* sent, u32 size,         \
                          u64 beta, u64 keep, F* left) {                                                      \
    lowpass<F>(x, residual, indices, sent, size, number<F>(beta), number<F>(keep), left);                     \
  }                                                                                                           \
  KERNEL momentum_##suffix(const F* gradient, const F* before, u32 size, u64 keep, u64 factor, F* out,        \
                           F* ahead, u32* bad) {                                                              \
    momentum<F>(gradient, before, size, number<F>(keep), number<F>(factor), out, ahead, bad);                 \
  }                                                                                                           \
  KERNEL clear_at_##suffix(F* left, const u32* indices, u32 size) { clear_at<F>(left, indices, size); }

FEEDBACK(float, f32)
FEEDBACK(double, f64)
