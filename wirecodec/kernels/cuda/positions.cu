// The index codec by-class (formats/spec/patch.md): weights of elements, and the positions that they lead to.
//
// A lane is a part of the elements, `each` of them. Its runs have RUN elements, and `sums` has the sum of the weights
// before each run of a lane, and of all its runs: `runs` + 1 numbers per lane.
#include "common.cuh"

#define CLASSES 64u
#define RUN 256u
#define OWN (RUN / 32u)  // elements of a run per thread of a warp
#define MAX_ROWS 2048u
#define SEGMENTS 16u
#define REACH ((u64)SEGMENTS << 24)  // places up to which a symbol can stand for an element
#define LEAST (1ull << 31)           // smallest state of the coder between two symbols
#define SLOT (LEAST - 1)

// Counts the rows of every `step`-th run of 8 elements. `rows` is their number, a power of two; `mine` is shared memory.
template <class W>
INLINE void count_rows(const W* elements, u64 size, u32 shift, u32 rows, u32 step, u32* counts, u32* mine) {
  for (u32 row = threadIdx.x; row < rows; row += THREADS) mine[row] = 0;
  __syncthreads();
  for (u64 k = (u64)blockIdx.x * THREADS + threadIdx.x; k / 8 * 8 * step < size; k += (u64)gridDim.x * THREADS) {
    const u64 i = k / 8 * 8 * step + k % 8;
    if (i < size) atomicAdd(&mine[(u32)((u64)elements[i] >> shift) & (rows - 1)], 1u);
  }
  __syncthreads();
  for (u32 row = threadIdx.x; row < rows; row += THREADS)
    if (mine[row]) atomicAdd(&counts[row], mine[row]);
}

#define COUNT(name, W)                                                                     \
  KERNEL name(const W* elements, u64 size, u32 shift, u32 rows, u32 step, u32* counts) {   \
    __shared__ u32 mine[MAX_ROWS];                                                         \
    count_rows<W>(elements, size, shift, rows, step, counts, mine);                        \
  }
COUNT(count_rows_u8, u8)
COUNT(count_rows_u16, u16)
COUNT(count_rows_u32, u32)
COUNT(count_rows_u64, u64)

// How elements get their weights: the table has those of the classes, and then the mask of rows.
struct Scale {
  u32 shift, first;
  const u32* table;
};

template <class W> INLINE u64 weigh(const Scale& scale, W element) {
  const u32 row = (u32)((u64)element >> scale.shift) & scale.table[CLASSES];
  return scale.table[minimum(maximum(row, scale.first) - scale.first, CLASSES - 1)];
}

// Adds up the weights of the elements from `start` to `stop` - 1, fewer than 2^32. A warp calls it together.
template <class W> INLINE u64 weigh_all(const W* elements, u64 start, u64 stop, const Scale& scale) {
  u64 total = 0;
  for (u64 i = start + lane_id(); i < stop; i += 32) total += weigh(scale, elements[i]);
  return warp_sum(total);
}

// Writes the sum of each run itself; a warp per run.
template <class W>
INLINE void weigh_runs(const W* elements, u64 size, u32 lanes, u64 each, u32 runs, const Scale& scale, u64* sums) {
  const u64 number = (u64)blockIdx.x * WARPS + warp_id(), lane = number / runs, run = number % runs;
  if (lane >= lanes) return;
  const u64 start = lane * each + run * RUN, end = minimum((lane + 1) * each, size);
  const u64 total = start < end ? weigh_all(elements, start, minimum(start + RUN, end), scale) : 0;
  if (lane_id() == 0) sums[lane * (runs + 1) + run] = total;
}

#define WEIGH(name, W)                                                                                           \
  KERNEL name(const W* elements, u64 size, u32 lanes, u64 each, u32 runs, u32 shift, u32 first, const u32* table, \
              u64* sums) {                                                                                       \
    weigh_runs<W>(elements, size, lanes, each, runs, Scale{shift, first, table}, sums);                          \
  }
WEIGH(weigh_runs_u8, u8)
WEIGH(weigh_runs_u16, u16)
WEIGH(weigh_runs_u32, u32)
WEIGH(weigh_runs_u64, u64)

// Replaces the sums of a lane's runs by those before them; a block per lane.
KERNEL add_runs(u32 runs, u64* sums) {
  __shared__ u64 parts[WARPS + 1];
  u64* own = sums + (u64)blockIdx.x * (runs + 1);
  u64 before = 0;
  for (u32 first = 0; first < runs; first += THREADS) {
    const u32 run = first + threadIdx.x;
    u64 all;
    const u64 sum = before + block_exclusive_sum(run < runs ? own[run] : 0ull, parts, &all);
    if (run < runs) own[run] = sum;
    before += all;
  }
  if (threadIdx.x == 0) own[runs] = before;
}

// Computes the sum of the weights of the lane's elements before each of the (r,) `indices`, and its own weight; a
// warp per index.
template <class W>
INLINE void measure(const W* elements, u64 each, u32 runs, const Scale& scale, const u64* sums, const u32* indices,
                    u32 r, u64* here, u32* own) {
  const u32 i = blockIdx.x * WARPS + warp_id();
  if (i >= r) return;
  const u64 at = indices[i], lane = at / each, run = (at - lane * each) / RUN;
  const u64 total = weigh_all(elements, lane * each + run * RUN, at, scale) + sums[lane * (runs + 1) + run];
  if (lane_id() == 0) here[i] = total, own[i] = (u32)weigh(scale, elements[at]);
}

#define MEASURE(name, W)                                                                                        \
  KERNEL name(const W* elements, u64 each, u32 runs, u32 shift, u32 first, const u32* table, const u64* sums,  \
              const u32* indices, u32 r, u64* here, u32* own) {                                                 \
    measure<W>(elements, each, runs, Scale{shift, first, table}, sums, indices, r, here, own);                  \
  }
MEASURE(measure_u8, u8)
MEASURE(measure_u16, u16)
MEASURE(measure_u32, u32)
MEASURE(measure_u64, u64)

// Returns the cumulative frequency of a place, at most REACH.
INLINE u64 rise(u64 place, const u32* cumulative) {
  const u32 segment = (u32)(place >> 24);
  const u64 low = cumulative[segment], slope = cumulative[segment + 1] - low;
  return low + ((place & 0xFFFFFF) * slope >> 24);
}

// Returns the last place whose cumulative frequency is not above a slot, which is below cumulative[SEGMENTS].
INLINE u64 find_place(u64 slot, const u32* cumulative) {
  u32 segment = 0;
  while (cumulative[segment + 1] <= slot) segment++;
  const u64 low = cumulative[segment], slope = cumulative[segment + 1] - low;
  return ((u64)segment << 24) + (((slot - low + 1) << 24) - 1) / slope;
}

// One lane of a section that is read.
struct Lane {
  u64 start, end;       // its elements
  const u64* sums;      // of its runs
  u32 run;              // of the last position
  u64 before;           // sum of the weights up to and including that
  u64 x;                // state of the coder
};

// Finds the element of a place; returns it, and the sum of the weights before it and its own weight. Returns the end of
// the lane if there is none. A warp calls it together.
template <class W>
INLINE u64 find_element(const W* elements, Lane& lane, u32 runs, const Scale& scale, u64 place, u64* total, u64* own) {
  u32 passed;
  do {
    const u32 next = lane.run + 1 + lane_id();
    passed = (u32)__popc(__ballot_sync(FULL_MASK, next <= runs && lane.sums[minimum(next, runs)] <= place));
    lane.run += passed;
  } while (passed == 32);
  if (lane.run >= runs) return lane.end;
  const u64 first = lane.start + (u64)lane.run * RUN + lane_id() * OWN;
  u64 weights[OWN], sum = 0;
#pragma unroll
  for (u32 k = 0; k < OWN; k++) {
    weights[k] = first + k < lane.end ? weigh(scale, elements[first + k]) : 0;
    sum += weights[k];
  }
  u64 through = lane.sums[lane.run] + warp_inclusive_sum(sum), found = first;
  u64 here = through - sum, mine = 0;
  const u32 holder = (u32)__ffs((i32)__ballot_sync(FULL_MASK, here <= place && place < through)) - 1u;
#pragma unroll
  for (u32 k = 0; k < OWN; k++) {
    if (mine) continue;
    if (here <= place && place < here + weights[k])
      found = first + k, mine = weights[k];
    else
      here += weights[k];
  }
  *total = __shfl_sync(FULL_MASK, here, holder);
  *own = __shfl_sync(FULL_MASK, mine, holder);
  return __shfl_sync(FULL_MASK, found, holder);
}

// Removes a symbol of frequency `freq` out of 2^31 from a state. If the result is below LEAST, a word is needed.
INLINE u64 leave(u64 x, u64 start, u64 freq) { return freq * (x >> 31) + (x & SLOT) - start; }

// Reads the next position of a lane, whose state holds a symbol for it. `skipped` places are between that and the last
// position. Returns the lane's end if no element has the place.
template <class W>
INLINE u64 read_position(const W* elements, Lane& lane, u32 runs, const Scale& scale, const u32* cumulative,
                         u64 skipped) {
  const u64 offset = lane.before + skipped, place = offset + find_place(lane.x & SLOT, cumulative);
  u64 total = 0, own = 0;
  const u64 i = find_element(elements, lane, runs, scale, place, &total, &own);
  if (i >= lane.end) return i;
  const u64 low = rise(maximum(total, offset) - offset, cumulative);
  lane.x = leave(lane.x, low, rise(minimum(total + own - offset, REACH), cumulative) - low);
  lane.before = total + own;
  return i;
}

#define NEEDS 1u   // bits of a lane's note: it needs a word,
#define BROKEN 2u  // its state or its position is not valid,
#define BEYOND 4u  // its symbol is for places beyond

struct ReadShared {
  u32 table[CLASSES + 1];
  u32 cumulative[SEGMENTS + 2];
  u32 notes[WARPS];
  u32 next;  // word
};

// Reads the positions of a section's words; one block, of which each warp has a lane. `cuts` has the first position of
// each lane, and r. The lanes take turns, and the words are consumed in the order of the lanes. So the warps look for
// their elements at a time, unless a symbol for places beyond occurs: then one after another. Sets bad[0] if the
// section is not valid.
template <class W>
INLINE void read_positions(const W* elements, u64 size, u32 lanes, u64 each, u32 runs, const Scale& scale,
                           const u64* sums, const u32* cuts, const u32* coded, u32 words, u32* indices, u32* bad,
                           ReadShared* shared) {
  const u32* cumulative = shared->cumulative;
  u32* notes = shared->notes;
  const u32 own = warp_id(), first = own < lanes ? cuts[own] : 0, count = own < lanes ? cuts[own + 1] - first : 0;
  const u64 start = minimum(own * each, size), end = minimum((own + 1) * each, size), top = cumulative[SEGMENTS];
  Lane lane = {start, end, sums + (u64)minimum(own, lanes - 1) * (runs + 1), 0, 0, LEAST};
  if (words < 2 * lanes) {
    if (threadIdx.x == 0) bad[0] = 1;
    return;
  }
  if (own < lanes) lane.x = (u64)coded[2 * own] | (u64)coded[2 * own + 1] << 32;
  if (threadIdx.x == 0) shared->next = 2 * lanes;
  u32 longest = 0;
  for (u32 l = 0; l < lanes; l++) longest = maximum(longest, cuts[l + 1] - cuts[l]);
  bool broken = lane.x < LEAST || lane.x >> 63;
  for (u32 turn = 0; turn < longest; turn++) {
    const bool active = turn < count;
    u32 note = broken ? BROKEN : active && (lane.x & SLOT) >= top ? BEYOND : 0;
    if (lane_id() == 0) notes[own] = note;
    __syncthreads();
    u32 all = 0;
    for (u32 l = 0; l < lanes; l++) all |= notes[l];
    __syncthreads();
    if (all & BROKEN) break;
    if (all & BEYOND) {
      for (u32 l = 0; l < lanes; l++) {
        if (l == own && active) {
          u32 at = shared->next;
          __syncwarp();  // before a lane writes it
          u64 skipped = 0, i = lane.end;
          while ((lane.x & SLOT) >= top) {
            lane.x = leave(lane.x, top, LEAST - top);
            if (lane.x < LEAST) lane.x = at < words ? lane.x << 32 | coded[at] : 0, at++;
            skipped += REACH;
          }
          if (lane.x) i = read_position(elements, lane, runs, scale, cumulative, skipped);
          if (i < lane.end && lane.x < LEAST) lane.x = at < words ? lane.x << 32 | coded[at] : 0, at++;
          broken = i >= lane.end || lane.x < LEAST;
          if (lane_id() == 0) {
            shared->next = at;
            if (!broken) indices[first + turn] = (u32)i;
          }
        }
        __syncthreads();
      }
      continue;
    }
    if (active) {
      const u64 i = read_position(elements, lane, runs, scale, cumulative, 0);
      broken = i >= lane.end;
      note = lane.x < LEAST ? NEEDS : 0;
      if (lane_id() == 0) {
        notes[own] = note;
        if (!broken) indices[first + turn] = (u32)i;
      }
    }
    __syncthreads();
    u32 before = 0, needed = 0;
    for (u32 l = 0; l < lanes; l++) {
      if (l == own) before = needed;
      needed += notes[l] & NEEDS;
    }
    if (active && note & NEEDS) {
      const u32 at = shared->next + before;
      lane.x = at < words ? lane.x << 32 | coded[at] : 0;
      broken = broken || lane.x < LEAST;
    }
    __syncthreads();
    if (threadIdx.x == 0) shared->next += needed;
  }
  __syncthreads();
  if (broken || lane.x != LEAST || shared->next != words) bad[0] = 1;
}

#define READ(name, W)                                                                                              \
  KERNEL name(const W* elements, u64 size, u32 lanes, u64 each, u32 runs, u32 shift, u32 first, const u32* table, \
              const u64* sums, const u32* cuts, const u32* cumulative, const u32* coded, u32 words, u32* indices,  \
              u32* bad) {                                                                                          \
    __shared__ ReadShared shared;                                                                                  \
    if (threadIdx.x <= CLASSES) shared.table[threadIdx.x] = table[threadIdx.x];                                    \
    if (threadIdx.x < SEGMENTS + 2) shared.cumulative[threadIdx.x] = cumulative[threadIdx.x];                      \
    __syncthreads();                                                                                               \
    const Scale scale = {shift, first, shared.table};                                                              \
    read_positions<W>(elements, size, lanes, each, runs, scale, sums, cuts, coded, words, indices, bad, &shared);  \
  }
READ(read_positions_u8, u8)
READ(read_positions_u16, u16)
READ(read_positions_u32, u32)
READ(read_positions_u64, u64)
