// Conversions of elements to binary32 and back, on raw bits, rounded once (formats/spec/value/raw.md). Kernels that
// narrow write the first position at which a finite value became infinite to `over[0]`, by an atomic minimum.
#include "common.cuh"

INLINE u32 f32_to_f16(u32 u) {
  const u32 sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return sign | 0x7E00u | (a >> 13 & 0x3FFu);
  if (a >= 0x477FF000u) return sign | 0x7C00u;
  if (a < 0x38800000u) return sign | (__float_as_uint(__uint_as_float(a) + 0.5f) - 0x3F000000u);
  return sign | (a + 0xC8000FFFu + (a >> 13 & 1u)) >> 13;
}

INLINE u32 f32_to_bf16(u32 u) {
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return u >> 16 | 0x40u;
  return (u + 0x7FFFu + (u >> 16 & 1u)) >> 16;
}

// Converts raw bits of binary64 to binary32 and rounds to odd: truncates, and sets the last bit if any bit was lost.
INLINE u32 f64_to_f32_round_to_odd(u64 u) {
  const u32 sign = (u32)(u >> 32) & 0x80000000u;
  const u64 a = u & 0x7FFFFFFFFFFFFFFFull;
  if (a >= 0x7FF0000000000000ull)
    return sign | 0x7F800000u | (a > 0x7FF0000000000000ull ? 0x400000u : 0) | ((u32)(a >> 29) & 0x7FFFFFu);
  const i32 exponent = (i32)(a >> 52) - 896;
  if (exponent >= 255) return sign | 0x7F7FFFFFu;
  const u64 fraction = (a & 0xFFFFFFFFFFFFFull) | 0x10000000000000ull;
  const u32 shift = exponent > 0 ? 29 : (u32)minimum(30 - exponent, 63);
  const u64 mantissa = (exponent > 0 ? a & 0xFFFFFFFFFFFFFull : fraction) >> shift;
  const u32 odd = fraction & ((1ull << shift) - 1) ? 1 : 0;
  return sign | (u32)maximum(exponent, 0) << 23 | (u32)mantissa | odd;
}

INLINE u32 f64_to_f16(u64 u) { return f32_to_f16(f64_to_f32_round_to_odd(u)); }

INLINE u32 f64_to_bf16(u64 u) { return f32_to_bf16(f64_to_f32_round_to_odd(u)); }

INLINE u32 f16_to_f32(u32 u) {
  const u32 h = u & 0x7FFFu, sign = (u & 0x8000u) << 16;
  if (h >= 0x7C00u) return sign | ((h << 13) + 0x70000000u);
  if (h < 0x400u) return sign | __float_as_uint((float)h * 5.9604644775390625e-8f);
  return sign | ((h << 13) + 0x38000000u);
}

#define THREAD (blockIdx.x * THREADS + threadIdx.x)

// Narrows out[i] = bits[i] to 16 bits. A magnitude below INFINITE is finite; NARROW_INFINITY is infinity in 16 bits.
#define NARROW(name, W, INFINITE, NARROW_INFINITY, narrow)                  \
  KERNEL name(const W* bits, u32 size, u16* out, u32* over) {               \
    const u32 i = THREAD;                                                   \
    if (i >= size) return;                                                  \
    const u32 h = narrow(bits[i]);                                          \
    const bool finite = (bits[i] & ~(W)0 >> 1) < INFINITE;                  \
    out[i] = (u16)h;                                                        \
    if (finite && (h & 0x7FFFu) == NARROW_INFINITY) atomicMin(&over[0], i); \
  }
NARROW(f16_from_f32, u32, 0x7F800000u, 0x7C00u, f32_to_f16)
NARROW(bf16_from_f32, u32, 0x7F800000u, 0x7F80u, f32_to_bf16)
NARROW(f16_from_f64, u64, 0x7FF0000000000000ull, 0x7C00u, f64_to_f16)
NARROW(bf16_from_f64, u64, 0x7FF0000000000000ull, 0x7F80u, f64_to_bf16)

// Converts binary64 to binary32; a NaN stays one.
KERNEL f32_from_f64(const double* values, u32 size, float* out, u32* over) {
  const u32 i = THREAD;
  if (i >= size) return;
  const float x = (float)values[i];
  out[i] = x;
  const u64 wide = (u64)__double_as_longlong(values[i]) & ~(1ull << 63);
  if (wide < 0x7FF0000000000000ull && (__float_as_uint(x) & 0x7FFFFFFFu) == 0x7F800000u) atomicMin(&over[0], i);
}

KERNEL f32_from_f16(const u16* bits, u32 size, u32* out) {
  const u32 i = THREAD;
  if (i < size) out[i] = f16_to_f32(bits[i]);
}

KERNEL f32_from_bf16(const u16* bits, u32 size, u32* out) {
  const u32 i = THREAD;
  if (i < size) out[i] = (u32)bits[i] << 16;
}

// Converts binary32 to binary64, exactly, NaN payloads included.
KERNEL f64_from_f32(const u32* bits, u32 size, u64* out) {
  const u32 i = THREAD;
  if (i >= size) return;
  const u32 u = bits[i], a = u & 0x7FFFFFFFu;
  const u64 nan = (u64)(u >> 31) << 63 | 0x7FFull << 52 | (u64)(u & 0x7FFFFFu) << 29;
  out[i] = a > 0x7F800000u ? nan : (u64)__double_as_longlong((double)__uint_as_float(u));
}

// values[i] = words[numbers[i]]
#define GATHER(name, W)                                               \
  KERNEL name(const W* words, const u32* numbers, u32 size, W* out) { \
    const u32 i = THREAD;                                             \
    if (i < size) out[i] = words[numbers[i]];                         \
  }
GATHER(gather_u16, u16)
GATHER(gather_u32, u32)
GATHER(gather_u64, u64)

// out[numbers[i]] = words[i]; numbers are unique.
#define SCATTER(name, W)                                              \
  KERNEL name(const W* words, const u32* numbers, u32 size, W* out) { \
    const u32 i = THREAD;                                             \
    if (i < size) out[numbers[i]] = words[i];                         \
  }
SCATTER(scatter_u16, u16)
SCATTER(scatter_u32, u32)
SCATTER(scatter_u64, u64)

// Computes values[i] = words[numbers[i]], or words[i] if `numbers` is null, with its own sign and another magnitude.
#define SET_MAGNITUDE(name, W)                                      \
  KERNEL name(const W* words, const u32* numbers, u32 size,         \
              u64 magnitude, W* out) {                              \
    const u32 i = THREAD;                                           \
    const W rest = (W)((W)~(W)0 >> 1);                              \
    if (i >= size) return;                                          \
    const W sign = (W)(words[numbers ? numbers[i] : i] & (W)~rest); \
    out[i] = (W)(sign | (W)magnitude);                              \
  }
SET_MAGNITUDE(set_magnitude_u16, u16)
SET_MAGNITUDE(set_magnitude_u32, u32)
SET_MAGNITUDE(set_magnitude_u64, u64)
