// Conversions of elements to binary32 and back, on raw bits, rounded once (formats/spec/value/raw.md). Kernels that
// narrow write the first position at which a finite value became infinite to `over[0]`, by an atomic minimum.
#include "elements.cuh"

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
GATHER(gather_u8, u8)
GATHER(gather_u16, u16)
GATHER(gather_u32, u32)
GATHER(gather_u64, u64)

// out[numbers[i]] = words[i]; numbers are unique.
#define SCATTER(name, W)                                              \
  KERNEL name(const W* words, const u32* numbers, u32 size, W* out) { \
    const u32 i = THREAD;                                             \
    if (i < size) out[numbers[i]] = words[i];                         \
  }
SCATTER(scatter_u8, u8)
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
