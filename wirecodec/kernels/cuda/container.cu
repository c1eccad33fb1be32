// A container (formats/SPEC.md, section 2) whose counts stay on the device. The numbers of a chunk are in the
// device's memory; kernels read and write them there, and derive the positions of the following sections.
#include "checksum.cuh"
#include "counter.cuh"

#define PREFIX 24u
#define ROW 40u

struct Chunk {
  u32 start, r;              // of the selected elements: this chunk's first, and their number
  u32 index_count;           // r if the index section has bytes, that is if 0 < r < d; else 0
  u32 index_len, value_len;  // bytes
  u32 crc;
  u64 stream;                // seeds its draws
  u64 index_at, value_at, stop;  // positions in the container
};

struct Outcome {
  u64 total;  // bytes so far
  u64 bad;    // whether an error was found
  u64 seed;
};

// Length of a value section of r > 0 values: `header` bytes, four bytes for each started `bucket`, packed codes of
// `bits` bits, and `plain` bits per value. A field that is 0 adds nothing.
struct ValueBytes {
  u32 header, bucket, bits, plain;
  INLINE u64 of(u32 r) const {
    const u64 buckets = bucket ? (r - 1) / bucket + 1 : 0;
    const u64 packed = 16ull * bits * (r / 512) + (r % 512 * bits + 31) / 32;
    return header + 4 * buckets + 4 * packed + ((u64)plain * r + 7) / 8;
  }
};

INLINE u64 align8(u64 bytes) { return (bytes + 7) & ~7ull; }

KERNEL set_seed(u64 seed, u64* target) {
  if (threadIdx.x == 0) *target = seed;
}

KERNEL begin_container(const u64* seed, u64 payload, Outcome* outcome) {
  if (threadIdx.x == 0) *outcome = Outcome{payload, 0, *seed};
}

INLINE u64 stream_of_key_0(u64 seed) { return mix(mix(0, seed), 0); }

// Derives the selector's stream.
KERNEL selection_stream(const Outcome* outcome, u64* stream) {
  if (threadIdx.x == 0) *stream = mix(0, stream_of_key_0(outcome->seed));
}

// One block. Finds the ascending indices in a chunk of d elements from `base` on; chunks are processed in order.
// `found` holds the number of indices, and the position of an error or NONE; it is null if all elements are
// selected. More than `capacity` indices are an error.
KERNEL open_chunk(const u32* indices, const u32* found, u32 capacity, u32 base, u32 d, u32 size, Outcome* outcome,
                  Chunk* chunk) {
  if (threadIdx.x) return;
  u32 start = 0, stop = d;
  if (found) {
    if (found[0] > capacity || found[1] != NONE) outcome->bad = 1;
    start = base ? chunk[-1].start + chunk[-1].r : 0;
    stop = minimum(found[0], capacity);
    u32 low = start;
    while (base + d < size && low < stop) {
      const u32 middle = low + (stop - low) / 2;
      if (indices[middle] < base + d) low = middle + 1; else stop = middle;
    }
  }
  const u32 r = stop - start;
  *chunk = Chunk{start, r, r < d ? r : 0, 0, 0, 0, mix(stream_of_key_0(outcome->seed), base), 0, 0, 0};
}

// One block. Sets a chunk's number of elements to found[0], which readers of a lossy index section find, or leaves
// it if `kept`. More than `capacity` are an error.
KERNEL recount_chunk(const u32* found, u32 capacity, u32 kept, u32 d, Outcome* outcome, Chunk* chunk) {
  if (threadIdx.x) return;
  if (found[0] > capacity) outcome->bad = 1;
  const u32 r = kept ? chunk->r : minimum(found[0], capacity);
  chunk->r = r;
  chunk->index_count = r < d ? r : 0;
}

// Copies a chunk's indices, counted from its base, and its values.
#define COPY_CHUNK(name, W)                                                                              \
  KERNEL name(const u32* indices, const W* words, u32 base, const Chunk* chunk, u32* local, W* values) { \
    const u32 i = blockIdx.x * THREADS + threadIdx.x;                                                    \
    if (i >= chunk->r) return;                                                                           \
    local[i] = indices[chunk->start + i] - base;                                                         \
    values[i] = words[chunk->start + i];                                                                 \
  }
COPY_CHUNK(copy_chunk_u16, u16)
COPY_CHUNK(copy_chunk_u32, u32)
COPY_CHUNK(copy_chunk_u64, u64)

// One block. Computes the positions of a chunk's sections. The length of its index section, if it has one, is
// `fixed` bytes, plus `each` bytes per index, plus words[0] words if `words` is not null. An error is set in the
// flags, which may be null.
KERNEL close_chunk(u32 fixed, u32 each, const u32* words, u32 header, u32 bucket, u32 bits, u32 plain,
                   const u32* flag, const u32* other_flag, Outcome* outcome, Chunk* chunk) {
  if (threadIdx.x) return;
  const u32 r = chunk->r, index_count = chunk->index_count;
  if (index_count) chunk->index_len = fixed + each * index_count + (words ? 4 * words[0] : 0);
  if (r) chunk->value_len = (u32)ValueBytes{header, bucket, bits, plain}.of(r);
  chunk->index_at = outcome->total;
  chunk->value_at = chunk->index_at + align8(chunk->index_len);
  chunk->stop = chunk->value_at + align8(chunk->value_len);
  outcome->total = chunk->stop;
  if ((flag && *flag != NONE) || (other_flag && *other_flag != NONE)) outcome->bad = 1;
}

// Returns word w of a section of `size` bytes, padded with zeros.
INLINE u64 word_at(const u8* section, u32 size, u64 w) {
  if ((u64)section % 8 == 0 && 8 * w + 8 <= size) return ((const u64*)section)[w];
  u64 word = 0;
  for (u32 i = 0; i < 8 && 8 * w + i < size; i++) word |= (u64)section[8 * w + i] << 8 * i;
  return word;
}

// Copies a chunk's sections to their positions.
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

// One block. Writes prefix, table and extension block: the constant part from `constant`, the rest from `n` chunks.
KERNEL finish_container(const u8* constant, u32 payload, const Chunk* chunks, u32 n, const Outcome* outcome, u8* blob) {
  __shared__ u32 crc;
  if (threadIdx.x == 0) crc = 0;
  for (u32 i = threadIdx.x; i < payload; i += THREADS) blob[i] = constant[i];
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
  // The checksum covers bytes 0 to 11 and those from 16 on: pieces of the latter, and one of the former.
  const u64 size = payload - 16;
  u32 part = 0;
  if (threadIdx.x == 0) {
    const u32 first = gf2_multiply(MAX_U32, shift_factor(12)) ^ crc_register(blob, 12);
    part = gf2_multiply(first, shift_factor(size)) ^ MAX_U32;
  }
  for (u64 start = threadIdx.x * PIECE; start < size; start += THREADS * PIECE) {
    const u64 stop = minimum(start + PIECE, size);
    part ^= gf2_multiply(crc_register(blob + 16 + start, stop - start), shift_factor(size - stop));
  }
  atomicXor(&crc, part);
  __syncthreads();
  if (threadIdx.x == 0) *(u32*)(blob + 12) = crc;
}
