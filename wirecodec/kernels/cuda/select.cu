// Selections from one array, and from the sum of two (select.cuh).
#include "select.cuh"

// If `enabled` is not null and points to 0, nothing is done. `count`, if not null, is the number of elements, at most
// `size`.
#define FLAG(name, W)                                                                                                \
  KERNEL name(const u64* enabled, const W* words, u32 size, const u32* count, u64 mask, const u64* rule, u32* reach, \
              u64* states, u32* tickets, u32* found) {                                                               \
    if (enabled && *enabled == 0) return;                                                                            \
    const Place place = {reach, states, tickets, found};                                                             \
    flag_tile<W>(Words<W>{words}, count ? minimum(*count, size) : size, (W)mask, rule, place, blockIdx.x);           \
  }

FLAG(flag_u16, u16)
FLAG(flag_u32, u32)
FLAG(flag_u64, u64)

// Does the same for gradient + residual, which may be `total` itself.
#define FLAG_SUM(name, W, F, Sums)                                                                                 \
  KERNEL name(const F* gradient, const F* residual, W* total, u32 size, const u64* rule, u32* reach, u64* states,  \
              u32* tickets, u32* found) {                                                                          \
    const Place place = {reach, states, tickets, found};                                                           \
    flag_tile<W>(Sums{gradient, residual, total}, size, (W)((W)~(W)0 >> 1), rule, place, blockIdx.x);              \
  }

FLAG_SUM(flag_sum_f32, u32, float, Sums32)
FLAG_SUM(flag_sum_f64, u64, double, Sums64)

// `numbers`, if not null, are the elements' indices. `found[0]` may exceed `capacity`.
#define COMPACT(name, W, ITEMS)                                                                                      \
  KERNEL name(const u64* enabled, const W* words, u32 size, const u32* count, const u32* numbers, u64 mask,     \
              u64 infinity, const u64* rule, u32* reach, u32* indices, W* values, u32 capacity, u64* states,    \
              u32* tickets, u32* found, W* cleared) {                                                           \
    __shared__ CompactShared shared;                                                                            \
    if (enabled && *enabled == 0) return;                                                                       \
    const Place place = {reach, states, tickets, found};                                                        \
    compact_tile<ITEMS, W>(Words<W>{words}, count ? minimum(*count, size) : size, numbers, (W)mask, rule, place,       \
                    Output{indices, capacity, infinity}, values, cleared, &shared);                             \
  }

COMPACT(compact_u16, u16, SPARSE)
COMPACT(compact_u32, u32, SPARSE)
COMPACT(compact_u64, u64, SPARSE)
COMPACT(compact_dense_u16, u16, DENSE)
COMPACT(compact_dense_u32, u32, DENSE)
COMPACT(compact_dense_u64, u64, DENSE)
