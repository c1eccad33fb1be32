// Packed codes as a section of their own: a block of threads processes a block of 512 codes.
#include "packing.cuh"

template <class T> INLINE void pack_codes(const T* codes, u32 size, u32 n, u32* words, u32* shared) {
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK);
  for (u32 i = threadIdx.x; i < count; i += THREADS) shared[i] = codes[start + i];
  __syncthreads();
  pack_block(shared, count, n, words + (u64)blockIdx.x * PACK_LANES * n);
}

template <class T> INLINE void unpack_codes(const u32* words, u32 size, u32 n, T* codes) {
  const u32 start = blockIdx.x * PACK_BLOCK, count = minimum(size - start, PACK_BLOCK);
  for (u32 i = threadIdx.x; i < count; i += THREADS)
    codes[start + i] = (T)unpack_code(words + (u64)blockIdx.x * PACK_LANES * n, count, n, i);
}

#define PACKING(pack, unpack, T)                               \
  KERNEL pack(const T* codes, u32 size, u32 n, u32* words) {   \
    __shared__ u32 shared[PACK_BLOCK];                         \
    pack_codes<T>(codes, size, n, words, shared);              \
  }                                                            \
  KERNEL unpack(const u32* words, u32 size, u32 n, T* codes) { \
    unpack_codes<T>(words, size, n, codes);                    \
  }

PACKING(pack_u8, unpack_u8, u8)
PACKING(pack_u16, unpack_u16, u16)
PACKING(pack_u32, unpack_u32, u32)
