// A Compressor's step of many tensors, in one launch per stage: gradient + residual, the top k, Rice, QSGD or raw
// values, the container's payload and checksums, and the next residuals.
//
// A launch has blocks for all its items, which are tensors, or entries of the container. `starts` is the first block
// of each item. What the host must know of a search waits in `status`, and it reads all of it at once.
#include "batch.cuh"
#include "checksum.cuh"
#include "qsgd.cuh"
#include "rice.cuh"
#include "select.cuh"
#include "topk.cuh"

struct Tensor {
  const void* gradient;   // raw bits
  const float* residual;  // or null
  float* total;           // receives gradient + residual; null if the gradient is the sum
  Search* search;         // the last step's, and this one's
  u32* counts;            // zeroed digits, and one word more
  u32* reach;             // bitmap of both selections
  u64* tiles;             // their look-back states
  u32* indices;           // candidates
  void* values;
  u32* kept_indices;      // the top k
  void* kept_values;
  u32* status;            // see below
  u32 size, k, capacity, rank;
};

// Words of `status`.
enum { FOUND, FIRST, TICKET, KEPT_TICKET, KEPT, KEPT_FIRST, BAD, NONZERO, RETRY, STATUS_WORDS };

struct Entry {
  const u32* indices;   // the tensor's top k
  const void* values;
  u8* parameters;       // Rice
  u32 *quotients, *spans, *words;
  u32* section;         // of QSGD, or of values of 16 bits; null for raw values
  float* total;         // of the tensor
  void* sent;           // receives the tensor's values as they are decoded
  u32* report;          // receives r, and the words of the index section
  u32* status;          // of the tensor
  u32 base, d, k, size; // of the chunk; of the tensor
  u32 low, high;        // stream of the draws
  u32 first, r;         // the chunk's part of the top k
};

struct Sections {
  u64 index, value;  // offsets of the sections in the container
  u64 value_words;   // of `section`
};

// Returns a sum in the element type, clamped to its range.
template <class T> INLINE typename T::Word sendable(float x) {
  return T::narrow(__float_as_uint(minimum(maximum(x, -T::largest()), T::largest())));
}
template <> INLINE u32 sendable<F32>(float x) { return __float_as_uint(x); }

// gradient + residual, which is stored as it is read.
template <class T> struct Sums {
  typedef typename T::Word W;
  const W* gradient;
  const float* residual;
  float* total;
  mutable u32 nonzero, bad;
  INLINE W at(u32 i) const {
    const W word = gradient[i];
    nonzero |= (u32)(W)(word << 1);  // without the sign
    const float g = __uint_as_float(T::widen(word)), x = residual ? g + residual[i] : g;
    bad |= !is_finite(x);
    total[i] = x;
    return sendable<T>(x);
  }
};

// The sums of an earlier kernel, or the gradient if `total` is null.
template <class T> struct Totals {
  typedef typename T::Word W;
  const W* gradient;
  const float* total;
  INLINE W at(u32 i) const { return total ? sendable<T>(total[i]) : gradient[i]; }
};

// gradient + residual, which is not stored.
template <class T> struct Terms {
  typedef typename T::Word W;
  const W* gradient;
  const float* residual;
  INLINE W at(u32 i) const {
    const float g = __uint_as_float(T::widen(gradient[i]));
    return sendable<T>(residual ? g + residual[i] : g);
  }
};

INLINE void reset(const Tensor& tensor) { tensor.status[BAD] = tensor.status[NONZERO] = tensor.status[RETRY] = 0; }

INLINE Place place_of(const Tensor& tensor, bool kept) {
  return Place{tensor.reach, tensor.tiles, tensor.status + (kept ? KEPT_TICKET : TICKET),
               tensor.status + (kept ? KEPT : FOUND)};
}

#define OF_ALL_TENSORS                                 \
  const u32 t = blockIdx.x * THREADS + threadIdx.x;    \
  if (t >= count) return;                              \
  const Tensor& tensor = tensors[t];

// Prepares the searches near the last thresholds.
KERNEL batch_begin(Tensor* tensors, u32 count, u64 margin) {
  OF_ALL_TENSORS
  reset(tensor);
  begin_near(tensor.search, margin);
}

// Tests whether the candidates hold the top k, and continues the searches among them. If not, the host starts over.
KERNEL batch_check(Tensor* tensors, u32 count, u32 width) {
  OF_ALL_TENSORS
  Search* const search = tensor.search;
  check(search, tensor.status[FOUND], tensor.k, tensor.size, width, tensor.capacity, 0);
  const bool retry = search->needs_select != 0;
  tensor.status[RETRY] = retry;
  go_on(search);
  if (retry) search->needs_count = search->selected = 0;  // there is nothing to search
}

// Prepares searches among all elements.
KERNEL batch_restart(Tensor* tensors, u32 count, u32 width) {
  OF_ALL_TENSORS
  tensor.status[RETRY] = 0;
  begin(tensor.search, tensor.k, tensor.size, width);
}

// Continues the searches among the candidates.
KERNEL batch_go_on(Tensor* tensors, u32 count) {
  OF_ALL_TENSORS
  go_on(tensor.search);
}

#define OF_TENSOR(T)                                                 \
  typedef T::Word W;                                                 \
  u32 number;                                                        \
  const Tensor& tensor = tensors[find_item(starts, count, &number)]; \
  const u64* const rule = (const u64*)tensor.search;                 \
  const W mask = (W)((W)~(W)0 >> 1);                                 \
  (void)rule, (void)mask;

#define TOTALS(T) Totals<T>{(const W*)tensor.gradient, tensor.total}
#define CANDIDATES Words<W>{(const W*)tensor.values}, minimum((u32)tensor.search->selected, tensor.capacity)
#define BLOCKS (starts[&tensor - tensors + 1] - starts[&tensor - tensors])

#define SELECT_KERNELS(T, suffix)                                                                            \
  KERNEL batch_guess_##suffix(Tensor* tensors, u32 width) { /* a block per tensor */                         \
    __shared__ CountShared shared;                                                                           \
    typedef T::Word W;                                                                                       \
    const Tensor& tensor = tensors[blockIdx.x];                                                              \
    if (threadIdx.x == 0) reset(tensor);                                                                     \
    guess<W>(tensor.search, Terms<T>{(const W*)tensor.gradient, tensor.residual}, tensor.size, tensor.rank,  \
             width, tensor.counts, &shared);                                                                 \
  }                                                                                                          \
  KERNEL batch_sum_##suffix(Tensor* tensors, const u32* starts, u32 count) {                                 \
    OF_TENSOR(T)                                                                                             \
    const Sums<T> sums = {(const W*)tensor.gradient, tensor.residual, tensor.total, 0, 0};                   \
    flag_tile<W>(sums, tensor.size, mask, rule, place_of(tensor, false), number);                            \
    if (sums.nonzero && tensor.status[NONZERO] == 0) tensor.status[NONZERO] = 1;                             \
    if (sums.bad) tensor.status[BAD] = 1;                                                                    \
  }                                                                                                          \
  KERNEL batch_flag_##suffix(Tensor* tensors, const u32* starts, u32 count) {                                \
    OF_TENSOR(T)                                                                                             \
    flag_tile<W>(TOTALS(T), tensor.size, mask, rule, place_of(tensor, false), number);                       \
  }                                                                                                          \
  KERNEL batch_compact_##suffix(Tensor* tensors, const u32* starts, u32 count) {                             \
    __shared__ CompactShared shared;                                                                         \
    OF_TENSOR(T)                                                                                             \
    const Output out = {tensor.indices, tensor.capacity, 0};                                                 \
    compact_tile<SPARSE, W>(TOTALS(T), tensor.size, (const u32*)nullptr, mask, rule, place_of(tensor, false), out,   \
                    (W*)tensor.values, (W*)nullptr, &shared);                                                \
  }                                                                                                          \
  KERNEL batch_count_all_##suffix(Tensor* tensors, const u32* starts, u32 count) {                           \
    __shared__ CountShared shared;                                                                           \
    OF_TENSOR(T)                                                                                             \
    if (tensor.search->needs_count == 0) return;                                                             \
    find_next_digit<W>(tensor.search, TOTALS(T), tensor.size, tensor.counts, tensor.capacity, &shared,       \
                       number, BLOCKS);                                                                      \
  }                                                                                                          \
  KERNEL batch_count_##suffix(Tensor* tensors, const u32* starts, u32 count) {                               \
    __shared__ CountShared shared;                                                                           \
    OF_TENSOR(T)                                                                                             \
    if (tensor.search->needs_count == 0) return;                                                             \
    find_next_digit<W>(tensor.search, CANDIDATES, tensor.counts, 0, &shared, number, BLOCKS);                \
  }                                                                                                          \
  KERNEL batch_flag_kept_##suffix(Tensor* tensors, const u32* starts, u32 count) {                           \
    OF_TENSOR(T)                                                                                             \
    flag_tile<W>(CANDIDATES, mask, rule, place_of(tensor, true), number);                                    \
  }                                                                                                          \
  KERNEL batch_compact_kept_##suffix(Tensor* tensors, const u32* starts, u32 count) {                        \
    __shared__ CompactShared shared;                                                                         \
    OF_TENSOR(T)                                                                                             \
    const Output out = {tensor.kept_indices, tensor.k, T::infinity()};                                       \
    compact_tile<DENSE, W>(CANDIDATES, tensor.indices, mask, rule, place_of(tensor, true), out,                     \
                    (W*)tensor.kept_values, (W*)nullptr, &shared);                                           \
  }

SELECT_KERNELS(F32, f32)
SELECT_KERNELS(F16, f16)
SELECT_KERNELS(BF16, bf16)

// Finds the part of each chunk in its tensor's top k; none if the candidates did not hold it.
KERNEL batch_entries(Entry* entries, u32 count) {
  const u32 e = blockIdx.x * THREADS + threadIdx.x;
  if (e >= count) return;
  Entry& entry = entries[e];
  u32 edges[2];
  for (u32 j = 0; j < 2; j++) {
    const u64 edge = j ? (u64)entry.base + entry.d : entry.base;
    u32 low = 0, high = entry.k;
    while (low < high && entry.d < entry.size && entry.status[RETRY] == 0) {
      const u32 middle = low + (high - low) / 2;
      if (entry.indices[middle] < edge) low = middle + 1;
      else high = middle;
    }
    edges[j] = entry.d < entry.size ? low : j * entry.k;
  }
  entry.first = edges[0];
  entry.r = entry.status[RETRY] ? 0 : edges[1] - edges[0];
  entry.report[0] = entry.r;
  entry.report[1] = 0;
}

#define OF_ENTRY                                                    \
  u32 number;                                                       \
  const Entry& entry = entries[find_item(starts, count, &number)];  \
  const u32 r = entry.r;                                            \
  if (r == 0) return;

#define HAS_INDICES (r < entry.d)  // else all elements are present, and the index section is empty

KERNEL batch_rice_plan(const Entry* entries, const u32* starts, u32 count) {
  OF_ENTRY
  if (HAS_INDICES) plan_blocks(entry.indices + entry.first, r, entry.base, entry.parameters, entry.quotients, number);
}

// A block per entry.
KERNEL batch_rice_layout(const Entry* entries) {
  __shared__ u32 parts[WARPS + 1];
  const Entry& entry = entries[blockIdx.x];
  const u32 r = entry.r;
  if (r == 0 || !HAS_INDICES) return;
  lay_out(entry.parameters, entry.quotients, r, entry.spans, parts);
  if (threadIdx.x == 0) entry.report[1] = entry.spans[(r - 1) / SPAN + 1];
}

KERNEL batch_rice_directory(const Entry* entries, const u32* starts, u32 count) {
  OF_ENTRY
  if (HAS_INDICES)
    write_directory(entry.indices + entry.first, r, entry.base, entry.parameters, entry.spans, entry.words, number);
}

KERNEL batch_rice_write(const Entry* entries, const u32* starts, u32 count) {
  __shared__ SpanShared shared;
  OF_ENTRY
  if (HAS_INDICES && number * SPAN < r)
    write_span(entry.indices + entry.first, r, entry.base, entry.parameters, entry.spans, entry.words, number, &shared);
}

template <class T> struct Widened {
  const typename T::Word* values;
  INLINE u32 at(u32 i) const { return T::widen(values[i]); }
};

// Computes total[index] -= value, or 0 if that is not finite.
INLINE void leave_rest(float* total, u32 index, u32 value) {
  const float rest = total[index] - __uint_as_float(value);
  total[index] = is_finite(rest) ? rest : 0;
}

#define VALUE_KERNELS(T, suffix)                                                                                      \
  KERNEL batch_quantise_##suffix(const Entry* entries, const u32* starts, u32 count, u32 n) {                         \
    __shared__ QuantiseShared shared;                                                                                 \
    OF_ENTRY                                                                                                          \
    if (number * PACK_BLOCK >= r) return;                                                                             \
    const Widened<T> values = {(const T::Word*)entry.values + entry.first};                                           \
    quantise(values, r, PACK_BLOCK, n, 0, entry.low, entry.high, nullptr, entry.section, number, &shared);            \
  }                                                                                                                   \
  KERNEL batch_subtract_##suffix(const Entry* entries, const u32* starts, u32 count, u32 n) {                         \
    OF_ENTRY                                                                                                          \
    const u32 start = number * PACK_BLOCK, levels = (1u << (n - 1)) - 1;                                              \
    if (start >= r) return;                                                                                           \
    const u32* const scales = entry.section + 2;                                                                      \
    const u32* const words = scales + (r - 1) / PACK_BLOCK + 1 + (u64)number * PACK_LANES * n;                        \
    const u32 size = minimum(r - start, PACK_BLOCK);                                                                  \
    for (u32 i = threadIdx.x; i < size; i += THREADS) {                                                               \
      const u32 code = unpack_code(words, size, n, i);                                                                \
      const T::Word value = T::narrow(qsgd_value(code, scales[number], levels));                                      \
      ((T::Word*)entry.sent)[entry.first + start + i] = value;                                                        \
      leave_rest(entry.total, entry.indices[entry.first + start + i], T::widen(value));                               \
    }                                                                                                                 \
  }                                                                                                                   \
  KERNEL batch_subtract_raw_##suffix(const Entry* entries, const u32* starts, u32 count) {                            \
    OF_ENTRY                                                                                                          \
    const u32 start = number * PACK_BLOCK;                                                                            \
    for (u32 i = start + threadIdx.x; i < r && i < start + PACK_BLOCK; i += THREADS)                                  \
      leave_rest(entry.total, entry.indices[entry.first + i],                                                         \
                 T::widen(((const T::Word*)entry.sent)[entry.first + i])  );                                          \
  }                                                                                                                   \
  KERNEL batch_copy_##suffix(const Entry* entries, const u32* starts, u32 count, const Sections* places, u8* blob) {     \
    OF_ENTRY                                                                                                          \
    const Sections place = places[&entry - entries];                                                                     \
    const u32 step = (starts[&entry - entries + 1] - starts[&entry - entries]) * THREADS;                             \
    const u32 words = entry.report[1], first = number * THREADS + threadIdx.x;                                        \
    for (u32 w = first; w < words; w += step) ((u32*)(blob + place.index))[w] = entry.words[w];                       \
    if (entry.section) {                                                                                              \
      for (u32 w = first; w < place.value_words; w += step) ((u32*)(blob + place.value))[w] = entry.section[w];       \
    } else {                                                                                                          \
      for (u32 i = first; i < r; i += step)                                                                           \
        ((T::Word*)(blob + place.value))[i] = ((const T::Word*)entry.values)[entry.first + i];                        \
    }                                                                                                                 \
  }

VALUE_KERNELS(F32, f32)
VALUE_KERNELS(F16, f16)
VALUE_KERNELS(BF16, bf16)

// Rounds float32 values to 16 bits, which are the section, and to what receivers decode.
#define NARROW_KERNEL(T, suffix)                                                                                      \
  KERNEL batch_narrow_##suffix(const Entry* entries, const u32* starts, u32 count) {                                  \
    OF_ENTRY                                                                                                          \
    const u32 start = number * PACK_BLOCK;                                                                            \
    u16* const section = (u16*)entry.section;                                                                         \
    for (u32 i = start + threadIdx.x; i < r && i < start + PACK_BLOCK; i += THREADS) {                                \
      const u32 word = ((const u32*)entry.values)[entry.first + i];                                                   \
      const u16 narrow = T::narrow(word);                                                                             \
      if (is_finite(__uint_as_float(word)) && (narrow & 0x7FFFu) == T::infinity()) entry.status[BAD] = 1;             \
      section[i] = narrow;                                                                                            \
      if (i + 1 == r && r % 2) section[r] = 0; /* padding */                                                          \
      ((u32*)entry.sent)[entry.first + i] = T::widen(narrow);                                                         \
    }                                                                                                                 \
  }

NARROW_KERNEL(F16, f16)
NARROW_KERNEL(BF16, bf16)

// Adds the entries' checksums to zeroed `crcs`.
KERNEL batch_checksums(const u64* edges, const u32* starts, u32 count, const u8* blob, u32* crcs) {
  u32 number;
  const u32 e = find_item(starts, count, &number);
  add_checksum(blob + edges[2 * e], edges[2 * e + 1] - edges[2 * e], crcs + e, number);
}
