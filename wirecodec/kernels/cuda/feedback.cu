// Error feedback (wirecodec/feedback.py): gradient + residual, and what receivers did not get of it. Every
// operation is rounded. Indices are unique.
#include "common.cuh"

#define AT (blockIdx.x * THREADS + threadIdx.x)

INLINE bool is_finite(float x) { return (__float_as_uint(x) & 0x7F800000u) != 0x7F800000u; }
INLINE bool is_finite(double x) { return ((u64)__double_as_longlong(x) & 0x7FFull << 52) != 0x7FFull << 52; }

// The greatest finite number, of the sign of x.
INLINE float greatest(float x) { return __uint_as_float((__float_as_uint(x) & 0x80000000u) | 0x7F7FFFFFu); }
INLINE double greatest(double x) {
  return __longlong_as_double((i64)(((u64)__double_as_longlong(x) & 1ull << 63) | ((0x7FFull << 52) - 1)));
}

template <class F> INLINE F number(u64 bits);
template <> INLINE float number<float>(u64 bits) { return __uint_as_float((u32)bits); }
template <> INLINE double number<double>(u64 bits) { return __longlong_as_double((i64)bits); }

// out = gradient + residual. A sum beyond the type's range is held at its end, unless the gradient is not finite
// itself: that sets `odd[0]`, where given, as does a sum that is NaN. `gate`: nothing is done where it is given
// and points to 0.
template <class F>
INLINE void add(const u64* gate, const F* gradient, const F* residual, u32 size, F* out, u32* odd) {
  const u32 i = AT;
  if (i >= size || (gate && *gate == 0)) return;
  const F g = gradient[i];
  F total = g + residual[i];
  if (!is_finite(total)) {
    if (is_finite(g) && total == total) total = greatest(total);
    else if (odd) odd[0] = 1;
  }
  out[i] = total;
}

// Finite numbers, at most `most` in magnitude.
template <class F> INLINE void clip(const F* x, u32 size, F most, F* out) {
  const u32 i = AT;
  if (i < size) out[i] = smaller(larger(x[i], -most), most);
}

// left[indices[i]] -= sent[i], or 0 where that is not finite; without indices, of all elements.
template <class F> INLINE void subtract(F* left, const u32* indices, const F* sent, u32 size) {
  const u32 i = AT;
  if (i >= size) return;
  const u32 at = indices ? indices[i] : i;
  const F rest = left[at] - sent[i];
  left[at] = is_finite(rest) ? rest : 0;
}

// left = beta · (x - sent) + keep · residual at the indices, or 0 where that is not finite. Where not given, `sent`
// is 0, and nothing is added for the residual; without indices, of all elements.
template <class F>
INLINE void lowpass(const F* x, const F* residual, const u32* indices, const F* sent, u32 size, F beta, F keep,
                    F* left) {
  const u32 i = AT;
  if (i >= size) return;
  const u32 at = indices ? indices[i] : i;
  F rest = beta * (sent ? x[at] - sent[i] : x[at]);
  if (residual) rest = rest + keep * residual[at];
  left[at] = is_finite(rest) ? rest : 0;
}

#define FEEDBACK(F, suffix)                                                                                    \
  KERNEL add_##suffix(const u64* gate, const F* gradient, const F* residual, u32 size, F* out, u32* odd) {     \
    add<F>(gate, gradient, residual, size, out, odd);                                                          \
  }                                                                                                            \
  KERNEL clip_##suffix(const F* x, u32 size, u64 most, F* out) { clip<F>(x, size, number<F>(most), out); }     \
  KERNEL subtract_##suffix(F* left, const u32* indices, const F* sent, u32 size) {                             \
    subtract<F>(left, indices, sent, size);                                                                    \
  }                                                                                                            \
  KERNEL lowpass_##suffix(const F* x, const F* residual, const u32* indices, const F* sent, u32 size,          \
                          u64 beta, u64 keep, F* left) {                                                       \
    lowpass<F>(x, residual, indices, sent, size, number<F>(beta), number<F>(keep), left);                      \
  }

FEEDBACK(float, f32)
FEEDBACK(double, f64)

// rest[indices[i]] = words[i], of the first found[0] of them, `room` at most.
#define PUT_BACK(name, W)                                                                                      \
  KERNEL name(const u32* found, u32 room, const u32* indices, const W* words, W* rest) {                       \
    const u32 n = smaller(found[0], room);                                                                     \
    for (u32 i = AT; i < n; i += gridDim.x * THREADS) rest[indices[i]] = words[i];                             \
  }

PUT_BACK(put_back_u32, u32)
PUT_BACK(put_back_u64, u64)
