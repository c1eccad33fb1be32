// Decoding of many entries of Rice and of QSGD or raw values, their addition to dense arrays, and many arrays' checks:
// one launch per stage. A launch has blocks for all its items; `starts` is the first block of each.
#include "batch.cuh"
#include "qsgd.cuh"
#include "rice.cuh"

struct Coded {
  const u32* words;    // index section
  const u32* section;  // value section
  u32* indices;        // null if all elements are present
  float* values;
  u8* parameters;
  u32* spans;
  u32* bad;            // set if a check fails
  float* out;          // of the chunk
  u32 index_words, d, r, n;  // n: bits of QSGD's codes; 0 for raw values
};

// A block per entry.
KERNEL coded_open(const Coded* coded) {
  __shared__ OpenShared shared;
  const Coded& one = coded[blockIdx.x];
  if (one.indices) open_section(one.words, one.index_words, one.r, one.parameters, one.spans, one.bad, &shared);
}

KERNEL coded_read(const Coded* coded, const u32* starts, u32 count) {
  __shared__ ReadShared shared;
  u32 number;
  const Coded& one = coded[find_item(starts, count, &number)];
  if (one.indices)
    read_span(one.words, one.parameters, one.spans, one.d, one.r, one.indices, one.bad, number, &shared);
}

#define CODED_VALUES(T, suffix)                                                                                 \
  KERNEL coded_values_##suffix(const Coded* coded, const u32* starts, u32 count) {                              \
    u32 number;                                                                                                 \
    const Coded& one = coded[find_item(starts, count, &number)];                                                \
    const u32 n = one.n, start = number * PACK_BLOCK, size = minimum(one.r - start, PACK_BLOCK);                \
    u32* const out = (u32*)one.values + start;                                                                  \
    if (n == 0) {                                                                                               \
      for (u32 i = threadIdx.x; i < size; i += THREADS)                                                         \
        out[i] = T::widen(((const T::Word*)one.section)[start + i]);                                            \
      return;                                                                                                   \
    }                                                                                                           \
    const u32 levels = (1u << (n - 1)) - 1, scale = one.section[2 + number];                                    \
    const u32* const words = one.section + 3 + (one.r - 1) / PACK_BLOCK + (u64)number * PACK_LANES * n;         \
    bool wrong = scale && (scale < MIN_SCALE || scale > __float_as_uint(T::largest()));                         \
    if (size < PACK_BLOCK && size * n % 32) wrong = wrong || words[size * n / 32] >> size * n % 32;             \
    for (u32 i = threadIdx.x; i < size; i += THREADS) {                                                         \
      const u32 code = unpack_code(words, size, n, i);                                                          \
      wrong = wrong || code > 2 * levels || (scale == 0 && code != levels);                                     \
      out[i] = T::widen(T::narrow(qsgd_value(code, scale, levels)));                                            \
    }                                                                                                           \
    if (wrong) one.bad[0] = 1;                                                                                  \
  }

CODED_VALUES(F32, f32)
CODED_VALUES(F16, f16)
CODED_VALUES(BF16, bf16)

// Computes out += scale * value; the product is rounded, then the sum.
KERNEL coded_add(const Coded* coded, const u32* starts, u32 count, u32 scale) {
  u32 number;
  const Coded& one = coded[find_item(starts, count, &number)];
  const u32 start = number * PACK_BLOCK;
  for (u32 i = start + threadIdx.x; i < one.r && i < start + PACK_BLOCK; i += THREADS) {
    float* const at = one.out + (one.indices ? one.indices[i] : i);
    *at = *at + __uint_as_float(scale) * one.values[i];
  }
}

struct Words {
  const void* words;
  u64 size;
};

// Sets found[a] if a word of array a passes a test.
#define FIND(name, W, test)                                                                \
  KERNEL name(const Words* arrays, const u32* starts, u32 count, u64 mask, u32* found) {   \
    u32 number;                                                                            \
    const u32 a = find_item(starts, count, &number);                                       \
    const W *const words = (const W*)arrays[a].words, bits = (W)mask;                      \
    const u64 step = (u64)(starts[a + 1] - starts[a]) * THREADS;                           \
    for (u64 i = number * THREADS + threadIdx.x; i < arrays[a].size && !found[a]; i += step) \
      if (test) found[a] = 1;                                                              \
  }

FIND(batch_finite_u16, u16, (words[i] & bits) == bits)
FIND(batch_finite_u32, u32, (words[i] & bits) == bits)
FIND(batch_finite_u64, u64, (words[i] & bits) == bits)
FIND(batch_nonzero_u16, u16, words[i] & bits)
FIND(batch_nonzero_u32, u32, words[i] & bits)
FIND(batch_nonzero_u64, u64, words[i] & bits)

struct Sum {
  float* total;
  void* out;  // total itself for float32
  u64 size;
};

// Divides sums in their own type, and rounds the quotients once.
#define MEANS(T, suffix)                                                                                          \
  KERNEL batch_means_##suffix(const Sum* sums, const u32* starts, u32 count, u32 divisor) {                       \
    u32 number;                                                                                                   \
    const u32 a = find_item(starts, count, &number);                                                              \
    const u64 step = (u64)(starts[a + 1] - starts[a]) * THREADS;                                                  \
    for (u64 i = number * THREADS + threadIdx.x; i < sums[a].size; i += step)                                     \
      ((T::Word*)sums[a].out)[i] = T::narrow(__float_as_uint(sums[a].total[i] / __uint_as_float(divisor)));       \
  }

MEANS(F32, f32)
MEANS(F16, f16)
MEANS(BF16, bf16)

// Copies arrays to others.
#define COPY(name, W)                                                                                             \
  KERNEL name(const Sum* arrays, const u32* starts, u32 count) {                                                  \
    u32 number;                                                                                                   \
    const u32 a = find_item(starts, count, &number);                                                              \
    const u64 step = (u64)(starts[a + 1] - starts[a]) * THREADS;                                                  \
    for (u64 i = number * THREADS + threadIdx.x; i < arrays[a].size; i += step)                                   \
      ((W*)arrays[a].out)[i] = ((const W*)arrays[a].total)[i];                                                    \
  }

COPY(batch_copy_u16, u16)
COPY(batch_copy_u32, u32)
COPY(batch_copy_u64, u64)
