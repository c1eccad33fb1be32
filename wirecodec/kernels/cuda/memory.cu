// Zero fills and copies as kernels, for sequences that may contain kernels only. Arrays are aligned to 4 bytes.
#include "common.cuh"

KERNEL zero(u8* bytes, u64 size) {
  const u64 first = blockIdx.x * THREADS + threadIdx.x;
  for (u64 w = first; w < size / 4; w += gridDim.x * THREADS) ((u32*)bytes)[w] = 0;
  if (first < size % 4) bytes[size / 4 * 4 + first] = 0;
}

KERNEL copy(const u8* source, u64 size, u8* target) {
  const u64 first = blockIdx.x * THREADS + threadIdx.x;
  for (u64 w = first; w < size / 4; w += gridDim.x * THREADS) ((u32*)target)[w] = ((const u32*)source)[w];
  if (first < size % 4) target[size / 4 * 4 + first] = source[size / 4 * 4 + first];
}
