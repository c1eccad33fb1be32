// Selections from one array, and from the sum of two (select.cuh).
#include "select.cuh"

// If `enabled` is not null and points to 0, nothing is done. `count`, if not null, is the number of elements, at most
// `size`. `numbers`, if not null, are the elements' indices. `states`, one word per tile, and `tickets` must be
// zeroed. `found[0]` may exceed `capacity`.
#define SELECT(name, W)                                                                                       \
  KERNEL name(const u64* enabled, const W* words, u32 size, const u32* count, const u32* numbers, u64 mask,   \
              u64 infinity, const u64* rule, u32* bitmap, u32* indices, W* values, u32 capacity, u64* states, \
              u32* tickets, u32* found) {                                                                     \
    __shared__ Counts shared;                                                                                 \
    if (enabled && *enabled == 0) return;                                                                     \
    const Output out = {bitmap, indices, capacity, found, infinity};                                          \
    select_tile<W>(Words<W>{words}, count ? minimum(*count, size) : size, numbers, (W)mask, rule, out,        \
                   values, states, tickets, &shared);                                                         \
  }

SELECT(select_u16, u16)
SELECT(select_u32, u32)
SELECT(select_u64, u64)

// Does the same for gradient + residual, which may be `rest` itself.
#define SELECT_SUM(name, W, F, Sums)                                                                         \
  KERNEL name(const F* gradient, const F* residual, W* rest, u32 size, u64 infinity, const u64* rule,        \
              u32* bitmap, u32* indices, W* values, u32 capacity, u64* states, u32* tickets, u32* found) {   \
    __shared__ Counts shared;                                                                                \
    const Output out = {bitmap, indices, capacity, found, infinity};                                         \
    select_tile<W>(Sums{gradient, residual, rest}, size, (const u32*)nullptr, (W)((W)~(W)0 >> 1), rule, out, \
                   values, states, tickets, &shared);                                                        \
  }

SELECT_SUM(select_sum_f32, u32, float, Sums32)
SELECT_SUM(select_sum_f64, u64, double, Sums64)
