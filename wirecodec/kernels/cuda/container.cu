// A container (formats/SPEC.md, section 2) of which no count has been to the host: a chunk's numbers stand in the
// device's memory, where kernels find and leave them, and the places of what follows are made of them there.
#include "checksum.cuh"
#include "counter.cuh"

#define PREFIX 24u
#define ROW 40u

struct Chunk {
  u32 start, r;              // of what was selected: the first of this chunk's, and how many
  u32 coded;                 // r where the index section has bytes, which it has where 0 < r < d; else 0
  u32 index_len, value_len;  // bytes
  u32 crc;
  u64 stream;                // of its draws
  u64 index_at, value_at, stop;  // places in the container
};

struct Outcome {
  u64 total;  // bytes so far
  u64 bad;    // whether what stands there is of no use
  u64 seed;
};

// How many bytes a value section of r > 0 values has: `head`, four for each `bucket` begun, packed codes of
// `bits`, and `plain` bits a value; none of what is 0.
struct ValueBytes {
  u32 head, bucket, bits, plain;
  INLINE u64 of(u32 r) const {
    const u64 buckets = bucket ? (r - 1) / bucket + 1 : 0;
    const u64 packed = 16ull * bits * (r / 512) + (r % 512 * bits + 31) / 32;
    return head + 4 * buckets + 4 * packed + ((u64)plain * r + 7) / 8;
  }
};

INLINE u64 padded(u64 bytes) { return (bytes + 7) & ~7ull; }

KERNEL set_seed(u64 seed, u64* there) {
  if (threadIdx.x == 0) *there = seed;
}

KERNEL begin_container(const u64* seed, u64 payload, Outcome* outcome) {
  if (threadIdx.x == 0) *outcome = Outcome{payload, 0, *seed};
}

INLINE u64 keyed(u64 seed) { return mixed(mixed(0, seed), 0); }  // of key 0

// The stream that a selector draws from.
KERNEL selection_stream(const Outcome* outcome, u64* stream) {
  if (threadIdx.x == 0) *stream = mixed(0, keyed(outcome->seed));
}

// One block. Which of the ascending indices lie in a chunk of d elements from `base` on; chunks come in their order.
// `found`: how many indices there are, and a position where something is wrong or NONE; null where all elements
// are taken. More than there is `room` for is wrong, too.
KERNEL open_chunk(const u32* indices, const u32* found, u32 room, u32 base, u32 d, u32 size, Outcome* outcome,
                  Chunk* chunk) {
  if (threadIdx.x) return;
  u32 start = 0, stop = d;
  if (found) {
    if (found[0] > room || found[1] != NONE) outcome->bad = 1;
    start = base ? chunk[-1].start + chunk[-1].r : 0;
    stop = smaller(found[0], room);
    u32 low = start;
    while (base + d < size && low < stop) {
      const u32 middle = low + (stop - low) / 2;
      if (indices[middle] < base + d) low = middle + 1; else stop = middle;
    }
  }
  const u32 r = stop - start;
  *chunk = Chunk{start, r, r < d ? r : 0, 0, 0, 0, mixed(keyed(outcome->seed), base), 0, 0, 0};
}

// One block. What readers of a lossy index section find: found[0] elements, for `room` of which there is a place;
// a chunk has these, or, where that is said to be `kept`, as many as before.
KERNEL reread_chunk(const u32* found, u32 room, u32 kept, u32 d, Outcome* outcome, Chunk* chunk) {
  if (threadIdx.x) return;
  if (found[0] > room) outcome->bad = 1;
  const u32 r = kept ? chunk->r : smaller(found[0], room);
  chunk->r = r;
  chunk->coded = r < d ? r : 0;
}

// A chunk's indices, counted from its base, and its values.
#define TAKE_CHUNK(name, W)                                                                                     \
  KERNEL name(const u32* indices, const W* words, u32 base, const Chunk* chunk, u32* local, W* values) {        \
    const u32 i = blockIdx.x * THREADS + threadIdx.x;                                                           \
    if (i >= chunk->r) return;                                                                                  \
    local[i] = indices[chunk->start + i] - base;                                                                \
    values[i] = words[chunk->start + i];                                                                        \
  }
TAKE_CHUNK(take_chunk_u16, u16)
TAKE_CHUNK(take_chunk_u32, u32)
TAKE_CHUNK(take_chunk_u64, u64)

// One block. Where a chunk's sections are to be. Its index section, where it has one, is of `fixed` bytes and
// `each` an index, and of taken[0] words where that is given. What is wrong shows in flags, which may be null.
KERNEL close_chunk(u32 fixed, u32 each, const u32* taken, u32 head, u32 bucket, u32 bits, u32 plain,
                   const u32* flag, const u32* other_flag, Outcome* outcome, Chunk* chunk) {
  if (threadIdx.x) return;
  const u32 r = chunk->r, coded = chunk->coded;
  if (coded) chunk->index_len = fixed + each * coded + (taken ? 4 * taken[0] : 0);
  if (r) chunk->value_len = (u32)ValueBytes{head, bucket, bits, plain}.of(r);
  chunk->index_at = outcome->total;
  chunk->value_at = chunk->index_at + padded(chunk->index_len);
  chunk->stop = chunk->value_at + padded(chunk->value_len);
  outcome->total = chunk->stop;
  if ((flag && *flag != NONE) || (other_flag && *other_flag != NONE)) outcome->bad = 1;
}

// Word w of a section of `size` bytes, filled up with zeros.
INLINE u64 word_at(const u8* section, u32 size, u64 w) {
  if ((u64)section % 8 == 0 && 8 * w + 8 <= size) return ((const u64*)section)[w];
  u64 word = 0;
  for (u32 i = 0; i < 8 && 8 * w + i < size; i++) word |= (u64)section[8 * w + i] << 8 * i;
  return word;
}

// A chunk's sections to their places.
KERNEL place_sections(const u8* index, const u8* value, const Chunk* chunk, u64* blob) {
  const u64 first = chunk->index_at / 8, values = chunk->value_at / 8 - first, words = chunk->stop / 8 - first;
  for (u64 w = blockIdx.x * THREADS + threadIdx.x; w < words; w += gridDim.x * THREADS)
    blob[first + w] =
        w < values ? word_at(index, chunk->index_len, w) : word_at(value, chunk->value_len, w - values);
}

KERNEL crc_of_chunk(const u8* blob, Chunk* chunk) {
  const u64 size = chunk->stop - chunk->index_at;
  if (blockIdx.x && (u64)blockIdx.x * THREADS * PIECE >= size) return;
  add_pieces(blob + chunk->index_at, size, &chunk->crc);
}

// One block. Prefix, table and extension block: what is known beforehand from `known`, the rest of `n` chunks.
KERNEL finish_container(const u8* known, u32 payload, const Chunk* chunks, u32 n, const Outcome* outcome, u8* blob) {
  __shared__ u32 crc;
  if (threadIdx.x == 0) crc = 0;
  for (u32 i = threadIdx.x; i < payload; i += THREADS) blob[i] = known[i];
  __syncthreads();
  for (u32 c = threadIdx.x; c < n; c += THREADS) {
    u32* row = (u32*)(blob + PREFIX + ROW * c);
    row[1] = chunks[c].crc;
    row[5] = chunks[c].r;
    row[6] = chunks[c].index_len;
    row[7] = chunks[c].value_len;
  }
  if (threadIdx.x == 0) *(u64*)(blob + 16) = outcome->total;
  __syncthreads();
  // The checksum is of bytes 0 to 11 and of those from 16 on: pieces of the latter, and one of the former.
  const u64 size = payload - 16;
  u32 part = threadIdx.x ? 0 : times(times(ALL, shift_over(12)) ^ register_of(blob, 12), shift_over(size)) ^ ALL;
  for (u64 start = threadIdx.x * PIECE; start < size; start += THREADS * PIECE) {
    const u64 stop = smaller(start + PIECE, size);
    part ^= times(register_of(blob + 16 + start, stop - start), shift_over(size - stop));
  }
  atomicXor(&crc, part);
  __syncthreads();
  if (threadIdx.x == 0) *(u32*)(blob + 12) = crc;
}
