// CRC-32 (formats/SPEC.md, section 6) of bytes in pieces. The register is linear over GF(2): the pieces' registers
// are computed separately, shifted to their place by multiplication with a power of x, and added in any order.
#pragma once
#include "common.cuh"

#define POLYNOMIAL 0xEDB88320u
#define PIECE 64u  // bytes per thread

// Multiplies modulo the polynomial; bit 31 is the coefficient of 1.
INLINE u32 gf2_multiply(u32 a, u32 b) {
  u32 product = 0;
  for (u32 bit = 0; bit < 32; bit++) {
    product ^= (0u - (b >> 31)) & a;
    a = a >> 1 ^ ((0u - (a & 1)) & POLYNOMIAL);
    b <<= 1;
  }
  return product;
}

// Returns x^(8n), the factor that shifts a register over n bytes.
INLINE u32 shift_factor(u64 n) {
  u32 power = 0x00800000u, found = 0x80000000u;  // x^8, and 1
  for (; n; n >>= 1, power = gf2_multiply(power, power))
    if (n & 1) found = gf2_multiply(found, power);
  return found;
}

// Returns the register after `size` bytes, starting from 0.
INLINE u32 crc_register(const u8* bytes, u64 size) {
  u32 part = 0;
  for (u64 i = 0; i < size; i++) {
    part ^= bytes[i];
    for (u32 bit = 0; bit < 8; bit++) part = part >> 1 ^ ((0u - (part & 1)) & POLYNOMIAL);
  }
  return part;
}

// Adds the part of a block to the zeroed checksum crc[0]; block 0 must run.
INLINE void add_checksum(const u8* bytes, u64 size, u32* crc, u32 block) {
  const u64 start = (u64)(block * THREADS + threadIdx.x) * PIECE;
  const u64 stop = minimum(start + PIECE, size);
  u32 part = start < stop ? crc_register(bytes + start, stop - start) : 0;
  if (start < stop) part = gf2_multiply(part, shift_factor(size - stop));
  if (block == 0 && threadIdx.x == 0)  // initial and final inversion
    part ^= gf2_multiply(MAX_U32, shift_factor(size)) ^ MAX_U32;
  for (u32 step = 16; step > 0; step >>= 1) part ^= __shfl_xor_sync(FULL_MASK, part, step);
  if (lane_id() == 0 && part) atomicXor(crc, part);
}
