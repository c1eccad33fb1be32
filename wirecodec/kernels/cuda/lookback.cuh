// Sums over all previous tiles in a single launch: the decoupled look-back of Merrill and Garland, Single-pass
// Parallel Prefix Scan with Decoupled Look-back (2016).
//
// A tile's number is a ticket, not its block's number. So the block of every tile that another one waits for is
// running. `states` has one word per tile, 0 at first: the two upper bits give the kind of the 62-bit sum below
// them.
#pragma once
#include "common.cuh"

#define TILE_AGGREGATE (1ull << 62)  // of that tile alone
#define TILE_INCLUSIVE (2ull << 62)  // of all tiles up to that one
#define TILE_VALUE (~(3ull << 62))

// Takes the next tile, for the whole block; `shared` is one word of shared memory.
INLINE u32 take_tile(u32* tickets, u32* shared) {
  if (threadIdx.x == 0) *shared = atomicAdd(tickets, 1u);
  __syncthreads();
  return *shared;
}

// Returns the sum of all tiles before `tile`, whose own sum is `sum`. The lanes of one warp call it together.
INLINE u64 tile_exclusive_sum(u64* states, u32 tile, u64 sum) {
  if (lane_id() == 0) store_release(&states[tile], (tile == 0 ? TILE_INCLUSIVE : TILE_AGGREGATE) | sum);
  u64 before = 0;
  for (i64 last = (i64)tile - 1; last >= 0; last -= 32) {
    i64 mine = last - (i64)lane_id();
    u64 word;
    do {
      word = mine >= 0 ? load_acquire(&states[mine]) : TILE_INCLUSIVE;
    } while (__any_sync(FULL_MASK, (word >> 62) == 0));
    u32 complete = __ballot_sync(FULL_MASK, (word >> 62) == 2);
    u32 stop = complete ? (u32)__ffs((i32)complete) - 1u : 31u;
    before += warp_sum(lane_id() <= stop ? word & TILE_VALUE : 0ull);
    if (complete) break;
  }
  if (tile > 0 && lane_id() == 0) store_release(&states[tile], TILE_INCLUSIVE | (before + sum));
  return before;
}
