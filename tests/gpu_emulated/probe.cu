// Mistakes that the emulator must detect, each next to correct code.
#include "lookback.cuh"

// out[i] = the number of the thread at the other end of the block.
KERNEL mirror(u32* out, u32 with_barrier) {
  __shared__ u32 all[THREADS];
  all[threadIdx.x] = threadIdx.x;
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = all[THREADS - 1 - threadIdx.x];
}

// Every lane adds itself to its warp's word: atomically, or by a read and a later write.
KERNEL tally(u32* out, u32 atomically) {
  __shared__ u32 sums[WARPS];
  if (lane_id() == 0) sums[warp_id()] = 0;
  __syncwarp();
  if (atomically) {
    atomicAdd(&sums[warp_id()], 1u);
  } else {
    const u32 old = sums[warp_id()];
    __syncwarp();
    sums[warp_id()] = old + 1;
  }
  __syncwarp();
  if (lane_id() == 0) out[warp_id()] = sums[warp_id()];
}

// Half of the threads wait for a barrier, half of each warp for their warp.
KERNEL crossed(u32* out, u32 wrong) {
  if (wrong && (threadIdx.x & 1)) {
    __syncthreads();
    out[threadIdx.x] = __ballot_sync(FULL_MASK, true);
  } else {
    out[threadIdx.x] = __ballot_sync(FULL_MASK, true);
    __syncthreads();
  }
}

// Block i waits for block i - 1: with tickets, the block that another one waits for is running.
KERNEL chain(u64* states, u32* tickets, u32* out, u32 with_tickets) {
  __shared__ u32 shared;
  const u32 tile = with_tickets ? take_tile(tickets, &shared) : blockIdx.x;
  if (warp_id() == 0) {
    const u64 before = tile_exclusive_sum(states, tile, tile + 1);
    if (lane_id() == 0) out[tile] = (u32)before;
  }
}

KERNEL beyond(u32* out, u32 at) {
  if (threadIdx.x == 0) out[at] = 7;
}

KERNEL exchanges(u32* out) {
  const u32 lane = lane_id();
  const u32 up = __shfl_up_sync(FULL_MASK, lane, 3), down = __shfl_down_sync(FULL_MASK, lane, 3);
  const u32 other = __shfl_xor_sync(FULL_MASK, lane, 5), from = __shfl_sync(FULL_MASK, lane, 9);
  const bool any = __any_sync(FULL_MASK, warp_id() == 2 && lane == 7);
  out[threadIdx.x] = up | down << 5 | other << 10 | from << 15 | (any ? 1u << 20 : 0) | warp_sum(lane) << 21;
}
