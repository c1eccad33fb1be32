// Conversions of elements, on raw bits, rounded once (formats/spec/value/raw.md).
#pragma once
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
