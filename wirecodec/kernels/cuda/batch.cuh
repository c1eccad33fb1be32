// Launches for many items: the item of a block, and element types.
#pragma once
#include "elements.cuh"

// Returns the item of this block, and sets `number` to the block's number there. Every warp searches with all lanes.
INLINE u32 find_item(const u32* starts, u32 items, u32* number) {
  u32 low = 0, high = items;
  while (high - low > 1) {
    const u32 step = (high - low + 31) / 32, probe = low + step * (lane_id() + 1);
    const bool before = probe < high && starts[probe] <= blockIdx.x;
    low += step * (u32)__popc(__ballot_sync(FULL_MASK, before));
    high = minimum(low + step, high);
  }
  *number = blockIdx.x - starts[low];
  return low;
}

// Element types: conversions from and to binary32, and the largest finite number.
struct F32 {
  typedef u32 Word;
  static INLINE u32 widen(u32 word) { return word; }
  static INLINE u32 narrow(u32 word) { return word; }
  static INLINE float largest() { return __uint_as_float(0x7F7FFFFFu); }
  static INLINE u64 infinity() { return 0x7F800000u; }
};
struct F16 {
  typedef u16 Word;
  static INLINE u32 widen(u16 word) { return f16_to_f32(word); }
  static INLINE u16 narrow(u32 word) { return (u16)f32_to_f16(word); }
  static INLINE float largest() { return 65504.0f; }
  static INLINE u64 infinity() { return 0x7C00u; }
};
struct BF16 {
  typedef u16 Word;
  static INLINE u32 widen(u16 word) { return (u32)word << 16; }
  static INLINE u16 narrow(u32 word) { return (u16)f32_to_bf16(word); }
  static INLINE float largest() { return __uint_as_float(0x7F7F0000u); }
  static INLINE u64 infinity() { return 0x7F80u; }
};

