/* A reader of the wirecodec container, versions 1.0 and 1.1, in C99: one header, no allocation, no recursion.
 *
 * It is written from formats/SPEC.md and its pages. The comment at each function names the section that it
 * implements. formats/c/README.md describes its use. It supports the core profile (SPEC 1.3), both transforms, and all
 * extended index and value codecs except deflate, zstd, polyfit and dexpfit; it has no maps.
 *
 *     wc_reader reader;
 *     wc_status status = wc_open(&reader, data, size, NULL, NULL);              rows 1 to 32 of SPEC section 7
 *     status = wc_describe(&reader, buffer, reader.describe_size);              rows 33 to 44a: reader.tensors
 *     status = wc_read(&reader, other_buffer, reader.read_size);                rows 45 to 50: indices and values
 *
 * Each call requires that the one before it returned WC_OK. The caller owns all memory. The container and the two
 * buffers must stay in place as long as the reader is used. Floats must be IEEE 754.
 */

#ifndef WIRECODEC_H
#define WIRECODEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- The public interface -------------------------------------------------------------------------------- */

/* The kinds of refusal (SPEC section 7). WC_BUFFER is not a refusal: the caller's buffer is too small. */
typedef enum wc_kind {
    WC_OK,
    WC_TRUNCATED,
    WC_MALFORMED,
    WC_INVALID,
    WC_CHECKSUM_MISMATCH,
    WC_UNSUPPORTED,
    WC_LIMIT_EXCEEDED,
    WC_SCHEMA_MISMATCH,
    WC_BUFFER
} wc_kind;

/* Result of a call: a kind, and the code of the row that failed, "" for none. */
typedef struct wc_status {
    wc_kind kind;
    const char *code;
} wc_status;

/* Element types (SPEC 2.2, and from WC_INT8 on 3.6). */
enum {
    WC_FLOAT32 = 1,
    WC_FLOAT16 = 2,
    WC_BFLOAT16 = 3,
    WC_FLOAT64 = 4,
    WC_INT8 = 16,
    WC_INT16 = 17,
    WC_INT32 = 18,
    WC_INT64 = 19,
    WC_UINT8 = 20,
    WC_UINT16 = 21,
    WC_UINT32 = 22,
    WC_UINT64 = 23,
    WC_BOOL = 24,
    WC_FLOAT8_E4M3FN = 25,
    WC_FLOAT8_E5M2 = 26,
    WC_COMPLEX64 = 27,
    WC_COMPLEX128 = 28,
    WC_FLOAT8_E8M0FNU = 29,
    WC_FLOAT4_E2M1FN_X2 = 30
};

/* Meanings of the elements of a tensor that are not present (SPEC 3.9). A tensor with WC_UNCHANGED is a patch: apply it
 * to a tensor of its shape. It must neither be expanded with zeros nor added. */
enum { WC_ZERO = 0, WC_UNCHANGED = 1 };

/* Limits of a reader (SPEC section 7). */
typedef struct wc_limits {
    uint64_t max_bytes;
    uint64_t max_entries;
    uint64_t max_elements;
    uint64_t max_dense;
    uint64_t max_expansion;
    uint64_t max_work;
} wc_limits;

/* A tensor that a schema expects. */
typedef struct wc_expected {
    const char *name; /* UTF-8; a terminating zero byte is not required */
    size_t name_len;
    int dtype;
    unsigned ndim;
    const uint64_t *shape;
} wc_expected;

/* The tensors that a reader expects, strictly ascending by the bytes of their names. If count is WC_ONE_TENSOR, it
 * expects exactly one tensor, of any name: with the shape and type of tensors[0], or of any if tensors is NULL. */
typedef struct wc_schema {
    const wc_expected *tensors;
    uint32_t count;
} wc_schema;
#define WC_ONE_TENSOR UINT32_MAX

/* A tensor. wc_read sets the fields below the line. */
typedef struct wc_tensor {
    const char *name; /* without a terminating zero byte; NULL if only the key identifies the tensor */
    size_t name_len;
    uint64_t size; /* elements, present or not */
    const uint8_t *dims; /* as on the wire: see wc_dimension */
    uint8_t ndim;
    uint8_t width;
    uint16_t dtype;
    uint8_t absent; /* WC_ZERO or WC_UNCHANGED */
    uint8_t domain; /* 0, or that of the coefficients from which the elements are computed (SPEC 3.5) */
    /* --- */
    uint64_t *indices; /* of the elements present, ascending */
    void *values; /* one for each index, in the machine's byte order; README.md lists the types */
    uint64_t count;
} wc_tensor;

/* A part of the container. */
typedef struct wc_bytes {
    const uint8_t *at;
    uint64_t size;
} wc_bytes;

/* A text about a tensor or the container, UTF-8 without a terminating zero byte (SPEC 3.7). */
typedef struct wc_text {
    uint32_t key; /* of the tensor, or WC_CONTAINER */
    wc_bytes name;
    wc_bytes value;
} wc_text;
#define WC_CONTAINER UINT32_MAX

/* A container that is being read. The fields after `read_size` are private. */
typedef struct wc_reader {
    wc_tensor *tensors; /* in the order of their keys */
    uint32_t n_tensors;
    wc_bytes tag;
    uint32_t n_texts; /* see wc_next_text */
    wc_bytes digest; /* of the schema (SPEC 3.8); at = NULL if absent */
    uint64_t describe_size; /* bytes that wc_describe needs */
    uint64_t read_size; /* bytes that wc_read needs */
    const uint8_t *data;
    uint64_t size;
    wc_limits limits;
    const wc_schema *schema;
    uint32_t n_entries;
    uint32_t n_others; /* members of fused entries and of joined vectors, except the first of each */
    uint64_t payload; /* offset of the first section */
    uint64_t work;
    int based, zstd; /* whether patches of weights are read (wirecodec_patch.h), and whether codecs 7 and 17 are */
    wc_bytes records[12]; /* bodies by type; at = NULL if absent */
} wc_reader;

/* One row of the table of contents (SPEC 2.2). */
typedef struct wc_entry {
    uint32_t key, crc;
    uint64_t base;
    uint32_t d, r, index_len, value_len, map_len;
    uint8_t domain, index, value, map;
    uint16_t dtype; /* as on the wire, until the record of types is read */
} wc_entry;

/* ---- Small parts --------------------------------------------------------------------------------------- */

static inline wc_status wc_refuse(wc_kind kind, const char *code) {
    wc_status status;
    status.kind = kind;
    status.code = code;
    return status;
}

static inline wc_status wc_ok(void) { return wc_refuse(WC_OK, ""); }
static inline wc_status wc_malformed(const char *code) { return wc_refuse(WC_MALFORMED, code); }
static inline wc_status wc_invalid(const char *code) { return wc_refuse(WC_INVALID, code); }

#define WC_TRY(call)                                                                                         \
    do {                                                                                                     \
        wc_status wc_tried = (call);                                                                         \
        if (wc_tried.kind != WC_OK) return wc_tried;                                                         \
    } while (0)

/* Return the name of a kind (SPEC section 7). */
static inline const char *wc_kind_name(wc_kind kind) {
    static const char *const names[] = {"Ok",          "Truncated",     "Malformed",      "Invalid", "ChecksumMismatch",
                                        "Unsupported", "LimitExceeded", "SchemaMismatch", "Buffer"};
    return names[kind];
}

/* The default limits (SPEC section 7). */
static inline wc_limits wc_default_limits(void) {
    wc_limits limits;
    limits.max_bytes = (uint64_t)1 << 31;
    limits.max_entries = 65536;
    limits.max_elements = (uint64_t)1 << 28;
    limits.max_dense = (uint64_t)1 << 32;
    limits.max_expansion = 4096;
    limits.max_work = (uint64_t)1 << 28;
    return limits;
}

/* Read little-endian numbers at any alignment (SPEC section 1). */
static inline uint32_t wc_u16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t wc_u32(const uint8_t *p) { return wc_u16(p) | wc_u16(p + 2) << 16; }
static inline uint64_t wc_u64(const uint8_t *p) { return wc_u32(p) | (uint64_t)wc_u32(p + 4) << 32; }

static inline uint64_t wc_pad8(uint64_t n) { return (8 - n % 8) % 8; }
static inline uint64_t wc_ceil(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
static inline uint64_t wc_min(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t wc_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline unsigned wc_bit_length(uint64_t x) {
    unsigned n = 0;
    for (; x; x >>= 1) n++;
    return n;
}

static inline unsigned wc_ones(uint64_t x) {
    x = x - (x >> 1 & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return (unsigned)(((x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}

static inline uint64_t wc_ones_of(const uint8_t *at, uint64_t n) {
    uint64_t ones = 0, i;
    for (i = 0; i < n; i++) ones += wc_ones(at[i]);
    return ones;
}

static inline int wc_all_zero(const uint8_t *at, uint64_t n) {
    uint64_t i;
    for (i = 0; i < n; i++)
        if (at[i]) return 0;
    return 1;
}

/* Continue the CRC-32 `crc` with these bytes (SPEC section 6); start with 0. Processes half a byte at a time. */
static inline uint32_t wc_crc32(uint32_t crc, const uint8_t *at, uint64_t n) {
    static const uint32_t table[16] = {0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
                                       0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
                                       0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
    uint64_t i;
    crc = ~crc;
    for (i = 0; i < n; i++) {
        crc ^= at[i];
        crc = table[crc & 15] ^ crc >> 4;
        crc = table[crc & 15] ^ crc >> 4;
    }
    return ~crc;
}

/* Restore heap order below `root` among n numbers. */
static inline void wc_sift(uint64_t *x, uint64_t root, uint64_t n) {
    uint64_t child;
    while ((child = 2 * root + 1) < n) {
        uint64_t swap;
        if (child + 1 < n && x[child] < x[child + 1]) child++;
        if (x[root] >= x[child]) return;
        swap = x[root];
        x[root] = x[child];
        x[child] = swap;
        root = child;
    }
}

/* Sort ascending, in place. The C library's qsort may allocate. */
static inline void wc_sort(uint64_t *x, uint64_t n) {
    uint64_t i;
    for (i = n / 2; i-- > 0;) wc_sift(x, i, n);
    for (i = n; i-- > 1;) {
        uint64_t swap = x[0];
        x[0] = x[i];
        x[i] = swap;
        wc_sift(x, 0, i);
    }
}

/* ---- Bit streams (SPEC section 1) ------------------------------------------------------------------------ */

/* A bit stream, read from bit 0 of its first byte upwards; zeros follow its end. */
typedef struct wc_bits {
    const uint8_t *at;
    uint64_t size; /* bytes */
    uint64_t pos; /* bits */
} wc_bits;

static inline wc_bits wc_stream(const uint8_t *at, uint64_t size) {
    wc_bits bits;
    bits.at = at;
    bits.size = size;
    bits.pos = 0;
    return bits;
}

/* Return the n ≤ 32 bits at a position, without moving it. */
static inline uint32_t wc_peek(const wc_bits *bits, uint64_t pos, unsigned n) {
    uint64_t word = 0, byte = pos / 8;
    unsigned i;
    for (i = 0; i < 5 && byte + i < bits->size; i++) word |= (uint64_t)bits->at[byte + i] << 8 * i;
    return (uint32_t)(word >> pos % 8 & (((uint64_t)1 << n) - 1));
}

static inline uint32_t wc_take(wc_bits *bits, unsigned n) {
    uint32_t number = wc_peek(bits, bits->pos, n);
    bits->pos += n;
    return number;
}

/* Count the zero bits before the next one bit, and move past it; without a one bit, move to the end. */
static inline uint64_t wc_unary(wc_bits *bits) {
    uint64_t zeros = 0;
    while (bits->pos < 8 * bits->size) {
        if (bits->pos % 8 == 0 && bits->at[bits->pos / 8] == 0) {
            bits->pos += 8;
            zeros += 8;
        } else if (wc_take(bits, 1)) {
            return zeros;
        } else {
            zeros++;
        }
    }
    bits->pos = 8 * bits->size + 1;
    return zeros;
}

/* Return whether all bits from the position on are 0. */
static inline int wc_rest_zero(const wc_bits *bits, uint64_t pos) {
    uint64_t byte = pos / 8;
    if (byte >= bits->size) return 1;
    return bits->at[byte] >> pos % 8 == 0 && wc_all_zero(bits->at + byte + 1, bits->size - byte - 1);
}

/* Return number j of n ≤ 24 bits in a block of 32 rows and `lanes` lanes (SPEC 1.1, index/rice.md). */
static inline uint32_t wc_lane_code(const uint8_t *block, unsigned lanes, unsigned n, unsigned j) {
    unsigned lane = j % lanes, bit = j / lanes * n, row = bit / 32, shift = bit % 32;
    uint64_t word;
    if (n == 0) return 0;
    word = wc_u32(block + 4 * (lanes * row + lane));
    if (shift + n > 32) word |= (uint64_t)wc_u32(block + 4 * (lanes * (row + 1) + lane)) << 32;
    return (uint32_t)(word >> shift & (((uint64_t)1 << n) - 1));
}

/* Return the length in bytes of numbers that are packed in such blocks. */
static inline uint64_t wc_lane_bytes(uint64_t m, unsigned lanes, unsigned n) {
    uint64_t block = 32 * lanes;
    return 4 * (m / block * lanes * n + wc_ceil(m % block * n, 32));
}

/* Return number j of m that are packed in such blocks. */
static inline uint32_t wc_lane_number(const uint8_t *at, uint64_t m, unsigned lanes, unsigned n, uint64_t j) {
    uint64_t block = 32 * lanes, full = m / block;
    const uint8_t *start = at + 4 * (j / block) * lanes * n;
    wc_bits rest;
    if (j / block < full) return wc_lane_code(start, lanes, n, (unsigned)(j % block));
    rest = wc_stream(start, 4 * wc_ceil(m % block * n, 32));
    return wc_peek(&rest, j % block * n, n);
}

/* Return whether the bits after the last of such numbers are 0. */
static inline int wc_lane_padding(const uint8_t *at, uint64_t m, unsigned lanes, unsigned n) {
    uint64_t block = 32 * lanes, tail = m % block;
    wc_bits rest = wc_stream(at + 4 * (m / block) * lanes * n, 4 * wc_ceil(tail * n, 32));
    return wc_rest_zero(&rest, tail * n);
}

/* Packed codes have 16 lanes (SPEC 1.1). */
enum { WC_PACKED = 16, WC_LOW = 8 };

/* ---- Element types (SPEC section 1 and 2.2) --------------------------------------------------------------- */

static inline unsigned wc_width(int dtype) {
    switch (dtype) {
    case WC_INT8:
    case WC_UINT8:
    case WC_BOOL:
    case WC_FLOAT8_E4M3FN:
    case WC_FLOAT8_E5M2:
    case WC_FLOAT8_E8M0FNU:
    case WC_FLOAT4_E2M1FN_X2: return 1;
    case WC_FLOAT32:
    case WC_INT32:
    case WC_UINT32: return 4;
    case WC_FLOAT64:
    case WC_INT64:
    case WC_UINT64:
    case WC_COMPLEX64: return 8;
    case WC_COMPLEX128: return 16;
    default: return 2;
    }
}

/* Bytes of one number of an element: a complex number has two. */
static inline unsigned wc_number_width(int dtype) {
    return dtype == WC_COMPLEX64 || dtype == WC_COMPLEX128 ? wc_width(dtype) / 2 : wc_width(dtype);
}

/* Return the binary32 bits of the largest finite number of the element type (of binary32 for float64). */
static inline uint32_t wc_largest(int dtype) {
    return dtype == WC_FLOAT16 ? 0x477FE000 : dtype == WC_BFLOAT16 ? 0x7F7F0000 : 0x7F7FFFFF;
}

static inline float wc_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline uint32_t wc_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* Convert a finite binary32 to binary16, to nearest, ties to even. */
static inline uint16_t wc_to_half(uint32_t x) {
    uint32_t sign = x >> 16 & 0x8000, a = x & 0x7FFFFFFF, e = a >> 23, m, shift, q, rest;
    if (a >= 0x38800000) return (uint16_t)(sign | (a - 0x38000000 + 0xFFF + (a >> 13 & 1)) >> 13);
    if (e < 102) return (uint16_t)sign;
    m = (a & 0x7FFFFF) | 0x800000;
    shift = 126 - e;
    q = m >> shift;
    rest = m - (q << shift);
    if (rest > (uint32_t)1 << (shift - 1) || (rest == (uint32_t)1 << (shift - 1) && q & 1)) q++;
    return (uint16_t)(sign | q);
}

/* Convert a finite binary32 to bfloat16, to nearest, ties to even. */
static inline uint16_t wc_to_bfloat(uint32_t x) { return (uint16_t)((x + 0x7FFF + (x >> 16 & 1)) >> 16); }

/* Convert a binary16 to binary32, exactly; a NaN keeps its fraction bits (value/raw.md). */
static inline uint32_t wc_from_half(uint32_t x) {
    uint32_t sign = (x & 0x8000) << 16, e = x >> 10 & 31, m = x & 0x3FF;
    if (e == 31) return sign | 0x7F800000 | m << 13;
    if (e) return sign | (e + 112) << 23 | m << 13;
    if (!m) return sign;
    for (e = 113; !(m & 0x400); e--) m <<= 1;
    return sign | e << 23 | (m & 0x3FF) << 13;
}

/* Convert a binary32 to binary64, exactly; a NaN keeps its fraction bits. */
static inline uint64_t wc_from_single(uint32_t x) {
    uint64_t sign = (uint64_t)(x >> 31) << 63, e = x >> 23 & 255, m = x & 0x7FFFFF;
    if (e == 255) return sign | (uint64_t)0x7FF << 52 | m << 29;
    if (e) return sign | (e + 896) << 52 | m << 29;
    if (!m) return sign;
    for (e = 897; !(m & 0x800000); e--) m <<= 1;
    return sign | e << 52 | (m & 0x7FFFFF) << 29;
}

/* Destination of the decoded values of an entry. */
typedef struct wc_values {
    uint8_t *at;
    uint32_t r;
    int dtype;
} wc_values;

/* Store the bits of value i, truncated to the width of the element type. */
static inline void wc_put_bits(wc_values out, uint64_t i, uint64_t bits) {
    uint32_t single = (uint32_t)bits;
    uint16_t half = (uint16_t)bits;
    if (out.dtype == WC_FLOAT64)
        memcpy(out.at + 8 * i, &bits, 8);
    else if (out.dtype == WC_FLOAT32)
        memcpy(out.at + 4 * i, &single, 4);
    else
        memcpy(out.at + 2 * i, &half, 2);
}

/* Convert a finite binary32 to the element type, to nearest, ties to even. */
static inline uint64_t wc_in_type(int dtype, uint32_t single) {
    switch (dtype) {
    case WC_FLOAT16: return wc_to_half(single);
    case WC_BFLOAT16: return wc_to_bfloat(single);
    case WC_FLOAT64: return wc_from_single(single);
    default: return single;
    }
}

static inline void wc_put_single(wc_values out, uint64_t i, uint32_t single) {
    wc_put_bits(out, i, wc_in_type(out.dtype, single));
}

/* The sign bit of the element type. */
static inline uint64_t wc_sign_bit(int dtype) { return (uint64_t)1 << (8 * wc_width(dtype) - 1); }

/* Read an element from the wire, as bits. */
static inline uint64_t wc_element(const uint8_t *at, int dtype) {
    return dtype == WC_FLOAT64 ? wc_u64(at) : dtype == WC_FLOAT32 ? wc_u32(at) : wc_u16(at);
}

/* ---- Randomness (SPEC section 5) ---------------------------------------------------------------------- */

static inline uint64_t wc_finish(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint32_t wc_draw32(uint64_t stream, uint64_t i) {
    uint32_t x = (uint32_t)i * 0x9E3779B9u + (uint32_t)stream;
    x = (x ^ x >> 16) * 0x21F0AAADu;
    x = ((x ^ x >> 15) + (uint32_t)(stream >> 32)) * 0xD35A2D97u;
    return x ^ x >> 15;
}

/* ---- Index codecs ---------------------------------------------------------------------------------------- */

/* Input and output of an index codec: a section of at least one byte, 0 < r < d, and a buffer for r indices. */
typedef struct wc_index {
    const uint8_t *at;
    uint64_t len;
    uint32_t d, r;
    uint64_t *out;
    uint8_t *scratch; /* wc_scratch bytes, aligned to 8 */
    uint64_t *work; /* total of the container so far */
    uint64_t max_work;
} wc_index;

enum { WC_SPAN = 4096 };

/* index/raw-index.md */
static inline wc_status wc_raw_index(const wc_index *x) {
    unsigned width = x->d <= 65536 ? 2 : 4;
    uint64_t i;
    if (x->len != (uint64_t)x->r * width) return wc_malformed("raw-index-length");
    for (i = 0; i < x->r; i++) {
        x->out[i] = width == 2 ? wc_u16(x->at + 2 * i) : wc_u32(x->at + 4 * i);
        if (i && x->out[i] <= x->out[i - 1]) return wc_invalid("index-order");
    }
    return x->out[x->r - 1] >= x->d ? wc_invalid("index-range") : wc_ok();
}

/* index/bitmap.md */
static inline wc_status wc_bitmap(const wc_index *x) {
    wc_bits bits = wc_stream(x->at, x->len);
    uint64_t i, at = 0;
    if (x->len != wc_ceil(x->d, 8)) return wc_malformed("bitmap-length");
    if (!wc_rest_zero(&bits, x->d)) return wc_malformed("bitmap-tail");
    if (wc_ones_of(x->at, x->len) != x->r) return wc_invalid("bitmap-count");
    for (i = 0; i < x->r; i++, at++) {
        at += wc_unary(&bits);
        x->out[i] = at;
    }
    return wc_ok();
}

/* Read the indices of one span of rice (index/rice.md, Section): low bits, then unary parts. */
static inline wc_status wc_rice_span(const wc_index *x, uint64_t c, uint64_t base, wc_bits *parameters,
                                     const uint8_t *at, uint64_t words) {
    uint64_t n = wc_min(WC_SPAN, x->r - c * WC_SPAN), first, i, next = base, low_bytes = 0;
    uint64_t *out = x->out + c * WC_SPAN;
    const uint8_t *low = at;
    wc_bits unary;
    for (first = 0; first < n; first += 256) {
        unsigned b = wc_peek(parameters, parameters->pos + first / 256 * 5, 5);
        uint64_t m = wc_min(256, n - first);
        if (!wc_lane_padding(at + low_bytes, m, WC_LOW, b)) return wc_malformed("rice-padding");
        low_bytes += wc_lane_bytes(m, WC_LOW, b);
    }
    unary = wc_stream(at + low_bytes, 4 * words - low_bytes);
    if (wc_ones_of(unary.at, unary.size) != n || wc_u32(at + 4 * words - 4) == 0) return wc_malformed("rice-unary");
    for (first = 0; first < n; first += 256) {
        unsigned b = wc_take(parameters, 5);
        uint64_t m = wc_min(256, n - first);
        for (i = 0; i < m; i++) {
            uint64_t gap = wc_unary(&unary) << b | wc_lane_number(low, m, WC_LOW, b, i);
            if (next + gap >= x->d) return wc_invalid("index-range");
            out[first + i] = next + gap;
            next += gap + 1;
        }
        low += wc_lane_bytes(m, WC_LOW, b);
    }
    return wc_ok();
}

/* index/rice.md */
static inline wc_status wc_rice(const wc_index *x) {
    uint64_t n_spans = wc_ceil(x->r, WC_SPAN), n_blocks = wc_ceil(x->r, 256);
    uint64_t head_bits = 48 * (n_spans - 1) + 5 * n_blocks, head = 4 * wc_ceil(head_bits, 32), left, c, i;
    const uint8_t *lengths, *span;
    wc_bits parameters;
    if (x->len % 4 || head > x->len) return wc_malformed("rice-length");
    lengths = x->at + 4 * (n_spans - 1);
    parameters = wc_stream(x->at, head);
    if (!wc_rest_zero(&parameters, head_bits)) return wc_malformed("rice-padding");
    for (i = 0; i < n_blocks; i++)
        if (wc_peek(&parameters, 48 * (n_spans - 1) + 5 * i, 5) > 24) return wc_malformed("rice-parameter");
    left = (x->len - head) / 4;
    for (c = 0; c < n_spans; c++) {
        uint64_t words = c + 1 < n_spans ? wc_u16(lengths + 2 * c) : left, low = 0;
        if (words > left) return wc_malformed("rice-length");
        for (i = 16 * c; i < wc_min(n_blocks, 16 * (c + 1)); i++) {
            unsigned b = wc_peek(&parameters, 48 * (n_spans - 1) + 5 * i, 5);
            low += wc_lane_bytes(wc_min(256, x->r - 256 * i), WC_LOW, b) / 4;
        }
        if (words < low + 1) return wc_malformed("rice-length");
        left -= words;
    }
    parameters.pos = 48 * (n_spans - 1);
    span = x->at + head;
    left = (x->len - head) / 4;
    for (c = 0; c < n_spans; c++) {
        uint64_t words = c + 1 < n_spans ? wc_u16(lengths + 2 * c) : left;
        WC_TRY(wc_rice_span(x, c, c ? wc_u32(x->at + 4 * (c - 1)) : 0, &parameters, span, words));
        span += 4 * words;
        left -= words;
    }
    for (c = 1; c < n_spans; c++)
        if (wc_u32(x->at + 4 * (c - 1)) != x->out[c * WC_SPAN - 1] + 1) return wc_invalid("rice-base");
    return wc_ok();
}

/* Check the varints of rle and delta (index/rle.md, Varints): 1 to 4 bytes, the fewest possible. */
static inline int wc_varints_valid(const uint8_t *at, uint64_t len) {
    uint64_t i, bytes = 0;
    for (i = 0; i < len; i++) {
        bytes++;
        if (at[i] & 0x80) continue;
        if (bytes > 4 || (bytes > 1 && at[i] == 0)) return 0;
        bytes = 0;
    }
    return 1;
}

static inline uint64_t wc_varints_count(const uint8_t *at, uint64_t len) {
    uint64_t i, count = 0;
    for (i = 0; i < len; i++) count += at[i] < 0x80;
    return count;
}

/* Read one valid varint. */
static inline uint32_t wc_varint(const uint8_t **at) {
    uint32_t number = 0;
    unsigned shift = 0;
    for (; **at & 0x80; shift += 7) number |= (uint32_t)(*(*at)++ & 0x7F) << shift;
    return number | (uint32_t)*(*at)++ << shift;
}

/* index/rle.md */
static inline wc_status wc_rle(const wc_index *x) {
    const uint8_t *at = x->at, *end = x->at + x->len;
    uint64_t element = 0, n = 0, i;
    if (end[-1] & 0x80 || wc_varints_count(at, x->len) % 2) return wc_malformed("rle-length");
    if (!wc_varints_valid(at, x->len)) return wc_malformed("rle-varint");
    while (at < end) {
        uint64_t absent = (uint64_t)wc_varint(&at) + (n > 0), present;
        present = (uint64_t)wc_varint(&at) + 1;
        element += absent;
        if (n + present > x->r) return wc_invalid("rle-count");
        if (element + present > x->d) return wc_invalid("index-range");
        for (i = 0; i < present; i++) x->out[n++] = element++;
    }
    return n < x->r ? wc_invalid("rle-count") : wc_ok();
}

/* index/delta.md */
static inline wc_status wc_delta(const wc_index *x) {
    const uint8_t *at = x->at;
    uint64_t i, next = 0;
    if (wc_varints_count(at, x->len) != x->r || at[x->len - 1] & 0x80) return wc_malformed("delta-length");
    if (!wc_varints_valid(at, x->len)) return wc_malformed("delta-varint");
    for (i = 0; i < x->r; i++) {
        x->out[i] = next + wc_varint(&at);
        next = x->out[i] + 1;
    }
    return next > x->d ? wc_invalid("index-range") : wc_ok();
}

/* A canonical code of at most 12 bits (index/huffman.md, Code): the number of codes of each length, and the symbols
 * in the order of their codes. If there is one symbol, its code has no bits. */
typedef struct wc_code {
    uint16_t count[13];
    uint8_t symbol[256];
} wc_code;

static inline wc_code wc_single_code(unsigned symbol) {
    wc_code code;
    memset(&code, 0, sizeof code);
    code.count[0] = 1;
    code.symbol[0] = (uint8_t)symbol;
    return code;
}

/* Return the length of symbol i from packed half bytes. */
static inline unsigned wc_code_length(const uint8_t *lengths, unsigned i) { return lengths[i / 2] >> 4 * (i % 2) & 15; }

/* Make the four checks of lengths of index/huffman.md and value/sketchml.md, and build the code. */
static inline wc_status wc_build_code(wc_code *code, const uint8_t *lengths, unsigned first, unsigned n,
                                      const char *const refusals[4]) {
    unsigned i, length, filled = 0, sum = 0;
    memset(code, 0, sizeof *code);
    if (n % 2 && lengths[n / 2] >> 4) return wc_malformed(refusals[0]);
    for (i = 0; i < n; i++)
        if (wc_code_length(lengths, i) > 12) return wc_malformed(refusals[1]);
    if (!wc_code_length(lengths, 0) || !wc_code_length(lengths, n - 1)) return wc_malformed(refusals[2]);
    for (length = 1; length <= 12; length++)
        for (i = 0; i < n; i++)
            if (wc_code_length(lengths, i) == length) {
                code->symbol[filled++] = (uint8_t)(first + i);
                code->count[length]++;
                sum += 4096u >> length;
            }
    return sum == 4096 ? wc_ok() : wc_malformed(refusals[3]);
}

/* Read the next symbol. */
static inline unsigned wc_symbol(const wc_code *code, wc_bits *bits) {
    unsigned word = 0, first = 0, index = 0, length;
    if (code->count[0]) return code->symbol[0];
    for (length = 1; length <= 12; length++) {
        word |= wc_take(bits, 1);
        if (word - first < code->count[length]) return code->symbol[index + word - first];
        index += code->count[length];
        first = (first + code->count[length]) << 1;
        word <<= 1;
    }
    return code->symbol[0]; /* not reached: the code is complete */
}

/* Read one span of gaps. Its checks follow, so indices may still be too large. */
static inline void wc_huffman_gaps(const wc_code *code, unsigned m, wc_bits *bits, uint64_t n, uint64_t next,
                                   uint64_t *out) {
    uint64_t i;
    for (i = 0; i < n && bits->pos <= 8 * bits->size; i++) {
        uint32_t group = wc_symbol(code, bits), x = group < (uint32_t)2 << m ? 0 : (group >> m) - 1;
        uint64_t gap = (uint64_t)(group - (x << m)) << x;
        out[i] = next + (gap | wc_take(bits, x));
        next = out[i] + 1;
    }
}

static inline void wc_huffman_keys(const wc_code *code, unsigned w, wc_bits *bits, uint64_t n, uint64_t *out) {
    uint64_t i;
    unsigned j;
    for (i = 0; i < n && bits->pos <= 8 * bits->size; i++)
        for (out[i] = 0, j = 0; j < w; j++) out[i] |= (uint64_t)wc_symbol(code, bits) << 8 * j;
}

/* index/huffman.md, the checks after the last span */
static inline wc_status wc_huffman_end(const wc_index *x, const uint8_t *bases, int keys) {
    uint64_t i;
    if (!keys) {
        for (i = 1; i < wc_ceil(x->r, WC_SPAN); i++)
            if (wc_u32(bases + 4 * (i - 1)) != x->out[i * WC_SPAN - 1] + 1) return wc_invalid("huffman-base");
        return wc_ok();
    }
    for (i = 1; i < x->r; i++)
        if (x->out[i] <= x->out[i - 1]) return wc_invalid("index-order");
    return x->out[x->r - 1] >= x->d ? wc_invalid("index-range") : wc_ok();
}

/* index/huffman.md */
static inline wc_status wc_huffman(const wc_index *x) {
    static const unsigned symbols[5] = {25, 48, 92, 176, 256};
    static const char *const refusals[4] = {"huffman-padding", "huffman-code-length", "huffman-window",
                                            "huffman-code"};
    uint64_t n_spans = wc_ceil(x->r, WC_SPAN), head, sum = 0, c, i;
    unsigned form, first, more, w = x->d <= 256 ? 1 : x->d <= 65536 ? 2 : 3;
    const uint8_t *bases, *lengths, *span;
    uint64_t window, base_bytes;
    wc_code code;
    if (x->len < 3) return wc_malformed("huffman-length");
    form = x->at[0];
    first = x->at[1];
    more = x->at[2];
    if (form > 4) return wc_malformed("huffman-form");
    if (first + more >= symbols[form]) return wc_malformed("huffman-symbols");
    window = more ? (more + 2) / 2 : 0;
    base_bytes = form < 4 ? 4 * (n_spans - 1) : 0;
    head = 3 + window + base_bytes + 2 * (n_spans - 1);
    if (head > x->len) return wc_malformed("huffman-length");
    bases = x->at + 3 + window;
    lengths = bases + base_bytes;
    code = wc_single_code(first);
    if (more) WC_TRY(wc_build_code(&code, x->at + 3, first, more + 1, refusals));
    for (c = 0; c + 1 < n_spans; c++) sum += wc_u16(lengths + 2 * c);
    if (sum > x->len - head) return wc_malformed("huffman-length");
    span = x->at + head;
    for (c = 0; c < n_spans; c++) {
        uint64_t n = wc_min(WC_SPAN, x->r - c * WC_SPAN), *out = x->out + c * WC_SPAN;
        uint64_t bytes = c + 1 < n_spans ? wc_u16(lengths + 2 * c) : x->len - head - sum;
        wc_bits bits = wc_stream(span, bytes);
        if (form < 4)
            wc_huffman_gaps(&code, form, &bits, n, c ? wc_u32(bases + 4 * (c - 1)) : 0, out);
        else
            wc_huffman_keys(&code, w, &bits, n, out);
        if (wc_ceil(bits.pos, 8) != bytes) return wc_malformed("huffman-span");
        if (!wc_rest_zero(&bits, bits.pos)) return wc_malformed("huffman-padding");
        for (i = 0; form < 4 && i < n; i++)
            if (out[i] >= x->d) return wc_invalid("index-range");
        span += bytes;
    }
    return wc_huffman_end(x, bases, form == 4);
}

/* Quantities of a span that follow from its position (index/elias-fano.md, Section). */
typedef struct wc_ef_span {
    uint64_t n, base, z, low_words, high_words;
    unsigned b;
    int negative;
} wc_ef_span;

static inline wc_ef_span wc_ef_at(const wc_index *x, uint64_t c) {
    uint64_t n_spans = wc_ceil(x->r, WC_SPAN), end = c + 1 < n_spans ? wc_u32(x->at + 4 * c) : x->d;
    wc_ef_span span;
    memset(&span, 0, sizeof span);
    span.n = wc_min(WC_SPAN, x->r - c * WC_SPAN);
    span.base = c ? wc_u32(x->at + 4 * (c - 1)) : 0;
    span.negative = end < span.base + span.n;
    if (span.negative) return span;
    span.z = end - span.base - span.n;
    while (span.n << (span.b + 1) <= span.z) span.b++;
    span.low_words = wc_lane_bytes(span.n, WC_LOW, span.b) / 4;
    span.high_words = wc_ceil(span.n + (span.z >> span.b), 32);
    return span;
}

/* Read the indices of one span (index/elias-fano.md, the checks of each span). */
static inline wc_status wc_ef_read(const wc_index *x, uint64_t c, const wc_ef_span *span, const uint8_t *at,
                                   uint64_t words) {
    uint64_t i, position = 0, *out = x->out + c * WC_SPAN;
    wc_bits high = wc_stream(at + 4 * span->low_words, 4 * (words - span->low_words));
    int last = c + 1 == wc_ceil(x->r, WC_SPAN);
    if (!wc_lane_padding(at, span->n, WC_LOW, span->b)) return wc_malformed("elias-fano-padding");
    if (wc_ones_of(high.at, high.size) != span->n || (last && wc_u32(at + 4 * words - 4) == 0))
        return wc_malformed("elias-fano-high");
    for (i = 0; i < span->n; i++, position++) {
        position += wc_unary(&high);
        out[i] = span->base + i + ((position - i) << span->b | wc_lane_number(at, span->n, WC_LOW, span->b, i));
        if (i && out[i] <= out[i - 1]) return wc_invalid("index-order");
    }
    if (out[span->n - 1] >= x->d) return wc_invalid("index-range");
    if (!last && out[span->n - 1] + 1 != wc_u32(x->at + 4 * c)) return wc_invalid("elias-fano-base");
    return wc_ok();
}

/* index/elias-fano.md */
static inline wc_status wc_elias_fano(const wc_index *x) {
    uint64_t n_spans = wc_ceil(x->r, WC_SPAN), head = 4 * (n_spans - 1), left, c;
    const uint8_t *at;
    wc_ef_span span;
    if (x->len % 4 || x->len < head) return wc_malformed("elias-fano-length");
    at = x->at + head;
    for (c = 0; c < n_spans; c++)
        if (wc_ef_at(x, c).negative) return wc_invalid("elias-fano-base");
    left = (x->len - head) / 4;
    for (c = 0; c + 1 < n_spans; c++) {
        span = wc_ef_at(x, c);
        if (span.low_words + span.high_words > left) return wc_malformed("elias-fano-length");
        left -= span.low_words + span.high_words;
    }
    span = wc_ef_at(x, n_spans - 1);
    if (left < span.low_words + 1 || left > span.low_words + span.high_words) return wc_malformed("elias-fano-length");
    for (c = 0; c < n_spans; c++) {
        uint64_t words;
        span = wc_ef_at(x, c);
        words = c + 1 < n_spans ? span.low_words + span.high_words : left;
        WC_TRY(wc_ef_read(x, c, &span, at, words));
        at += 4 * words;
    }
    return wc_ok();
}

/* index/binned.md */
static inline wc_status wc_binned(const wc_index *x) {
    uint64_t n = 0, bin = 0, previous = 0, bits_left, T;
    int open = 0; /* whether the previous record did not end its bin */
    unsigned w;
    wc_bits bits;
    if (x->len < 2) return wc_malformed("binned-length");
    T = wc_u16(x->at);
    if (T == 0 || T > 16383) return wc_malformed("binned-bin");
    w = wc_bit_length(T);
    bits = wc_stream(x->at + 2, x->len - 2);
    while (n < x->r) {
        uint64_t number;
        int last;
        bits_left = 8 * bits.size - bits.pos;
        if (bits_left < w + 1) return wc_malformed("binned-length");
        number = wc_take(&bits, w);
        last = (int)wc_take(&bits, 1);
        if (number > T) return wc_malformed("binned-number");
        if (number == T && (!last || open)) return wc_malformed("binned-empty");
        if (number < T) {
            if (open && number <= previous) return wc_invalid("index-order");
            if (bin * T + number >= x->d) return wc_invalid("index-range");
            x->out[n++] = bin * T + number;
            previous = number;
        }
        open = !last;
        bin += (uint64_t)last;
    }
    if (open) return wc_malformed("binned-last");
    if (wc_ceil(bits.pos, 8) != bits.size) return wc_malformed("binned-length");
    return wc_rest_zero(&bits, bits.pos) ? wc_ok() : wc_malformed("binned-padding");
}

/* The present elements, built from ascending ranges of listed ones (index/structured.md, Grains). */
typedef struct wc_support {
    uint64_t *out;
    uint64_t n, r, cursor;
    int complement;
} wc_support;

/* Append at most r elements; a section that lists too many is refused after it is read. */
static inline void wc_present(wc_support *s, uint64_t from, uint64_t to) {
    for (; from < to && s->n < s->r; from++) s->out[s->n++] = from;
}

static inline void wc_listed(wc_support *s, uint64_t from, uint64_t to) {
    if (s->complement)
        wc_present(s, s->cursor, from);
    else
        wc_present(s, from, to);
    s->cursor = to;
}

/* Read a gap stream (index/structured.md, Gap streams): m ascending numbers below a bound. */
typedef struct wc_gaps {
    wc_bits bits;
    uint64_t i, next, bound;
    unsigned b;
} wc_gaps;

static inline wc_gaps wc_gap_stream(wc_bits bits, uint64_t bound) {
    wc_gaps gaps;
    gaps.bits = bits;
    gaps.i = gaps.next = gaps.b = 0;
    gaps.bound = bound;
    return gaps;
}

static inline wc_status wc_gap(wc_gaps *g, uint64_t *number) {
    uint64_t end = 8 * g->bits.size;
    if (g->i++ % 256 == 0) {
        g->b = wc_take(&g->bits, 5);
        if (g->bits.pos > end) return wc_malformed("structured-length");
        if (g->b > 24) return wc_malformed("structured-parameter");
    }
    *number = wc_unary(&g->bits) << g->b;
    *number += g->next + wc_take(&g->bits, g->b);
    if (g->bits.pos > end) return wc_malformed("structured-length");
    if (*number >= g->bound) return wc_invalid("index-range");
    g->next = *number + 1;
    return wc_ok();
}

/* Header of a section of index/structured.md. */
typedef struct wc_grains {
    uint64_t g, p, n, m;
} wc_grains;

/* Read runs of grains. A first pass checks all numbers; a second pass reads both streams in parallel. */
static inline wc_status wc_structured_runs(const wc_grains *s, wc_bits *bits, wc_support *to) {
    uint64_t most = wc_min(s->m, s->n - s->m + 1), k, i, z, e = 0, previous = 0;
    unsigned w = wc_bit_length(most - 1);
    wc_gaps absent, ends;
    if (8 * bits->size < w) return wc_malformed("structured-length");
    k = (uint64_t)wc_take(bits, w) + 1;
    if (k > most) return wc_malformed("structured-runs");
    absent = wc_gap_stream(*bits, s->n - s->m + 1);
    for (i = 0; i < k; i++) WC_TRY(wc_gap(&absent, &z));
    ends = wc_gap_stream(absent.bits, s->m - 1);
    absent = wc_gap_stream(*bits, s->n - s->m + 1);
    for (i = 0; i < k; i++) { /* run i has the grains z + previous … z + e - 1 */
        WC_TRY(wc_gap(&absent, &z));
        e = s->m;
        if (i + 1 < k) {
            WC_TRY(wc_gap(&ends, &e));
            e++;
        }
        wc_listed(to, s->p + (z + previous) * s->g, s->p + (z + e) * s->g);
        previous = e;
    }
    *bits = ends.bits;
    return wc_ok();
}

static inline wc_status wc_structured_gaps(const wc_grains *s, wc_bits *bits, wc_support *to) {
    wc_gaps gaps = wc_gap_stream(*bits, s->n);
    uint64_t i, grain;
    for (i = 0; i < s->m; i++) {
        WC_TRY(wc_gap(&gaps, &grain));
        wc_listed(to, s->p + grain * s->g, s->p + (grain + 1) * s->g);
    }
    *bits = gaps.bits;
    return wc_ok();
}

static inline wc_status wc_structured_bitmap(const wc_grains *s, wc_bits *bits, wc_support *to) {
    uint64_t i, grain = 0;
    if (bits->size != wc_ceil(s->n, 8)) return wc_malformed("structured-length");
    if (!wc_rest_zero(bits, s->n)) return wc_malformed("structured-padding");
    if (wc_ones_of(bits->at, bits->size) != s->m) return wc_invalid("structured-count");
    for (i = 0; i < s->m; i++, grain++) {
        grain += wc_unary(bits);
        wc_listed(to, s->p + grain * s->g, s->p + (grain + 1) * s->g);
    }
    bits->pos = 8 * bits->size;
    return wc_ok();
}

/* Read the whole grains of a support (index/structured.md, Section). */
static inline wc_status wc_structured_body(const wc_grains *s, unsigned form, wc_bits bits, wc_support *to) {
    if (s->m == 0 || s->m == s->n) {
        if (bits.size) return wc_malformed("structured-length");
        if (s->m) wc_listed(to, s->p, s->p + s->n * s->g);
        return wc_ok();
    }
    if (form == 2) return wc_structured_bitmap(s, &bits, to);
    WC_TRY(form == 1 ? wc_structured_runs(s, &bits, to) : wc_structured_gaps(s, &bits, to));
    if (wc_ceil(bits.pos, 8) != bits.size) return wc_malformed("structured-length");
    return wc_rest_zero(&bits, bits.pos) ? wc_ok() : wc_malformed("structured-padding");
}

/* Read a number of `width` bytes. */
static inline uint64_t wc_number(const uint8_t *at, unsigned width) {
    uint64_t number = 0;
    unsigned i;
    for (i = 0; i < width; i++) number |= (uint64_t)at[i] << 8 * i;
    return number;
}

/* index/structured.md */
static inline wc_status wc_structured(const wc_index *x) {
    unsigned flags = x->at[0], form = flags & 3, width = flags >> 5 & 3, phased = flags >> 7;
    int first = flags >> 3 & 1, last = flags >> 4 & 1;
    uint64_t head = 1 + (uint64_t)width * (1 + phased), listed, tail, parts;
    wc_grains s;
    wc_support to;
    if (head > x->len) return wc_malformed("structured-length");
    if (form == 3) return wc_malformed("structured-form");
    s.g = width ? wc_number(x->at + 1, width) : 1;
    s.p = phased ? wc_number(x->at + 1 + width, width) : 0;
    if (width && (s.g < 2 || s.g >> 8 * (width - 1) == 0)) return wc_malformed("structured-grain");
    if (s.g > x->d || (phased && s.p == 0) || s.p >= s.g) return wc_malformed("structured-grain");
    s.n = (x->d - s.p) / s.g;
    tail = (x->d - s.p) % s.g;
    if ((first && !s.p) || (last && !tail)) return wc_malformed("structured-form");
    to.complement = flags >> 2 & 1;
    listed = to.complement ? x->d - x->r : x->r;
    parts = (first ? s.p : 0) + (last ? tail : 0);
    if (listed < parts || (listed - parts) % s.g || (listed - parts) / s.g > s.n) return wc_invalid("structured-count");
    s.m = (listed - parts) / s.g;
    to.out = x->out;
    to.r = x->r;
    to.n = to.cursor = 0;
    if (first) wc_listed(&to, 0, s.p);
    WC_TRY(wc_structured_body(&s, form, wc_stream(x->at + head, x->len - head), &to));
    if (last) wc_listed(&to, x->d - tail, x->d);
    if (to.complement) wc_present(&to, to.cursor, x->d);
    return wc_ok();
}

/* Add the work of an entry to the total (SPEC section 7, max_work). */
static inline wc_status wc_add_work(const wc_index *x, uint64_t work) {
    if (work > x->max_work || *x->work > x->max_work - work) return wc_refuse(WC_LIMIT_EXCEEDED, "max-work");
    *x->work += work;
    return wc_ok();
}

/* A filter of index/bloom.md. */
typedef struct wc_bloom {
    const uint8_t *filter;
    uint64_t bytes, stream;
    unsigned k;
} wc_bloom;

/* Return the offset and the rotation of window j of a group (index/bloom.md, Bits of an element). */
static inline uint64_t wc_bloom_window(const wc_bloom *f, uint64_t group, unsigned j, unsigned *rotation) {
    uint64_t word = wc_finish((16 * group + j / 2 + 1) * 0x9E3779B97F4A7C15u);
    uint32_t half = (uint32_t)(j % 2 ? word >> 32 : word);
    *rotation = half % 64;
    return half / 64 * f->bytes >> 26;
}

/* Return bit_j(x). */
static inline uint64_t wc_bloom_bit(const wc_bloom *f, uint64_t x, unsigned j) {
    unsigned rotation;
    uint64_t offset = wc_bloom_window(f, x / 64, j, &rotation);
    return (8 * offset + (x - rotation) % 64) % (8 * f->bytes);
}

/* Return the positives of a group, below d: bit i is element 64·group + i. */
static inline uint64_t wc_bloom_group(const wc_bloom *f, uint64_t group, uint32_t d) {
    uint64_t held = ~(uint64_t)0;
    unsigned j, i;
    for (j = 0; j < f->k && held; j++) {
        unsigned rotation;
        uint64_t offset = wc_bloom_window(f, group, j, &rotation), word = 0;
        for (i = 0; i < 8; i++) word |= (uint64_t)f->filter[(offset + i) % f->bytes] << 8 * i;
        held &= rotation ? word << rotation | word >> (64 - rotation) : word;
    }
    if (d - 64 * group < 64) held &= ((uint64_t)1 << (d - 64 * group)) - 1;
    return held;
}

/* Selection sampling (index/bloom.md, Policies): return whether item i of n is selected, after c of q. */
static inline int wc_bloom_takes(const wc_bloom *f, uint64_t t, uint64_t i, uint64_t n, uint64_t c, uint64_t q) {
    return (uint64_t)wc_draw32(f->stream, t + i) * (n - i) >> 32 < q - c;
}

/* All policies but p2: select r of the positives by position. */
static inline void wc_bloom_choose(const wc_index *x, const wc_bloom *f, unsigned policy, uint64_t positives) {
    uint64_t skip = policy == 5 ? (positives - x->r) / 2 : policy == 6 ? positives - x->r : 0;
    uint64_t i = 0, n = 0, group;
    for (group = 0; n < x->r; group++) {
        uint64_t held = wc_bloom_group(f, group, x->d), element = 64 * group;
        for (; held && n < x->r; held >>= 1, element++) {
            if (!(held & 1)) continue;
            if (policy == 2 ? wc_bloom_takes(f, 0, i, positives, n, x->r) : i >= skip) x->out[n++] = element;
            i++;
        }
    }
}

/* Scratch memory of policy p2. */
typedef struct wc_conflicts {
    uint64_t *pairs; /* (bit, position of the positive), sorted: the doubtful lists, concatenated */
    uint64_t *lists; /* (length, start in pairs), sorted */
    uint32_t *positives;
    uint8_t *chosen, *seen, *shared, *explained; /* by positive; by bit of the filter */
    uint64_t n_positives, n_pairs, n_chosen;
} wc_conflicts;

static inline uint64_t wc_conflicts_most(uint64_t r) { return 5 * r + 4096; }
static inline uint64_t wc_positives_most(uint64_t r) { return (5 * r + 128) / 2; }

/* Return the scratch size of p2 for r indices and a filter of `bytes` bytes. */
static inline uint64_t wc_conflicts_size(uint64_t r, uint64_t bytes) {
    return 16 * wc_conflicts_most(r) + 5 * wc_positives_most(r) + 3 * bytes + 8;
}

static inline wc_conflicts wc_conflicts_at(uint8_t *buffer, uint64_t r, uint64_t bytes) {
    wc_conflicts p;
    memset(&p, 0, sizeof p);
    p.pairs = (uint64_t *)(void *)buffer;
    p.lists = p.pairs + wc_conflicts_most(r);
    p.positives = (uint32_t *)(void *)(p.lists + wc_conflicts_most(r));
    p.chosen = (uint8_t *)(p.positives + wc_positives_most(r));
    p.seen = p.chosen + wc_positives_most(r);
    p.shared = p.seen + bytes;
    p.explained = p.shared + bytes;
    memset(p.chosen, 0, (size_t)(wc_positives_most(r) + 3 * bytes));
    return p;
}

static inline int wc_bit_at(const uint8_t *bits, uint64_t n) { return bits[n / 8] >> n % 8 & 1; }
static inline void wc_set_bit(uint8_t *bits, uint64_t n) { bits[n / 8] |= (uint8_t)(1u << n % 8); }

/* Step 1 of p2: find the certain items, and the bits that they set. */
static inline void wc_find_certain(wc_conflicts *p, const wc_bloom *f) {
    uint64_t i, bit;
    unsigned j;
    for (i = 0; i < p->n_positives; i++)
        for (j = 0; j < f->k; j++) {
            bit = wc_bloom_bit(f, p->positives[i], j);
            if (wc_bit_at(p->seen, bit)) wc_set_bit(p->shared, bit);
            wc_set_bit(p->seen, bit);
        }
    for (i = 0; i < p->n_positives; i++) {
        for (j = 0; j < f->k && !p->chosen[i]; j++)
            p->chosen[i] = !wc_bit_at(p->shared, wc_bloom_bit(f, p->positives[i], j));
        if (!p->chosen[i]) continue;
        p->n_chosen++;
        for (j = 0; j < f->k; j++) wc_set_bit(p->explained, wc_bloom_bit(f, p->positives[i], j));
    }
}

/* Step 2 of p2: find the doubtful lists; return 0 if they have too many items. */
static inline int wc_find_doubtful(wc_conflicts *p, const wc_bloom *f, uint64_t most) {
    uint64_t i, bit;
    unsigned j;
    for (i = 0; i < p->n_positives; i++)
        for (j = 0; j < f->k; j++) {
            bit = wc_bloom_bit(f, p->positives[i], j);
            if (wc_bit_at(p->explained, bit)) continue;
            if (p->n_pairs == most) return 0;
            p->pairs[p->n_pairs++] = bit << 28 | i;
        }
    wc_sort(p->pairs, p->n_pairs);
    return 1;
}

/* Steps 3 and 4 of p2: select one item of each doubtful list without a selected one, then any items. */
static inline void wc_settle(wc_conflicts *p, const wc_bloom *f, uint64_t r) {
    const uint64_t low = ((uint64_t)1 << 28) - 1;
    uint64_t n_lists = 0, start, end, i, t = 0, n, q, c = 0;
    for (start = 0; start < p->n_pairs; start = end) {
        for (end = start; end < p->n_pairs && p->pairs[end] >> 28 == p->pairs[start] >> 28;) end++;
        p->lists[n_lists++] = (end - start) << 32 | start;
    }
    wc_sort(p->lists, n_lists);
    for (i = 0; i < n_lists && p->n_chosen < r; i++) {
        uint64_t length = p->lists[i] >> 32, explained = 0, j;
        const uint64_t *list = p->pairs + (p->lists[i] & 0xFFFFFFFFu);
        for (j = 0; j < length; j++) explained |= p->chosen[list[j] & low];
        if (explained) continue;
        p->chosen[list[wc_draw32(f->stream, t++) * length >> 32] & low] = 1;
        p->n_chosen++;
    }
    n = p->n_positives - p->n_chosen;
    q = r - p->n_chosen;
    for (i = 0, start = 0; start < p->n_positives && c < q; start++) {
        if (p->chosen[start]) continue;
        if (wc_bloom_takes(f, t, i++, n, c, q)) {
            p->chosen[start] = 1;
            c++;
        }
    }
}

/* index/bloom.md, Policy p2 */
static inline wc_status wc_bloom_p2(const wc_index *x, const wc_bloom *f, uint64_t positives) {
    wc_conflicts p;
    uint64_t group, i, n = 0;
    if (2 * positives > 5 * (uint64_t)x->r + 128) return wc_invalid("bloom-conflicts");
    p = wc_conflicts_at(x->scratch, x->r, f->bytes);
    for (group = 0; 64 * group < x->d; group++) {
        uint64_t held = wc_bloom_group(f, group, x->d), element = 64 * group;
        for (; held; held >>= 1, element++)
            if (held & 1) p.positives[p.n_positives++] = (uint32_t)element;
    }
    wc_find_certain(&p, f);
    if (p.n_chosen > x->r) return wc_invalid("bloom-certain");
    if (p.n_chosen < x->r) {
        if (!wc_find_doubtful(&p, f, wc_conflicts_most(x->r))) return wc_invalid("bloom-conflicts");
        wc_settle(&p, f, x->r);
    }
    for (i = 0; i < p.n_positives; i++)
        if (p.chosen[i]) x->out[n++] = p.positives[i];
    return wc_ok();
}

/* index/bloom.md */
static inline wc_status wc_bloom_filter(const wc_index *x) {
    uint64_t count, positives = 0, group, work;
    unsigned policy;
    wc_bloom f;
    if (x->len < 24 || x->len % 8) return wc_malformed("bloom-length");
    f.stream = wc_u64(x->at);
    count = wc_u32(x->at + 8);
    f.k = x->at[12];
    policy = x->at[13];
    f.filter = x->at + 16;
    f.bytes = x->len - 16;
    if (wc_u16(x->at + 14)) return wc_malformed("bloom-header");
    if (f.k == 0 || f.k > 32) return wc_malformed("bloom-windows");
    if (policy > 6) return wc_refuse(WC_UNSUPPORTED, "bloom-policy");
    if (f.stream && policy != 2 && policy != 3) return wc_malformed("bloom-header");
    if (count == 0 || count > x->r || (count != x->r && policy != 1)) return wc_invalid("bloom-count");
    work = wc_ceil(x->d, 8) * f.k;
    if (policy == 2) work += x->d;
    if (policy == 3) work += 5 * f.k * wc_min(x->d, wc_positives_most(x->r));
    WC_TRY(wc_add_work(x, work));
    for (group = 0; 64 * group < x->d; group++) positives += wc_ones(wc_bloom_group(&f, group, x->d));
    if (positives < x->r || (policy == 1 && positives != x->r)) return wc_invalid("bloom-positives");
    if (policy == 3) return wc_bloom_p2(x, &f, positives);
    wc_bloom_choose(x, &f, policy, positives);
    return wc_ok();
}

/* State of a context, and state of the coder and the walk (index/context.md). */
typedef struct wc_learned {
    uint32_t q, n;
} wc_learned;

enum { WC_BLOCKS = 0, WC_PARTS = 12, WC_FIRST_BITS = WC_PARTS + 12 * 9, WC_CONTEXTS = WC_FIRST_BITS + 24 * 31 };

typedef struct wc_walk {
    wc_learned contexts[WC_CONTEXTS];
    uint16_t history[16384];
    const uint8_t *code;
    uint64_t size, taken; /* bytes of the code; S */
    uint64_t value;
    uint32_t width, window, activity;
    uint64_t *out;
    uint64_t n, r, period, element;
    int too_long; /* S - 3 exceeds the bytes of the code */
} wc_walk;

/* Scratch size of every entry: that of the walk, the largest except for p2. */
enum { WC_SCRATCH = sizeof(wc_walk) };

/* Return the class of a number (index/context.md, The walk). */
static inline unsigned wc_class(unsigned n) {
    static const uint8_t from[11] = {1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 26};
    unsigned c = 0;
    while (c < 11 && from[c] <= n) c++;
    return c;
}

/* Set the initial state of all contexts (index/context.md, The coder). Position 8 of a part or bit means none. */
static inline void wc_begin_contexts(wc_walk *w, uint64_t d, uint64_t r) {
    uint64_t delta = wc_min(wc_max((r << 22) / d, 64), ((uint64_t)1 << 22) - 64), gamma, i;
    gamma = wc_min(8 * delta, (uint64_t)1 << 21);
    for (i = 0; i < WC_CONTEXTS; i++) {
        uint64_t q, m;
        if (i < WC_PARTS) {
            q = wc_min(64 * delta, (uint64_t)1 << 21);
        } else if (i < WC_FIRST_BITS) {
            m = (i - WC_PARTS) / 12;
            q = m == 8 ? gamma : wc_max(gamma, ((uint64_t)1 << 21) / (8 - m));
        } else {
            m = (i - WC_FIRST_BITS) / 24;
            q = m >= 8 ? delta : wc_max(delta, ((uint64_t)1 << 22) / (8 - m));
        }
        w->contexts[i].q = (uint32_t)q;
        w->contexts[i].n = 1;
    }
}

/* Consume a byte. The value is clamped far above every width: once it reaches the width, it stays above it. */
static inline void wc_take_byte(wc_walk *w) {
    uint64_t byte = w->taken < w->size ? w->code[w->taken] : 0;
    w->taken++;
    w->value = wc_min(w->value << 8 | byte, (uint64_t)1 << 40);
    if (w->taken > w->size + 3) w->too_long = 1;
}

/* Decode one bit (index/context.md, The coder). */
static inline int wc_code_bit(wc_walk *w, unsigned context) {
    wc_learned *learned = &w->contexts[context];
    uint32_t bound = (w->width >> 16) * (uint32_t)wc_min(wc_max(learned->q >> 6, 1), 65535);
    uint32_t rate = 131072 / (2 * learned->n + 3);
    int present = w->value < bound;
    if (present) {
        w->width = bound;
        learned->q += (uint32_t)((uint64_t)(((uint32_t)1 << 22) - 1 - learned->q) * rate >> 16);
    } else {
        w->value -= bound;
        w->width -= bound;
        learned->q -= (uint32_t)(((uint64_t)learned->q * rate + 65535) >> 16);
    }
    if (learned->n < 255) learned->n++;
    while (w->width < (uint32_t)1 << 24) {
        w->width <<= 8;
        wc_take_byte(w);
    }
    return present;
}

/* Return whether the histories of `n` columns, from that of the next element on, are 0. */
static inline int wc_quiet(const wc_walk *w, uint64_t n) {
    uint64_t i, column = w->period ? w->element % w->period : 0;
    for (i = 0; w->period && i < n; i++)
        if (w->history[column + i]) return 0;
    return 1;
}

/* Return the context of an element's bit; k is its position in a promised part, 8 without a promise. */
static inline unsigned wc_bit_context(const wc_walk *w, unsigned k) {
    unsigned history = w->period ? w->history[w->element % w->period] : 0, n = wc_ones(history);
    if (k == 8 && history) k = 9 + 2 * ((unsigned)wc_min(n, 3 + n / 2) - 1) + (history & 1);
    return WC_FIRST_BITS + 24 * k + 2 * wc_class(wc_ones(w->window)) + (w->window & 1);
}

/* Decode the elements of one part that is not skipped; return the number of those present. */
static inline unsigned wc_walk_elements(wc_walk *w, unsigned size, int promised) {
    unsigned k, present = 0;
    for (k = 0; k < size && w->n < w->r && !w->too_long; k++, w->element++) {
        unsigned bit = promised && k + 1 == size ? 1 : (unsigned)wc_code_bit(w, wc_bit_context(w, promised ? k : 8));
        w->window = w->window << 1 | bit;
        if (w->period) {
            uint16_t *history = &w->history[w->element % w->period];
            *history = (uint16_t)(*history << 1 | bit);
        }
        if (!bit) continue;
        promised = 0;
        present++;
        w->out[w->n++] = w->element;
    }
    return present;
}

/* Decode one block of up to 64 elements (index/context.md, The walk, steps 1 to 3). */
static inline void wc_walk_block(wc_walk *w, unsigned size) {
    unsigned at, part, present = 0;
    int promised = wc_quiet(w, size);
    if (promised && !wc_code_bit(w, WC_BLOCKS + wc_class((unsigned)wc_min(w->activity, 32)))) {
        w->window = 0;
        w->activity /= 2;
        w->element += size;
        return;
    }
    for (at = part = 0; at < size && w->n < w->r && !w->too_long; at += 8, part++) {
        unsigned n = (unsigned)wc_min(8, size - at), found;
        int quiet = wc_quiet(w, n), implied = promised && at + n == size;
        unsigned context = WC_PARTS + 12 * (promised ? part : 8) + wc_class(wc_ones(w->window));
        if (quiet && !implied && !wc_code_bit(w, context)) {
            w->window = w->window << n;
            w->element += n;
            continue;
        }
        found = wc_walk_elements(w, n, quiet);
        if (found) promised = 0;
        present += found;
    }
    w->activity = (w->activity + present + 1) / 2;
}

/* index/context.md */
static inline wc_status wc_context(const wc_index *x) {
    wc_walk *w = (wc_walk *)(void *)x->scratch;
    uint64_t d = x->d, period;
    unsigned i;
    if (x->len < 3) return wc_malformed("context-length");
    period = wc_u16(x->at);
    if (period && (period < 64 || period > 16384)) return wc_malformed("context-period");
    WC_TRY(wc_add_work(x, d));
    memset(w, 0, sizeof *w);
    wc_begin_contexts(w, d, x->r);
    w->code = x->at + 2;
    w->size = x->len - 2;
    w->out = x->out;
    w->r = x->r;
    w->period = period;
    w->width = 0xFFFFFFFFu;
    for (i = 0; i < 4; i++) wc_take_byte(w);
    while (w->element < d && w->n < w->r && !w->too_long) {
        uint64_t left = period ? wc_min(period - w->element % period, d - w->element) : d - w->element;
        wc_walk_block(w, (unsigned)wc_min(64, left));
    }
    if (w->too_long) return wc_malformed("context-length");
    if (w->n < w->r) return wc_invalid("context-count");
    if (w->taken - 3 < w->size) return wc_malformed("context-length");
    return w->value >> 24 ? wc_malformed("context-end") : wc_ok();
}

/* Decode the index section of an entry (SPEC section 7, row 47). */
static inline wc_status wc_read_index(unsigned id, const wc_index *x) {
    switch (id) {
    case 1: return wc_raw_index(x);
    case 2: return wc_bitmap(x);
    case 3: return wc_rice(x);
    case 4: return wc_rle(x);
    case 5: return wc_delta(x);
    case 6: return wc_huffman(x);
    case 7: return wc_elias_fano(x);
    case 8: return wc_binned(x);
    case 9: return wc_bloom_filter(x);
    case 10: return wc_structured(x);
    case 11: return wc_context(x);
    default: return wc_refuse(WC_UNSUPPORTED, "index-codec");
    }
}

static inline int wc_knows_index(unsigned id) { return id >= 1 && id <= 11; }

/* ---- Value codecs ------------------------------------------------------------------------------------------ */

/* Copy numbers of 1, 2, 4 or 8 bytes from the wire. */
static inline void wc_copy_numbers(uint8_t *out, const uint8_t *at, uint64_t n, unsigned width) {
    uint64_t i, bits;
    unsigned j;
    for (i = 0; i < n; i++) {
        uint32_t word;
        uint16_t half;
        for (bits = 0, j = 0; j < width; j++) bits |= (uint64_t)at[width * i + j] << 8 * j;
        word = (uint32_t)bits;
        half = (uint16_t)bits;
        if (width == 8)
            memcpy(out + 8 * i, &bits, 8);
        else if (width == 4)
            memcpy(out + 4 * i, &word, 4);
        else if (width == 2)
            memcpy(out + 2 * i, &half, 2);
        else
            out[i] = (uint8_t)bits;
    }
}

/* value/raw.md */
static inline wc_status wc_raw(wc_bytes s, wc_values out, unsigned id) {
    unsigned width = id == 1 ? wc_width(out.dtype) : 2, part = wc_number_width(out.dtype);
    uint64_t i;
    if (id != 1 && out.dtype != WC_FLOAT32 && out.dtype != WC_FLOAT64) return wc_invalid("raw-dtype");
    if (s.size != (uint64_t)out.r * width) return wc_malformed("raw-length");
    if (id == 1) {
        wc_copy_numbers(out.at, s.at, s.size / part, part);
        return wc_ok();
    }
    for (i = 0; i < out.r; i++)
        wc_put_single(out, i, id == 2 ? wc_from_half(wc_u16(s.at + 2 * i)) : wc_u16(s.at + 2 * i) << 16);
    return wc_ok();
}

/* The least scale of qsgd other than 0: 2^-100. */
#define WC_LEAST_SCALE 0x0D800000u

/* value/qsgd.md */
static inline wc_status wc_qsgd(wc_bytes s, wc_values out) {
    uint64_t bucket, n_buckets, i;
    const uint8_t *codes;
    unsigned n, half;
    if (s.size < 8) return wc_malformed("qsgd-length");
    n = s.at[0];
    bucket = wc_u32(s.at + 4);
    if (n < 2 || n > 8 || s.at[1] > 1 || wc_u16(s.at + 2)) return wc_malformed("qsgd-parameter");
    if (bucket % 16 || bucket < 16 || bucket > (uint64_t)1 << 24) return wc_malformed("qsgd-parameter");
    n_buckets = wc_ceil(out.r, bucket);
    if (s.size != 8 + 4 * n_buckets + wc_lane_bytes(out.r, WC_PACKED, n)) return wc_malformed("qsgd-length");
    for (i = 0; i < n_buckets; i++) {
        uint32_t scale = wc_u32(s.at + 8 + 4 * i);
        if (scale > wc_largest(out.dtype) || (scale && scale < WC_LEAST_SCALE)) return wc_invalid("qsgd-scale");
    }
    codes = s.at + 8 + 4 * n_buckets;
    if (!wc_lane_padding(codes, out.r, WC_PACKED, n)) return wc_malformed("qsgd-padding");
    half = (1u << (n - 1)) - 1;
    for (i = 0; i < out.r; i++) {
        uint32_t scale = wc_u32(s.at + 8 + 4 * (i / bucket));
        unsigned code = wc_lane_number(codes, out.r, WC_PACKED, n, i);
        volatile float step = wc_float(scale) / (float)half, value;
        if (code > 2 * half || (scale == 0 && code != half)) return wc_invalid("qsgd-code");
        value = (float)((int)code - (int)half) * step;
        if (code == 2 * half) value = wc_float(scale);
        if (code == 0) value = -wc_float(scale);
        wc_put_single(out, i, wc_float_bits(value));
    }
    return wc_ok();
}

/* Read a scale or mean, binary64 for float64 and binary32 otherwise; return 0 if it is not finite in the type. */
static inline int wc_one_number(const uint8_t *at, int dtype, int sign_allowed, uint64_t *element) {
    uint64_t bits = wc_element(at, dtype == WC_FLOAT64 ? dtype : WC_FLOAT32);
    uint64_t sign = (uint64_t)1 << (dtype == WC_FLOAT64 ? 63 : 31);
    uint64_t largest = dtype == WC_FLOAT64 ? (uint64_t)0x7FEFFFFF << 32 | 0xFFFFFFFFu : wc_largest(dtype);
    *element = dtype == WC_FLOAT64 ? bits : wc_in_type(dtype, (uint32_t)bits);
    return (sign_allowed ? bits & ~sign : bits) <= largest;
}

/* value/sign-scale.md */
static inline wc_status wc_sign_scale(wc_bytes s, wc_values out) {
    uint64_t head = out.dtype == WC_FLOAT64 ? 8 : 4, scale, i;
    wc_bits signs;
    if (s.size != head + wc_ceil(out.r, 8)) return wc_malformed("sign-scale-length");
    if (!wc_one_number(s.at, out.dtype, 0, &scale)) return wc_invalid("sign-scale-scale");
    signs = wc_stream(s.at + head, s.size - head);
    if (!wc_rest_zero(&signs, out.r)) return wc_malformed("sign-scale-padding");
    for (i = 0; i < out.r; i++) wc_put_bits(out, i, wc_take(&signs, 1) ? scale | wc_sign_bit(out.dtype) : scale);
    return wc_ok();
}

/* value/mean.md */
static inline wc_status wc_mean(wc_bytes s, wc_values out) {
    uint64_t mean, i;
    if (s.size != (out.dtype == WC_FLOAT64 ? 8 : 4)) return wc_malformed("mean-length");
    if (!wc_one_number(s.at, out.dtype, 1, &mean)) return wc_invalid("mean-number");
    for (i = 0; i < out.r; i++) wc_put_bits(out, i, mean);
    return wc_ok();
}

/* value/offset-float.md */
static inline wc_status wc_offset_float(wc_bytes s, wc_values out) {
    uint64_t base, most, i;
    unsigned n, shift, positive, negative;
    const uint8_t *codes;
    if (s.size < 12) return wc_malformed("offset-float-length");
    n = s.at[0];
    if (n < 2 || n > 16 || s.at[1] > 23 || wc_u16(s.at + 2)) return wc_malformed("offset-float-parameter");
    if (s.size != 12 + wc_lane_bytes(out.r, WC_PACKED, n)) return wc_malformed("offset-float-length");
    codes = s.at + 12;
    shift = 23 - s.at[1];
    positive = wc_u16(s.at + 4);
    negative = wc_u16(s.at + 6);
    base = wc_u32(s.at + 8);
    most = wc_max(wc_max(positive, negative), 1);
    if (base == 0 || positive + negative >= 1u << n || (base + most - 1) << shift > wc_largest(out.dtype))
        return wc_invalid("offset-float-range");
    if (!wc_lane_padding(codes, out.r, WC_PACKED, n)) return wc_malformed("offset-float-padding");
    for (i = 0; i < out.r; i++) {
        uint32_t code = wc_lane_number(codes, out.r, WC_PACKED, n, i), bits = 0;
        if (code > positive + negative) return wc_invalid("offset-float-code");
        if (code > positive)
            bits = (uint32_t)(base + code - positive - 1) << shift | 0x80000000u;
        else if (code)
            bits = (uint32_t)(base + code - 1) << shift;
        wc_put_single(out, i, bits);
    }
    return wc_ok();
}

/* Store the value of a digit 0, 1 or 2: minus the scale, +0, plus the scale. */
static inline void wc_put_digit(wc_values out, uint64_t i, unsigned digit, uint64_t scale) {
    wc_put_bits(out, i, digit == 1 ? 0 : digit == 2 ? scale : scale | wc_sign_bit(out.dtype));
}

/* Return digit 0 … 4 of a byte of five digits of base 3, the first the most significant. */
static inline unsigned wc_digit(unsigned byte, unsigned place) {
    static const unsigned weight[5] = {81, 27, 9, 3, 1};
    return byte / weight[place] % 3;
}

/* value/terngrad.md */
static inline wc_status wc_terngrad(wc_bytes s, wc_values out) {
    uint64_t n_codes = wc_ceil(out.r, 5), i, scale, start;
    const uint8_t *codes;
    unsigned place;
    if (s.size != 4 + n_codes) return wc_malformed("terngrad-length");
    codes = s.at + 4;
    if (wc_u32(s.at) > wc_largest(out.dtype)) return wc_invalid("terngrad-scale");
    for (i = 0; i < n_codes; i++)
        if (codes[i] > 242) return wc_invalid("terngrad-byte");
    scale = wc_in_type(out.dtype, wc_u32(s.at));
    for (start = 0; start < out.r; start += 320) {
        uint64_t m = wc_min(320, out.r - start), n = wc_ceil(m, 5);
        for (i = 0; i < n; i++)
            for (place = 0; place < 5; place++) {
                unsigned digit = wc_digit(codes[start / 5 + i], place);
                uint64_t value = place * n + i;
                if (value < m)
                    wc_put_digit(out, start + value, digit, scale);
                else if (digit != 1)
                    return wc_malformed("terngrad-padding");
            }
    }
    return wc_ok();
}

/* Return whether a byte of 3lc represents codes of 121, but fewer than 14 of them. */
static inline int wc_short_run(unsigned byte) { return byte == 121 || (byte >= 243 && byte < 255); }

/* value/3lc.md */
static inline wc_status wc_three_lc(wc_bytes s, wc_values out) {
    uint64_t n_codes = wc_ceil(out.r, 5), codes = 0, i, n = 0, scale;
    unsigned place;
    if (s.size < 4) return wc_malformed("3lc-length");
    if (wc_u32(s.at) > wc_largest(out.dtype)) return wc_invalid("3lc-scale");
    for (i = 4; i < s.size; i++) codes += s.at[i] < 243 ? 1 : s.at[i] - 241u;
    if (codes != n_codes) return wc_malformed("3lc-count");
    for (i = 4; i + 1 < s.size; i++)
        if (wc_short_run(s.at[i]) && (wc_short_run(s.at[i + 1]) || s.at[i + 1] == 255)) return wc_malformed("3lc-run");
    scale = wc_in_type(out.dtype, wc_u32(s.at));
    for (i = 4; i < s.size; i++) {
        unsigned byte = s.at[i], times = byte < 243 ? 1 : byte - 241;
        if (byte >= 243) byte = 121;
        for (; times; times--)
            for (place = 0; place < 5; place++, n++) {
                if (n < out.r)
                    wc_put_digit(out, n, wc_digit(byte, place), scale);
                else if (wc_digit(byte, place) != 1)
                    return wc_malformed("3lc-padding");
            }
    }
    return wc_ok();
}

/* Return a key with the order of binary32 numbers, -0 below +0. */
static inline uint32_t wc_ordered(uint32_t bits) { return bits >> 31 ? ~bits : bits | 0x80000000u; }

/* Huffman codes of value/sketchml.md */
static inline wc_status wc_sketchml_huffman(wc_bytes s, wc_values out, const uint8_t *means, unsigned buckets) {
    static const char *const refusals[4] = {"sketchml-padding", "sketchml-code-length", "sketchml-window",
                                            "sketchml-code"};
    uint64_t n_spans = wc_ceil(out.r, WC_SPAN), half = (buckets + 1) / 2, sum = 0, c, i;
    const uint8_t *lengths, *span;
    wc_code code;
    if (s.size < half + 2 * (n_spans - 1)) return wc_malformed("sketchml-length");
    WC_TRY(wc_build_code(&code, s.at, 0, buckets, refusals));
    lengths = s.at + half;
    for (c = 0; c + 1 < n_spans; c++) sum += wc_u16(lengths + 2 * c);
    span = lengths + 2 * (n_spans - 1);
    if (sum > s.size - half - 2 * (n_spans - 1)) return wc_malformed("sketchml-length");
    for (c = 0; c < n_spans; c++) {
        uint64_t n = wc_min(WC_SPAN, out.r - c * WC_SPAN);
        wc_bits bits = wc_stream(span, c + 1 < n_spans ? wc_u16(lengths + 2 * c) : (uint64_t)(s.at + s.size - span));
        for (i = 0; i < n && bits.pos <= 8 * bits.size; i++)
            wc_put_single(out, c * WC_SPAN + i, wc_u32(means + 4 * wc_symbol(&code, &bits)));
        if (wc_ceil(bits.pos, 8) != bits.size) return wc_malformed("sketchml-span");
        if (!wc_rest_zero(&bits, bits.pos)) return wc_malformed("sketchml-padding");
        span += bits.size;
    }
    return wc_ok();
}

/* value/sketchml.md */
static inline wc_status wc_sketchml(wc_bytes s, wc_values out) {
    unsigned buckets, n, b;
    const uint8_t *means;
    wc_bytes codes;
    uint64_t i;
    if (s.size < 4) return wc_malformed("sketchml-length");
    buckets = s.at[1] + 1u;
    if (s.at[0] > 1 || wc_u16(s.at + 2) || (s.at[0] == 1 && buckets == 1)) return wc_malformed("sketchml-form");
    if (s.size < 4 + 4 * (uint64_t)buckets) return wc_malformed("sketchml-length");
    means = s.at + 4;
    for (b = 0; b < buckets; b++) {
        uint32_t mean = wc_u32(means + 4 * b);
        if ((mean & 0x7FFFFFFF) > wc_largest(out.dtype)) return wc_invalid("sketchml-mean");
        if (b && wc_ordered(mean) <= wc_ordered(wc_u32(means + 4 * (b - 1)))) return wc_invalid("sketchml-mean");
    }
    codes.at = means + 4 * buckets;
    codes.size = s.size - 4 - 4 * (uint64_t)buckets;
    if (s.at[0] == 1) return wc_sketchml_huffman(codes, out, means, buckets);
    n = wc_bit_length(buckets - 1);
    if (codes.size != wc_lane_bytes(out.r, WC_PACKED, n)) return wc_malformed("sketchml-length");
    if (!wc_lane_padding(codes.at, out.r, WC_PACKED, n)) return wc_malformed("sketchml-padding");
    for (i = 0; i < out.r; i++) {
        unsigned bucket = wc_lane_number(codes.at, out.r, WC_PACKED, n, i);
        if (bucket >= buckets) return wc_invalid("sketchml-bucket");
        wc_put_single(out, i, wc_u32(means + 4 * bucket));
    }
    return wc_ok();
}

/* ---- Value codec error-bounded (value/error-bounded.md) -------------------------------------------------- */

enum { WC_EB_ROWS = 26, WC_EB_SYMBOLS = 49, WC_EB_ESCAPE = 48, WC_EB_BINS = 32, WC_EB_LANES = 32 };

/* Frequencies and starts of all rows. */
typedef struct wc_eb_table {
    uint16_t frequency[WC_EB_ROWS][WC_EB_SYMBOLS];
    uint16_t start[WC_EB_ROWS][WC_EB_SYMBOLS + 1];
} wc_eb_table;

/* State of a lane, and the value that it reads. */
typedef struct wc_eb_lane {
    uint32_t x;
    uint64_t fast, slow, at; /* at: position of the next value in the chunk */
    uint32_t chance[2];
    unsigned alike, sign, symbol, bits;
    uint32_t k;
} wc_eb_lane;

/* A section after the checks that precede its blocks. */
typedef struct wc_eb {
    unsigned form;
    float first, step, place;
    wc_eb_table *table;
} wc_eb;

/* The default levels of each row, for forms 1 and 2: that of the escape, then those of the bins (Frequencies). */
static inline const char *wc_eb_default_levels(unsigned form, unsigned row) {
    static const char *const defaults[2][WC_EB_ROWS] = {
        {"ff0179ceeffefefffffffefffefffffffffffefffffffefefffffffffffe",
         "ff0156afc8ededffffdd",
         "ff0151a0caedfdfd",
         "ff014e99c6d7effffefefffffffffffe",
         "ff014b8cb4d1dcfde2feed",
         "ff024788adbfdef6f0fffe",
         "ff024582a8b3d2fefeeef4fefffe",
         "ff02407ea2b7cffae1eafefefefffefffffe",
         "ff033b789fbec8dff7dfeef1fffffffe",
         "f903356f9cb2ced0ddcffef6fefe",
         "ff042f6793aabbd4d3d7fef9fefefefffffe",
         "ff06295b819eafc5cdd3d8e1fff5fefefffe",
         "fe08234e718da2b8c1c0cfdbefecfef9fefefffefefffe",
         "ff0a1f43658095a8b6b6cddae4d3fefefefefefffefffffffffe",
         "ff0d1e36536e8699a9aebecfd9d5f4f8fefefefefefe",
         "fe111e2e445b71829193a7bbc3cbcadefeeefefefefffffefefffe",
         "fe15202b38495d6e7e8195abb6b8c5d4e1dce8fefefefefffefefffffffffefe",
         "ff1b2229313c4e5c696b8295a8adc3d4e4eaf5fefefefefe",
         "fe20262c3137404a5453677b8b8da4b8cbc9d5e1e8fbfefefefefefefffe",
         "fe272b2f33373c41473f53637173879aa9abc0c6d6dbebf4fefafefefffefefe",
         "fe2c303336393c404339444f595a6f839395aebecac8d6e5fef8fefefefefefe",
         "fe3437393b3d3f4144373c424843576877788ca0afafc3cdd4d9f1f6fefefe",
         "fe3a3c3e4042434546383c3f433a47535f5f7487989bb3bfcecddceffef9fefefe",
         "f24143454647494a4c3d3f4144383d444b46576778788c9eb0adc0c3d2deebf3fb",
         "fe3e3e3f4041434445373b3e423944515e648095a5a9bed0dcd8ebf9fefefefefe",
         "fe454446474848494a3b3d3f41353b424b4a63798c93acbdcacce2effef6fefefe"},
        {"ff019ae8f5fefefefefefefefefefefefefefffefefe",
         "ff015a",
         "ff0160",
         "ff0155",
         "ff014effe1",
         "ff014dca",
         "ff0248c3",
         "ff023ec6ffe4",
         "ff0338a3d0bed5ddddf3",
         "ff0430a3dbfffffffffffffffff1",
         "ff05298cd5d8ecfff2daf2fffe",
         "ff072276bbdbd3eefff5f5fffe",
         "ff091c63a0d0ddf1effefefefefffefffffffff6",
         "ff0d165082afc8e0eee7fefefefdfefffffe",
         "ff14113e628aa3b6c7cde8f1fefefefefefefffffffffffe",
         "ff1f0c37547c9cb3c6cbe3f4fefefefefefefefefefffffffffffe",
         "ff1f14253b5a758ba1aac2d1e5ebfafefefefefffefefffffffffefe",
         "ff241c242f3d4d5d747f9aafc2c4ddeafbfefefefffefefe",
         "ff2a22272d343e4a5b647f95abb2c9d8e9f4fefefefefefefefefffffffffe",
         "ff32292c2f34393f464252637c839eb2c5c5dfeef7fbfefefffefffe",
         "ff382f313436393c4036414e636d8aa4bac4def4fefefefefffffefe",
         "fe4138383a3b3d3e403439404947596b7c839fb2bcc4deeefefefefefffefe",
         "fe483f404142434445373a3e4138414c58608199acb4cce1f1f1fefefefefe",
         "fe504546474848494a3b3d3f41343a414a4a6275868faabdc7cfeaf6fefefefe",
         NULL,
         NULL}
    };
    return defaults[form == 2 && row < 24][row];
}

static inline unsigned wc_hex(char c) { return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10); }

/* Return the bin of a symbol, and its number of symbols. */
static inline unsigned wc_eb_bin(unsigned symbol, unsigned *symbols) {
    *symbols = symbol >= 8 && symbol < 16 ? 2 : symbol >= 16 && symbol < 32 ? 4 : 1;
    return symbol < 8 ? symbol : symbol < 16 ? 8 + (symbol - 8) / 2 : symbol < 32 ? 12 + (symbol - 16) / 4 : symbol - 16;
}

/* Return the weight of a level (Frequencies). */
static inline uint32_t wc_eb_weight(unsigned level) {
    static const uint32_t powers[16] = {1048576, 1004120, 961548, 920782, 881744, 844361, 808563, 774282,
                                        741455,  710020,  679917, 651091, 623487, 597053, 571740, 547500};
    return level == 255 ? 0 : powers[level % 16] >> level / 16;
}

/* Compute one row of frequencies from 33 levels; the last is that of the escape (Frequencies). */
static inline void wc_eb_row(wc_eb_table *table, unsigned row, const uint8_t *levels) {
    uint16_t *frequency = table->frequency[row], *start = table->start[row];
    uint32_t total = 0, sum = 0;
    unsigned s, symbols, most = 0;
    for (s = 0; s <= WC_EB_BINS; s++) total += wc_eb_weight(levels[s]);
    for (s = 0; s < WC_EB_SYMBOLS; s++) {
        uint32_t weight = wc_eb_weight(levels[wc_eb_bin(s, &symbols)]);
        frequency[s] = (uint16_t)(s == WC_EB_ESCAPE);
        if (weight) frequency[s] = (uint16_t)wc_max(1, (uint64_t)4096 * weight / ((uint64_t)total * symbols));
        sum += frequency[s];
        if (frequency[s] > frequency[most]) most = s;
    }
    frequency[most] = (uint16_t)(frequency[most] + 4096 - sum);
    for (start[0] = 0, s = 0; s < WC_EB_SYMBOLS; s++) start[s + 1] = (uint16_t)(start[s] + frequency[s]);
}

/* Read the rows of a section, with the checks from mask to the levels, and move past them. */
static inline wc_status wc_eb_rows(wc_eb *eb, uint32_t mask, const uint8_t **at, const uint8_t *end) {
    uint8_t levels[WC_EB_BINS + 1];
    unsigned row, i;
    if (mask >> WC_EB_ROWS) return wc_malformed("error-bounded-rows");
    for (row = 0; row < WC_EB_ROWS; row++) {
        memset(levels, 255, sizeof levels);
        if (mask >> row & 1) {
            unsigned used;
            if (end - *at < 2) return wc_malformed("error-bounded-length");
            used = (*at)[0];
            levels[WC_EB_BINS] = (*at)[1];
            if (used > WC_EB_BINS) return wc_malformed("error-bounded-rows");
            if (end - *at - 2 < (ptrdiff_t)used) return wc_malformed("error-bounded-length");
            memcpy(levels, *at + 2, used);
            *at += 2 + used;
        } else {
            const char *defaults = wc_eb_default_levels(eb->form, row);
            for (i = 0; defaults[2 * i]; i++)
                levels[i ? i - 1 : (unsigned)WC_EB_BINS] = (uint8_t)(16 * wc_hex(defaults[2 * i]) + wc_hex(defaults[2 * i + 1]));
        }
        wc_eb_row(eb->table, row, levels);
    }
    return wc_ok();
}

/* Return the first value of block b of r values (Section). */
static inline uint64_t wc_eb_block(uint64_t r, uint64_t b) { return r * b / wc_ceil(r, (uint64_t)1 << 17); }

static inline unsigned wc_eb_lanes(uint64_t m) { return m >= 16384 ? 32 : m >= 1024 ? 4 : 1; }

/* Check the parts of all blocks before any is decoded. */
static inline wc_status wc_eb_blocks(uint64_t r, const uint8_t *at, const uint8_t *end) {
    uint64_t b, n = wc_ceil(r, (uint64_t)1 << 17), words;
    unsigned lanes, i;
    for (b = 0; b < n; b++) {
        if (end - at < 5) return wc_malformed("error-bounded-length");
        if (at[0] > 57) return wc_malformed("error-bounded-start");
        words = wc_u32(at + 1);
        at += 5;
        lanes = wc_eb_lanes(wc_eb_block(r, b + 1) - wc_eb_block(r, b));
        if (end - at < (ptrdiff_t)(4 * lanes)) return wc_malformed("error-bounded-length");
        for (i = 0; i < lanes; i++)
            if (wc_u32(at + 4 * i) >> 16 == 0) return wc_invalid("error-bounded-state");
        at += 4 * lanes;
        if ((uint64_t)(end - at) < 2 * words) return wc_malformed("error-bounded-length");
        at += 2 * words;
    }
    return at == end ? wc_ok() : wc_malformed("error-bounded-length");
}

/* Remove an item with a frequency and a start from a lane's state (Steps). */
static inline void wc_eb_advance(wc_eb_lane *lane, uint32_t frequency, uint32_t start) {
    lane->x = frequency * (lane->x >> 12) + lane->x % 4096 - start;
}

/* Read a number of b ≤ 12 bits. */
static inline uint32_t wc_eb_number(wc_eb_lane *lane, unsigned b) {
    uint32_t slot = lane->x % 4096, number = slot >> (12 - b);
    wc_eb_advance(lane, (uint32_t)4096 >> b, number << (12 - b));
    return number;
}

/* Consume words for the lanes of a step that need one, highest lane first; return 0 if none remains. */
static inline int wc_eb_refill(wc_eb_lane *lanes, unsigned n, const uint8_t *words, uint64_t *left) {
    for (; n-- > 0;) {
        if (lanes[n].x >> 16) continue;
        if (*left == 0) return 0;
        lanes[n].x = lanes[n].x << 16 | wc_u16(words + 2 * --*left);
    }
    return 1;
}

/* Phase 1 of a lane: read the symbol, the base of k and the number of bits (Symbols, Lanes and contexts). */
static inline void wc_eb_symbol(wc_eb_lane *lane, const wc_eb_table *table) {
    uint64_t w = (lane->fast + lane->slow) / 2 + 4;
    unsigned o = wc_bit_length(w) - 1, half = (unsigned)(w >> (o - 1) & 1), s = 0, group;
    unsigned row = o <= 13 ? 2 * (o - 2) + half : 24 + half, shift = o <= 13 ? 0 : o - 13;
    uint32_t slot = lane->x % 4096;
    while (slot >= table->start[row][s + 1]) s++;
    wc_eb_advance(lane, table->frequency[row][s], table->start[row][s]);
    lane->symbol = s;
    group = s < 32 ? 0 : (s - 32) / 4;
    lane->k = s < 32 ? s : (4 + (s - 32) % 4) << (3 + group);
    lane->bits = (s < 32 ? 0 : 3 + group) + shift;
    lane->k <<= shift;
    if (s == WC_EB_ESCAPE) {
        lane->k = 0;
        lane->bits = 24;
    }
}

/* Phase 4 of a lane: read the sign of its value. */
static inline void wc_eb_sign(wc_eb_lane *lane) {
    uint32_t *chance = &lane->chance[lane->alike];
    uint32_t c = (uint32_t)wc_min(wc_max(*chance / 16, 32), 4064);
    unsigned alike = lane->x % 4096 < c;
    wc_eb_advance(lane, alike ? c : 4096 - c, alike ? 0 : c);
    *chance = alike ? *chance + (65536 - *chance) / 64 : *chance - *chance / 64;
    lane->sign ^= !alike;
    lane->alike = alike;
}

/* Store a value (Values), and update the means of the lane. */
static inline void wc_eb_put(const wc_eb *eb, wc_eb_lane *lane, wc_values out) {
    uint32_t bits = 0;
    uint64_t k = wc_min(lane->k, ((uint64_t)1 << 20) - 1);
    if (eb->form == 1 || lane->k) {
        volatile float x = (float)(lane->k - (eb->form == 2)); /* volatile: one rounding per operation */
        x = x + eb->place;
        x = x * eb->step;
        x = eb->first + x;
        bits = (uint32_t)wc_min(wc_float_bits(x), wc_largest(out.dtype)) | (uint32_t)lane->sign << 31;
    }
    wc_put_single(out, lane->at++, bits);
    lane->fast = lane->fast - (lane->fast + 7) / 8 + 128 * k;
    lane->slow = lane->slow - (lane->slow + 31) / 32 + 32 * k;
}

/* Read one value of each of the first n lanes (Steps); return 0 if a word is missing. */
static inline int wc_eb_step(const wc_eb *eb, wc_eb_lane *lanes, unsigned n, const uint8_t *words, uint64_t *left,
                             wc_values out) {
    unsigned i, most = 0;
    for (i = 0; i < n; i++) {
        wc_eb_symbol(&lanes[i], eb->table);
        most = (unsigned)wc_max(most, lanes[i].bits);
    }
    if (!wc_eb_refill(lanes, n, words, left)) return 0;
    if (most) {
        for (i = 0; i < n; i++) lanes[i].k += wc_eb_number(&lanes[i], (unsigned)wc_min(lanes[i].bits, 12));
        if (!wc_eb_refill(lanes, n, words, left)) return 0;
    }
    if (most > 12) {
        for (i = 0; i < n; i++)
            lanes[i].k += wc_eb_number(&lanes[i], lanes[i].bits > 12 ? lanes[i].bits - 12 : 0) << 12;
        if (!wc_eb_refill(lanes, n, words, left)) return 0;
    }
    for (i = 0; i < n; i++)
        if (eb->form == 1 || lanes[i].k) wc_eb_sign(&lanes[i]);
    if (!wc_eb_refill(lanes, n, words, left)) return 0;
    for (i = 0; i < n; i++) wc_eb_put(eb, &lanes[i], out);
    return 1;
}

/* Decode one block of m values, the first at position `first`, and move past it. */
static inline wc_status wc_eb_decode(const wc_eb *eb, uint64_t first, uint64_t m, const uint8_t **at, wc_values out) {
    wc_eb_lane lanes[WC_EB_LANES];
    unsigned n = wc_eb_lanes(m), start = **at, i;
    uint64_t left = wc_u32(*at + 1), done, count = left;
    const uint8_t *words = *at + 5 + 4 * n;
    memset(lanes, 0, sizeof lanes);
    for (i = 0; i < n; i++) {
        lanes[i].x = wc_u32(*at + 5 + 4 * i);
        lanes[i].fast = lanes[i].slow = ((uint64_t)(2 + start % 2) << (start / 2 + 1)) - 4;
        lanes[i].chance[0] = lanes[i].chance[1] = 1u << 15;
        lanes[i].at = first + m / n * i + wc_min(i, m % n);
    }
    for (done = 0; done < m; done += n)
        if (!wc_eb_step(eb, lanes, (unsigned)wc_min(n, m - done), words, &left, out))
            return wc_invalid("error-bounded-code");
    for (i = 0; i < n; i++)
        if (left || lanes[i].x != (uint32_t)1 << 16) return wc_invalid("error-bounded-code");
    *at = words + 2 * count;
    return wc_ok();
}

/* Form 0: the unchanged elements, none NaN or infinite. */
static inline wc_status wc_eb_plain(wc_bytes s, wc_values out) {
    unsigned width = wc_width(out.dtype);
    uint64_t i, infinite = out.dtype == WC_FLOAT64   ? (uint64_t)0x7FF << 52
                           : out.dtype == WC_FLOAT16 ? 0x7C00
                                                     : (uint64_t)0x7F80 << (8 * width - 16);
    if (s.size != 1 + (uint64_t)out.r * width) return wc_malformed("error-bounded-length");
    for (i = 0; i < out.r; i++) {
        uint64_t bits = wc_element(s.at + 1 + width * i, out.dtype);
        if ((bits & infinite) == infinite) return wc_invalid("error-bounded-value");
        wc_put_bits(out, i, bits);
    }
    return wc_ok();
}

/* value/error-bounded.md */
static inline wc_status wc_error_bounded(wc_bytes s, wc_values out, uint8_t *scratch) {
    const uint8_t *at, *end = s.at + s.size;
    uint32_t first, step, place;
    uint64_t b;
    wc_eb eb;
    if (s.at[0] == 0) return wc_eb_plain(s, out);
    if (s.at[0] > 2) return wc_malformed("error-bounded-form");
    if (s.size < 17) return wc_malformed("error-bounded-length");
    first = wc_u32(s.at + 1);
    step = wc_u32(s.at + 5);
    place = wc_u32(s.at + 9);
    if (first > wc_largest(out.dtype) || step < 0x00800000 || step >= 0x7F800000 || place > 0x3F800000)
        return wc_invalid("error-bounded-number");
    at = s.at + 17;
    eb.form = s.at[0];
    eb.first = wc_float(first);
    eb.step = wc_float(step);
    eb.place = wc_float(place);
    eb.table = (wc_eb_table *)(void *)scratch;
    WC_TRY(wc_eb_rows(&eb, wc_u32(s.at + 13), &at, end));
    WC_TRY(wc_eb_blocks(out.r, at, end));
    for (b = 0; b < wc_ceil(out.r, (uint64_t)1 << 17); b++) {
        uint64_t from = wc_eb_block(out.r, b);
        WC_TRY(wc_eb_decode(&eb, from, wc_eb_block(out.r, b + 1) - from, &at, out));
    }
    return wc_ok();
}

/* Decode the value section of an entry (SPEC section 7, row 48). */
static inline wc_status wc_read_value(unsigned id, wc_bytes s, wc_values out, uint8_t *scratch) {
    switch (id) {
    case 1:
    case 2:
    case 3: return wc_raw(s, out, id);
    case 4: return wc_qsgd(s, out);
    case 5: return wc_sign_scale(s, out);
    case 8: return wc_offset_float(s, out);
    case 11: return wc_terngrad(s, out);
    case 12: return wc_three_lc(s, out);
    case 13: return wc_sketchml(s, out);
    case 14: return wc_error_bounded(s, out, scratch);
    case 15: return wc_mean(s, out);
    default: return wc_refuse(WC_UNSUPPORTED, "value-codec");
    }
}

static inline int wc_knows_value(unsigned id) {
    return (id >= 1 && id <= 5) || id == 8 || (id >= 11 && id <= 15);
}

/* ---- Transforms (SPEC 3.5) -------------------------------------------------------------------------------- */

enum { WC_RFFT = 1, WC_DCT = 2 };

/* The numbers of a coefficient; an element has one. */
static inline unsigned wc_components(unsigned domain) { return domain == WC_RFFT ? 2 : 1; }

/* The type of an entry's values: coefficients are binary32, or binary64 if the elements are. */
static inline int wc_stored_type(unsigned domain, int dtype) {
    return domain && dtype != WC_FLOAT64 ? WC_FLOAT32 : dtype;
}

/* Return m: the least number ≥ n without prime factors but 2, 3 and 5; 0 for 0. n is below 2^60. */
static inline uint64_t wc_smooth(uint64_t n) {
    uint64_t five, three, m, least = n ? UINT64_MAX : 0;
    for (five = 1; five < 2 * n; five *= 5)
        for (three = five; three < 2 * n; three *= 3) {
            for (m = three; m < n;) m *= 2;
            least = wc_min(least, m);
        }
    return least;
}

/* Return the number of coefficients of n elements. */
static inline uint64_t wc_coefficients(unsigned domain, uint64_t n) {
    uint64_t m = wc_smooth(n);
    return domain == WC_RFFT && m ? m / 2 + 1 : m;
}

/* Return the square root of x ≥ 1, by Newton's iteration from above. */
static inline double wc_square_root(double x) {
    double root = x, next = (x + 1) / 2;
    while (next < root) {
        root = next;
        next = (root + x / root) / 2;
    }
    return root;
}

/* Compute the cosine and the sine of t/n of a turn, t < n ≤ 2^62: series for an angle of at most 1/8, and its images. */
static inline void wc_turn(uint64_t t, uint64_t n, double *cosine, double *sine) {
    uint64_t quarter = 4 * t / n, rest = 4 * t % n;
    int steep = rest > n - rest;
    double x = 1.5707963267948966 * ((double)(steep ? n - rest : rest) / (double)n), z = x * x, c = 1, s = 1, swap;
    int i;
    for (i = 18; i; i -= 2) {
        c = 1 - z / (i * (i - 1)) * c;
        s = 1 - z / (i * (i + 1)) * s;
    }
    s *= x;
    if (steep != (int)(quarter & 1)) {
        swap = c;
        c = s;
        s = swap;
    }
    *cosine = quarter == 1 || quarter == 2 ? -c : c;
    *sine = quarter >= 2 ? -s : s;
}

/* One pass of wc_fourier: from `stride` transforms of n points to p times as many of n/p points. */
static inline void wc_fourier_pass(const double *x, double *y, uint64_t n, uint64_t stride, unsigned p) {
    uint64_t part = n / p, j, k;
    double root[5][2];
    unsigned r, t;
    for (t = 0; t < p; t++) wc_turn(t, p, &root[t][0], &root[t][1]);
    for (j = 0; j < part; j++)
        for (r = 0; r < p; r++) {
            double c, s;
            wc_turn(j * r, n, &c, &s);
            for (k = 0; k < stride; k++) {
                double *out = y + 2 * (k + stride * (p * j + r)), re = 0, im = 0;
                for (t = 0; t < p; t++) {
                    const double *in = x + 2 * (k + stride * (j + t * part)), *w = root[t * r % p];
                    re += in[0] * w[0] - in[1] * w[1];
                    im += in[0] * w[1] + in[1] * w[0];
                }
                out[0] = re * c - im * s;
                out[1] = re * s + im * c;
            }
        }
}

/* Compute Σ x_k · e^(2πi·jk/m) for j = 0 … m - 1 (Stockham). x and y have m complex numbers; return the one with the result. */
static inline double *wc_fourier(double *x, double *y, uint64_t m) {
    uint64_t n = m, stride = 1;
    while (n > 1) {
        unsigned p = n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
        double *swap = x;
        wc_fourier_pass(x, y, n, stride, p);
        x = y;
        y = swap;
        n /= p;
        stride *= p;
    }
    return x;
}

/* Add a bin to the input of wc_fourier (transform/rfft.md). The imaginary part of a bin of real numbers has no effect. */
static inline void wc_add_bin(double *x, uint64_t k, double re, double im, int real) {
    x[2 * k] = re;
    x[2 * k + 1] = real ? 0 : im;
}

/* Add coefficient k of a cosine transform (transform/dct.md) to the input of wc_fourier, x_k = e^(πik/2m) · (c_k - i·c_(m-k)).
 * The output has the elements of even numbers in their order, then those of odd numbers in reverse. */
static inline void wc_add_cosine(double *x, uint64_t m, uint64_t k, double number) {
    double c, s;
    wc_turn(k, 4 * m, &c, &s);
    x[2 * k] += number * c;
    x[2 * k + 1] += number * s;
    if (k == 0) return;
    wc_turn(m - k, 4 * m, &c, &s);
    x[2 * (m - k)] += number * s;
    x[2 * (m - k) + 1] -= number * c;
}

/* Return the number in a binary32 or binary64 of the machine's byte order. */
static inline double wc_real(const uint8_t *at, int dtype) {
    float single;
    double number;
    if (dtype == WC_FLOAT64) {
        memcpy(&number, at, 8);
        return number;
    }
    memcpy(&single, at, 4);
    return single;
}

/* Store an element: clamped to the largest finite magnitude, and rounded once. The rounding to binary32 is to odd if
 * another one follows. */
static inline void wc_put_real(wc_values out, uint64_t i, double x) {
    double most = wc_float(wc_largest(out.dtype)), single;
    uint32_t bits;
    if (out.dtype == WC_FLOAT64) {
        memcpy(out.at + 8 * i, &x, 8);
        return;
    }
    x = x > most ? most : x < -most ? -most : x;
    single = (float)x;
    bits = wc_float_bits((float)x);
    if (out.dtype != WC_FLOAT32 && single != x) bits = (bits - (x < 0 ? single < x : single > x)) | 1;
    wc_put_single(out, i, bits);
}

/* ---- The container: rows 1 to 32 of SPEC section 7 ---------------------------------------------------------- */

enum { WC_PREFIX = 24, WC_ENTRY = 40 };
enum { WC_FUSED = 1, WC_NAMES = 2, WC_SHAPES = 3, WC_TRANSFORM = 4, WC_TAG = 5 };
enum { WC_TYPES = 6, WC_META = 7, WC_SCHEMA = 8, WC_SEMANTICS = 9, WC_JOINED = 10, WC_BASE = 11 };
enum { WC_BY_CLASS = 12, WC_ZSTD = 7, WC_STEPS = 16, WC_STEPS_ZSTD = 17 }; /* those that readers of patches add */
enum { WC_IN_RECORD = 14 }; /* element type in the table of a tensor whose type is in the record of types */

#define WC_CHUNK ((uint32_t)1 << 24)

/* Read row i of the table (SPEC 2.2). */
static inline wc_entry wc_entry_at(const wc_reader *reader, uint64_t i) {
    const uint8_t *p = reader->data + WC_PREFIX + WC_ENTRY * i;
    wc_entry e;
    e.key = wc_u32(p);
    e.crc = wc_u32(p + 4);
    e.base = wc_u64(p + 8);
    e.d = wc_u32(p + 16);
    e.r = wc_u32(p + 20);
    e.index_len = wc_u32(p + 24);
    e.value_len = wc_u32(p + 28);
    e.map_len = wc_u32(p + 32);
    e.dtype = p[36] & 15;
    e.domain = p[36] >> 4;
    e.index = p[37];
    e.value = p[38];
    e.map = p[39];
    return e;
}

static inline uint64_t wc_padded(uint64_t n) { return n + wc_pad8(n); }

static inline uint64_t wc_payload_bytes(const wc_entry *e) {
    return wc_padded(e->index_len) + wc_padded(e->value_len) + wc_padded(e->map_len);
}

/* Check the 24 bytes of a container's prefix, without its table: rows 2 to 6. */
static inline wc_status wc_check_prefix(const uint8_t *p, uint64_t max_bytes) {
    uint64_t total = wc_u64(p + 16);
    if (wc_u32(p) != 0x1A4357F7) return wc_malformed("magic");
    if (p[4] != 1) return wc_refuse(WC_UNSUPPORTED, "major");
    if (p[6] & 0xFE) return wc_refuse(WC_UNSUPPORTED, "flags");
    if (total > max_bytes) return wc_refuse(WC_LIMIT_EXCEEDED, "max-bytes");
    return total < WC_PREFIX || total % 8 ? wc_malformed("total-length") : wc_ok();
}

/* Check the prefix and the lengths of table and extension block: rows 1 to 13. */
static inline wc_status wc_check_layout(wc_reader *reader) {
    const uint8_t *p = reader->data;
    uint64_t total, head, ext_len = 0, sum, i;
    int extended;
    uint32_t crc;
    if (reader->size < WC_PREFIX) return wc_refuse(WC_TRUNCATED, "prefix");
    WC_TRY(wc_check_prefix(p, reader->limits.max_bytes));
    extended = p[6] & 1;
    reader->n_entries = wc_u32(p + 8);
    total = wc_u64(p + 16);
    if (reader->size < total) return wc_refuse(WC_TRUNCATED, "container");
    if (reader->size > total) return wc_malformed("trailing");
    if (reader->n_entries > reader->limits.max_entries) return wc_refuse(WC_LIMIT_EXCEEDED, "max-entries");
    head = WC_PREFIX + WC_ENTRY * (uint64_t)reader->n_entries;
    if (head + (extended ? 8 : 0) > total) return wc_malformed("table-length");
    if (extended) {
        ext_len = wc_u32(p + head);
        if (ext_len < 16 || ext_len % 8 || head + ext_len > total) return wc_malformed("extension-length");
    }
    crc = wc_crc32(wc_crc32(0, p, 12), p + 16, head + ext_len - 16);
    if (crc != wc_u32(p + 12)) return wc_refuse(WC_CHECKSUM_MISMATCH, "head-checksum");
    reader->payload = sum = head + ext_len;
    for (i = 0; i < reader->n_entries && sum <= total; i++) {
        wc_entry e = wc_entry_at(reader, i);
        sum += wc_payload_bytes(&e);
    }
    return sum == total ? wc_ok() : wc_malformed("layout");
}

/* Check the rules for the chunks of one key (SPEC 2.2), for row i and the one before it. */
static inline int wc_chunk_fits(const wc_reader *reader, uint64_t i) {
    wc_entry e = wc_entry_at(reader, i), before;
    uint32_t most = WC_CHUNK / wc_components(e.domain);
    if (e.d > most) return 0;
    if (i == 0) return e.base == 0;
    before = wc_entry_at(reader, i - 1);
    if (e.key != before.key) return e.base == 0;
    return before.d == most && e.base == before.base + before.d && e.d > 0 && e.dtype == before.dtype &&
           e.domain == before.domain;
}

/* Return whether the value codec of an entry is supported for its element type. Of the codecs that carry the types of the
 * record, readers without a base have raw alone (SPEC 4.2). */
static inline int wc_carries(const wc_reader *reader, const wc_entry *e) {
    if (reader->based && e->value == WC_STEPS) return 1;
    if (reader->zstd && (e->value == WC_ZSTD || e->value == WC_STEPS_ZSTD)) return 1;
    return e->dtype == WC_IN_RECORD ? e->value == 1 : wc_knows_value(e->value);
}

/* Check the table: rows 14 to 24, each over all entries before the next one. */
static inline wc_status wc_check_row(const wc_reader *reader, int row, uint64_t i) {
    wc_entry e = wc_entry_at(reader, i), before;
    switch (row) {
    case 14:
        if (i == 0) return wc_ok();
        before = wc_entry_at(reader, i - 1);
        if (e.key > before.key || (e.key == before.key && e.base > before.base)) return wc_ok();
        return wc_invalid("table-order");
    case 15:
        if (e.dtype == WC_IN_RECORD || (e.dtype >= 1 && e.dtype <= 4)) return wc_ok();
        return wc_refuse(WC_UNSUPPORTED, "dtype");
    case 16:
        if (e.domain == 0 || (e.domain <= WC_DCT && e.dtype != WC_IN_RECORD)) return wc_ok();
        return wc_refuse(WC_UNSUPPORTED, "domain");
    case 17:
        if (wc_knows_index(e.index) || (reader->based && e.index == WC_BY_CLASS)) return wc_ok();
        return wc_refuse(WC_UNSUPPORTED, "index-codec");
    case 18: return wc_carries(reader, &e) ? wc_ok() : wc_refuse(WC_UNSUPPORTED, "value-codec");
    case 19: return e.map == 0 ? wc_ok() : wc_refuse(WC_UNSUPPORTED, "map-codec");
    case 20: return e.r <= e.d ? wc_ok() : wc_invalid("count");
    case 21: return wc_chunk_fits(reader, i) ? wc_ok() : wc_invalid("chunks");
    case 22:
        return (e.index_len == 0) == (e.r == 0 || e.r == e.d) ? wc_ok() : wc_malformed("index-length");
    case 23: return (e.value_len == 0) == (e.r == 0) ? wc_ok() : wc_malformed("value-length");
    default: return e.map_len == 0 ? wc_ok() : wc_malformed("map-length");
    }
}

/* The entries of one key. */
typedef struct wc_chunks {
    wc_entry first;
    uint64_t end; /* number of the next key's first entry */
    uint64_t d, r; /* sums */
} wc_chunks;

static inline wc_chunks wc_chunks_at(const wc_reader *reader, uint64_t i) {
    wc_chunks chunks;
    chunks.first = wc_entry_at(reader, i);
    chunks.d = chunks.r = 0;
    for (chunks.end = i; chunks.end < reader->n_entries; chunks.end++) {
        wc_entry e = wc_entry_at(reader, chunks.end);
        if (e.key != chunks.first.key) break;
        chunks.d += e.d;
        chunks.r += e.r;
    }
    return chunks;
}

static inline wc_status wc_check_table(const wc_reader *reader) {
    uint64_t i, stored = 0, dense = 0;
    int row;
    for (row = 14; row <= 24; row++)
        for (i = 0; i < reader->n_entries; i++) WC_TRY(wc_check_row(reader, row, i));
    for (i = 0; i < reader->n_entries;) {
        wc_chunks chunks = wc_chunks_at(reader, i);
        uint64_t elements = chunks.d * wc_components(chunks.first.domain);
        stored += chunks.first.domain == 0 ? chunks.r : chunks.r ? elements : 0;
        dense += elements;
        i = chunks.end;
    }
    if (stored > reader->limits.max_elements) return wc_refuse(WC_LIMIT_EXCEEDED, "max-elements");
    if (dense > reader->limits.max_dense) return wc_refuse(WC_LIMIT_EXCEEDED, "max-dense");
    if (!reader->based && !(reader->schema && (reader->schema->tensors || reader->schema->count == 0)) &&
        wc_ceil(stored, reader->size) > reader->limits.max_expansion)
        return wc_refuse(WC_LIMIT_EXCEEDED, "max-expansion");
    return wc_ok();
}

/* A record of the extension block (SPEC 2.3). */
typedef struct wc_record {
    unsigned type, flags;
    wc_bytes body;
    const uint8_t *next;
} wc_record;

static inline wc_record wc_record_at(const uint8_t *at) {
    wc_record record;
    record.type = wc_u16(at);
    record.flags = wc_u16(at + 2);
    record.body.at = at + 8;
    record.body.size = wc_u32(at + 4);
    record.next = NULL; /* set once it is known to be within the block */
    return record;
}

/* Return whether a record has a known type. Types of version 1.1 are known only with their flags. */
static inline int wc_is_known(const wc_reader *reader, const wc_record *record) {
    if (record->type == WC_BASE) return reader->based && record->flags == 1;
    if (record->type == WC_META || record->type == WC_SCHEMA) return record->flags == 0;
    if (record->type >= WC_TYPES && record->type <= WC_JOINED) return record->flags == 1;
    return record->type >= WC_FUSED && record->type <= WC_TAG;
}

/* Read the record at a position, if it fits the rest of the block: row 28. */
static inline int wc_record_fits(const uint8_t *at, const uint8_t *end, wc_record *record) {
    unsigned type;
    if (end - at < 8) return 0;
    *record = wc_record_at(at);
    type = record->type;
    if (wc_padded(record->body.size) > (uint64_t)(end - at - 8)) return 0;
    record->next = at + 8 + wc_padded(record->body.size);
    if (record->flags > 1) return 0;
    if (type >= WC_FUSED && type <= WC_TAG && record->flags != (type == WC_FUSED || type == WC_TRANSFORM)) return 0;
    return wc_all_zero(record->body.at + record->body.size, wc_pad8(record->body.size));
}

/* Read the records of the extension block: rows 28 to 30. */
static inline wc_status wc_check_records(wc_reader *reader) {
    const uint8_t *block = reader->data + WC_PREFIX + WC_ENTRY * (uint64_t)reader->n_entries, *at;
    const uint8_t *end = reader->data + reader->payload;
    uint32_t n, i;
    unsigned type = 0;
    wc_record record;
    if (block == end) return wc_ok();
    n = wc_u32(block + 4);
    if (n == 0) return wc_malformed("extension-record");
    for (i = 0, at = block + 8; i < n; i++, at = record.next)
        if (!wc_record_fits(at, end, &record)) return wc_malformed("extension-record");
    if (at != end) return wc_malformed("extension-record");
    for (i = 0, at = block + 8; i < n; i++, at = record.next) {
        wc_record_fits(at, end, &record);
        if (i && record.type <= type) return wc_invalid("extension-order");
        type = record.type;
    }
    for (i = 0, at = block + 8; i < n; i++, at = record.next) {
        wc_record_fits(at, end, &record);
        if (wc_is_known(reader, &record))
            reader->records[record.type] = record.body;
        else if (record.flags & 1)
            return wc_refuse(WC_UNSUPPORTED, "extension");
    }
    return wc_ok();
}

/* Check the lengths of the fused record: row 31. Counts the members except the first of each group. */
static inline wc_status wc_check_fused_record(wc_reader *reader) {
    wc_bytes body = reader->records[WC_FUSED];
    uint64_t n_groups, i, at = 8;
    if (!body.at) return wc_ok();
    if (body.size < 8) return wc_malformed("fused-record");
    n_groups = wc_u32(body.at);
    if (n_groups == 0 || wc_u32(body.at + 4)) return wc_malformed("fused-record");
    for (i = 0; i < n_groups; i++) {
        uint64_t n_members;
        if (body.size - at < 8) return wc_malformed("fused-record");
        n_members = wc_u32(body.at + at + 4);
        at += 8;
        if (n_members < 2 || body.size - at < 8 * n_members) return wc_malformed("fused-record");
        at += 8 * n_members;
        reader->n_others += (uint32_t)(n_members - 1);
    }
    return at == body.size ? wc_ok() : wc_malformed("fused-record");
}

/* Check the length of the joined record, and the number of tensors: rows 31a and 32. Counts the members except the first of
 * each vector. */
static inline wc_status wc_check_joined_record(wc_reader *reader) {
    wc_bytes body = reader->records[WC_JOINED];
    uint64_t at;
    if (body.at && (body.size == 0 || body.size % 16)) return wc_malformed("joined-record");
    for (at = 0; at < body.size; at += 16) reader->n_others += wc_u32(body.at + at + 4) != wc_u32(body.at + at);
    if (reader->n_entries + (uint64_t)reader->n_others > reader->limits.max_entries)
        return wc_refuse(WC_LIMIT_EXCEEDED, "max-entries");
    return wc_ok();
}

/* Return the size of a buffer that holds `bytes` bytes after alignment. */
static inline uint64_t wc_aligned(uint64_t bytes) { return wc_padded(bytes) + 7; }

static inline uint8_t *wc_align(void *buffer) {
    uint8_t *at = (uint8_t *)buffer;
    return at + (8 - (uintptr_t)at % 8) % 8;
}

static inline void wc_begin(wc_reader *reader, const void *data, size_t size, const wc_limits *limits,
                            const wc_schema *schema) {
    memset(reader, 0, sizeof *reader);
    reader->data = (const uint8_t *)data;
    reader->size = size;
    reader->limits = limits ? *limits : wc_default_limits();
    reader->schema = schema;
}

/* Rows 1 to 32, and the number of tensors. */
static inline wc_status wc_check_head(wc_reader *reader) {
    uint64_t i;
    WC_TRY(wc_check_layout(reader));
    WC_TRY(wc_check_table(reader));
    WC_TRY(wc_check_records(reader));
    WC_TRY(wc_check_fused_record(reader));
    WC_TRY(wc_check_joined_record(reader));
    for (i = 0; i < reader->n_entries; i++) reader->n_tensors += wc_entry_at(reader, i).base == 0;
    reader->n_tensors += reader->n_others;
    reader->describe_size = wc_aligned((uint64_t)reader->n_tensors * sizeof(wc_tensor));
    return wc_ok();
}

/* Open a container of exactly `size` bytes. NULL limits are the defaults; a NULL schema expects nothing.
 * On WC_OK, `describe_size` is the buffer size of wc_describe. */
static inline wc_status wc_open(wc_reader *reader, const void *data, size_t size, const wc_limits *limits,
                                const wc_schema *schema) {
    wc_begin(reader, data, size, limits, schema);
    return wc_check_head(reader);
}

/* ---- The tensors: rows 33 to 44 ------------------------------------------------------------------------------ */

/* Return the first entry of a key, or n_entries. */
static inline uint64_t wc_find_key(const wc_reader *reader, uint32_t key) {
    uint64_t low = 0, high = reader->n_entries;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (wc_entry_at(reader, middle).key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reader->n_entries && wc_entry_at(reader, low).key == key ? low : reader->n_entries;
}

/* One group of the fused record (SPEC 3.3). */
typedef struct wc_group {
    uint32_t key, n;
    const uint8_t *members;
    uint64_t next; /* offset of the next group in the body */
} wc_group;

static inline wc_group wc_group_at(const wc_reader *reader, uint64_t at) {
    const uint8_t *p = reader->records[WC_FUSED].at + at;
    wc_group group;
    group.key = wc_u32(p);
    group.n = wc_u32(p + 4);
    group.members = p + 8;
    group.next = at + 8 + 8 * (uint64_t)group.n;
    return group;
}

/* Check a group against the table: its entry, the order and the sizes of its members. */
static inline int wc_group_fits(const wc_reader *reader, const wc_group *group) {
    uint64_t at = wc_find_key(reader, group->key), sum = 0;
    uint32_t i;
    if (at == reader->n_entries || wc_u32(group->members) != group->key) return 0;
    if (at + 1 < reader->n_entries && wc_entry_at(reader, at + 1).key == group->key) return 0;
    if (wc_entry_at(reader, at).domain) return 0;
    for (i = 0; i < group->n; i++) {
        const uint8_t *member = group->members + 8 * (uint64_t)i;
        if (i && wc_u32(member) <= wc_u32(member - 8)) return 0;
        if (i && wc_find_key(reader, wc_u32(member)) < reader->n_entries) return 0;
        sum += wc_u32(member + 4);
    }
    return sum == wc_entry_at(reader, at).d;
}

/* Return whether n numbers differ from each other; sorts them. */
static inline int wc_distinct(uint64_t *x, uint64_t n) {
    uint64_t i;
    wc_sort(x, n);
    for (i = 1; i < n; i++)
        if (x[i] == x[i - 1]) return 0;
    return 1;
}

/* Row 33. `keys`, the buffer of the tensors, gets the *count keys that are not in the table. */
static inline wc_status wc_check_fused(const wc_reader *reader, uint64_t *keys, uint64_t *count) {
    uint64_t at, n = 0, i, last = 0;
    *count = 0;
    for (at = 8; at < reader->records[WC_FUSED].size;) {
        wc_group group = wc_group_at(reader, at);
        if (at > 8 && group.key <= last) return wc_invalid("fused");
        if (!wc_group_fits(reader, &group)) return wc_invalid("fused");
        for (i = 1; i < group.n; i++) keys[n++] = wc_u32(group.members + 8 * i);
        last = group.key;
        at = group.next;
    }
    *count = n;
    return wc_distinct(keys, n) ? wc_ok() : wc_invalid("fused");
}

/* One row of the joined record (SPEC 3.11). */
typedef struct wc_member {
    uint32_t first, key;
    uint64_t size;
} wc_member;

static inline wc_member wc_member_at(const wc_reader *reader, uint64_t at) {
    const uint8_t *p = reader->records[WC_JOINED].at + at;
    wc_member member;
    member.first = wc_u32(p);
    member.key = wc_u32(p + 4);
    member.size = wc_u64(p + 8);
    return member;
}

/* Check the first row of a vector, which is at `at`: it has the key of entries of coefficients, and another row follows. */
static inline int wc_vector_fits(const wc_reader *reader, wc_member member, uint64_t at) {
    uint64_t entry = wc_find_key(reader, member.first), next = at + 16;
    if (member.key != member.first || entry == reader->n_entries || !wc_entry_at(reader, entry).domain) return 0;
    return next < reader->records[WC_JOINED].size && wc_member_at(reader, next).first == member.first;
}

/* Row 33a. `keys` has those of the fused record that are not in the table; the record's own are added. */
static inline wc_status wc_check_joined(const wc_reader *reader, uint64_t *keys, uint64_t n) {
    uint64_t at;
    wc_member last = {0, 0, 0};
    for (at = 0; at < reader->records[WC_JOINED].size; at += 16) {
        wc_member member = wc_member_at(reader, at);
        if (at == 0 || member.first != last.first) {
            if ((at && member.first < last.first) || !wc_vector_fits(reader, member, at)) return wc_invalid("joined");
        } else {
            if (member.key <= last.key || wc_find_key(reader, member.key) < reader->n_entries)
                return wc_invalid("joined");
            keys[n++] = member.key;
        }
        last = member;
    }
    return wc_distinct(keys, n) ? wc_ok() : wc_invalid("joined");
}

/* Row 34, and the tensors of table, fused record and joined record. Keys are distinct, so all must be below n. */
static inline wc_status wc_place_tensors(wc_reader *reader) {
    uint64_t i, at;
    for (i = 0; i < reader->n_entries; i++)
        if (wc_entry_at(reader, i).key >= reader->n_tensors) return wc_invalid("keys");
    for (at = 8; at < reader->records[WC_FUSED].size;) {
        wc_group group = wc_group_at(reader, at);
        for (i = 1; i < group.n; i++)
            if (wc_u32(group.members + 8 * i) >= reader->n_tensors) return wc_invalid("keys");
        at = group.next;
    }
    for (at = 0; at < reader->records[WC_JOINED].size; at += 16)
        if (wc_member_at(reader, at).key >= reader->n_tensors) return wc_invalid("keys");
    for (i = 0; i < reader->n_tensors; i++) memset(&reader->tensors[i], 0, sizeof(wc_tensor));
    for (i = 0; i < reader->n_entries; i++) {
        wc_entry e = wc_entry_at(reader, i);
        reader->tensors[e.key].dtype = e.dtype;
        reader->tensors[e.key].domain = e.domain;
        reader->tensors[e.key].size += e.d;
        reader->tensors[e.key].ndim = 1;
    }
    for (at = 8; at < reader->records[WC_FUSED].size;) {
        wc_group group = wc_group_at(reader, at);
        for (i = 0; i < group.n; i++) {
            wc_tensor *tensor = &reader->tensors[wc_u32(group.members + 8 * i)];
            tensor->dtype = reader->tensors[group.key].dtype;
            tensor->size = wc_u32(group.members + 8 * i + 4);
            tensor->ndim = 1;
        }
        at = group.next;
    }
    for (at = 0; at < reader->records[WC_JOINED].size; at += 16) {
        wc_member member = wc_member_at(reader, at);
        wc_tensor *tensor = &reader->tensors[member.key];
        tensor->dtype = reader->tensors[member.first].dtype;
        tensor->domain = reader->tensors[member.first].domain;
        tensor->ndim = 1;
    }
    return wc_ok();
}

/* Divide the elements of the joined vectors among their members: row 36. */
static inline wc_status wc_divide(wc_reader *reader) {
    uint64_t at, left = 0;
    for (at = 0; at < reader->records[WC_JOINED].size; at += 16) {
        wc_member member = wc_member_at(reader, at);
        if (member.key == member.first) {
            if (left) return wc_invalid("transform");
            left = reader->tensors[member.first].size;
        }
        if (member.size > left) return wc_invalid("transform");
        left -= member.size;
        reader->tensors[member.key].size = member.size;
    }
    return left ? wc_invalid("transform") : wc_ok();
}

/* Return n of the row at `row` of the transform record: the elements of a tensor or of a joined vector. */
static inline uint64_t wc_elements_at(const wc_reader *reader, uint64_t row) {
    return wc_u64(reader->records[WC_TRANSFORM].at + row + 8);
}

/* Rows 35 and 36: the elements of the tensors that are stored as coefficients (SPEC 3.5). */
static inline wc_status wc_check_transform(wc_reader *reader) {
    wc_bytes body = reader->records[WC_TRANSFORM];
    uint64_t i, n, row = 0;
    if (body.at && (body.size == 0 || body.size % 16)) return wc_malformed("transform-record");
    for (i = 0; i < body.size; i += 16)
        if (wc_u32(body.at + i + 4)) return wc_malformed("transform-record");
    for (i = 0; i < reader->n_entries;) {
        wc_chunks chunks = wc_chunks_at(reader, i);
        i = chunks.end;
        if (chunks.first.domain == 0) continue;
        if (row == body.size || wc_u32(body.at + row) != chunks.first.key) return wc_invalid("transform");
        n = wc_elements_at(reader, row);
        if (n > 2 * chunks.d || wc_coefficients(chunks.first.domain, n) != chunks.d) return wc_invalid("transform");
        reader->tensors[chunks.first.key].size = n;
        row += 16;
    }
    return row == body.size ? wc_divide(reader) : wc_invalid("transform");
}

/* Rows 36a to 36c: the types of the tensors of element type 14 (SPEC 3.6). */
static inline wc_status wc_check_types(wc_reader *reader) {
    wc_bytes body = reader->records[WC_TYPES];
    uint64_t at, i, row = 0;
    if (body.at && (body.size == 0 || body.size % 8)) return wc_malformed("types-record");
    for (at = 0; at < body.size; at += 8)
        if (wc_u16(body.at + at + 6)) return wc_malformed("types-record");
    for (i = 0; i < reader->n_tensors; i++) {
        if (reader->tensors[i].dtype != WC_IN_RECORD) continue;
        if (row == body.size || wc_u32(body.at + row) != i) return wc_invalid("types");
        reader->tensors[i].dtype = (uint16_t)wc_u16(body.at + row + 4);
        row += 8;
    }
    if (row != body.size) return wc_invalid("types");
    for (at = 8; at < reader->records[WC_FUSED].size;) {
        wc_group group = wc_group_at(reader, at);
        for (i = 1; i < group.n; i++)
            if (reader->tensors[wc_u32(group.members + 8 * i)].dtype != reader->tensors[group.key].dtype)
                return wc_invalid("types");
        at = group.next;
    }
    for (at = 0; at < body.size; at += 8)
        if (wc_u16(body.at + at + 4) < WC_INT8 || wc_u16(body.at + at + 4) > WC_FLOAT4_E2M1FN_X2)
            return wc_refuse(WC_UNSUPPORTED, "dtype");
    return wc_ok();
}

/* Return the length of the UTF-8 character at a position, or 0 if it is not in shortest form or a surrogate. */
static inline unsigned wc_character(const uint8_t *at, uint64_t left) {
    unsigned n = at[0] < 0x80 ? 1 : at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : (at[0] & 0xF0) == 0xE0 ? 3 : 4, i;
    if ((n == 4 && (at[0] < 0xF0 || at[0] > 0xF4)) || left < n) return 0;
    for (i = 1; i < n; i++)
        if ((at[i] & 0xC0) != 0x80) return 0;
    if ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] >= 0xA0)) return 0;
    if ((at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] >= 0x90)) return 0;
    return n;
}

static inline int wc_is_utf8(const uint8_t *at, uint64_t n) {
    while (n) {
        unsigned bytes = wc_character(at, n);
        if (!bytes) return 0;
        at += bytes;
        n -= bytes;
    }
    return 1;
}

/* Compare two names by their bytes: below 0, 0, above 0. */
static inline int wc_compare(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = shorter ? memcmp(a, b, shorter) : 0;
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* Rows 37 and 38 (SPEC 3.1). */
static inline wc_status wc_check_names(wc_reader *reader) {
    wc_bytes body = reader->records[WC_NAMES];
    uint64_t count, i, at, sum;
    if (!body.at) return wc_ok();
    if (body.size < 4) return wc_malformed("names-record");
    count = wc_u32(body.at);
    if (count == 0 || body.size - 4 < 2 * count) return wc_malformed("names-record");
    for (sum = 4 + 2 * count, i = 0; i < count; i++) sum += wc_u16(body.at + 4 + 2 * i);
    if (sum != body.size) return wc_malformed("names-record");
    if (count != reader->n_tensors) return wc_invalid("names");
    for (at = 4 + 2 * count, i = 0; i < count; i++) {
        wc_tensor *tensor = &reader->tensors[i];
        tensor->name = (const char *)body.at + at;
        tensor->name_len = wc_u16(body.at + 4 + 2 * i);
        if (!wc_is_utf8(body.at + at, tensor->name_len)) return wc_invalid("names");
        if (i && wc_compare(tensor[-1].name, tensor[-1].name_len, tensor->name, tensor->name_len) >= 0)
            return wc_invalid("names");
        at += tensor->name_len;
    }
    return wc_ok();
}

/* Return dimension i of a tensor, i < ndim. */
static inline uint64_t wc_dimension(const wc_tensor *tensor, unsigned i) {
    return tensor->dims ? wc_number(tensor->dims + i * tensor->width, tensor->width) : tensor->size;
}

/* Read one row of the shapes record at a position of its body: row 39. */
static inline int wc_shape_row(wc_bytes body, uint64_t at, uint32_t *key, wc_tensor *shape) {
    uint64_t largest = 0;
    unsigned i, least;
    if (body.size - at < 8 || wc_u16(body.at + at + 6)) return 0;
    *key = wc_u32(body.at + at);
    shape->ndim = body.at[at + 4];
    shape->width = body.at[at + 5];
    shape->dims = body.at + at + 8;
    if (shape->ndim == 1 || shape->ndim > 32 || shape->width > 8) return 0;
    if (body.size - at - 8 < (uint64_t)shape->ndim * shape->width) return 0;
    for (i = 0; i < shape->ndim; i++) largest = wc_max(largest, wc_dimension(shape, i));
    least = largest >> 32 ? 8 : largest >> 16 ? 4 : largest >> 8 ? 2 : 1;
    return shape->width == least;
}

/* Return whether a shape is that of a tensor of this size: row 40. */
static inline int wc_shape_fits(const wc_tensor *shape, uint64_t size) {
    uint64_t product = 1;
    unsigned i;
    int empty = 0;
    for (i = 0; i < shape->ndim; i++) {
        uint64_t dimension = wc_dimension(shape, i);
        if (dimension == 0)
            empty = 1;
        else if (dimension > ((uint64_t)1 << 56) / product)
            return 0;
        else
            product *= dimension;
    }
    return size == (empty ? 0 : product);
}

/* Rows 39 and 40 (SPEC 3.2). */
static inline wc_status wc_check_shapes(wc_reader *reader) {
    wc_bytes body = reader->records[WC_SHAPES];
    uint64_t at;
    uint32_t key = 0, last = 0;
    wc_tensor shape;
    if (!body.at) return wc_ok();
    if (body.size == 0) return wc_malformed("shapes-record");
    memset(&shape, 0, sizeof shape);
    for (at = 0; at < body.size; at += 8 + (uint64_t)shape.ndim * shape.width)
        if (!wc_shape_row(body, at, &key, &shape)) return wc_malformed("shapes-record");
    for (at = 0; at < body.size; at += 8 + (uint64_t)shape.ndim * shape.width) {
        wc_shape_row(body, at, &key, &shape);
        if ((at && key <= last) || key >= reader->n_tensors) return wc_invalid("shapes");
        if (!wc_shape_fits(&shape, reader->tensors[key].size)) return wc_invalid("shapes");
        reader->tensors[key].ndim = shape.ndim;
        reader->tensors[key].width = shape.width;
        reader->tensors[key].dims = shape.dims;
        last = key;
    }
    return wc_ok();
}

/* Read the text whose row is number `i` of the meta record, and whose name begins at `at` of its body. Return the
 * position of the next one's name. */
static inline uint64_t wc_text_at(wc_bytes body, uint64_t i, uint64_t at, wc_text *text) {
    const uint8_t *row = body.at + 4 + 12 * i;
    text->key = wc_u32(row);
    text->name.at = body.at + at;
    text->name.size = wc_u32(row + 4);
    text->value.at = text->name.at + text->name.size;
    text->value.size = wc_u32(row + 8);
    return at + text->name.size + text->value.size;
}

/* Read the next of `n_texts` texts after wc_describe. `i` and `at` are 0 before the first one. Return 0 after the last. */
static inline int wc_next_text(const wc_reader *reader, uint32_t *i, uint64_t *at, wc_text *text) {
    if (*i >= reader->n_texts) return 0;
    if (*i == 0) *at = 4 + 12 * (uint64_t)reader->n_texts;
    *at = wc_text_at(reader->records[WC_META], *i, *at, text);
    *i += 1;
    return 1;
}

/* Rows 41a and 41b (SPEC 3.7). */
static inline wc_status wc_check_meta(wc_reader *reader) {
    wc_bytes body = reader->records[WC_META];
    uint64_t count, i, at, sum;
    wc_text text, last;
    reader->n_texts = 0;
    if (!body.at) return wc_ok();
    if (body.size < 4) return wc_malformed("meta-record");
    count = wc_u32(body.at);
    if (count == 0 || count > 65536 || body.size - 4 < 12 * count) return wc_malformed("meta-record");
    for (sum = 4 + 12 * count, i = 0; i < count; i++)
        sum += (uint64_t)wc_u32(body.at + 8 + 12 * i) + wc_u32(body.at + 12 + 12 * i);
    if (sum != body.size) return wc_malformed("meta-record");
    memset(&last, 0, sizeof last);
    for (at = 4 + 12 * count, i = 0; i < count; i++) {
        at = wc_text_at(body, i, at, &text);
        if (text.key >= reader->n_tensors && text.key != WC_CONTAINER) return wc_invalid("meta");
        if (text.name.size == 0 || !wc_is_utf8(text.name.at, text.name.size)) return wc_invalid("meta");
        if (!wc_is_utf8(text.value.at, text.value.size)) return wc_invalid("meta");
        if (i && text.key < last.key) return wc_invalid("meta");
        if (i && text.key == last.key &&
            wc_compare((const char *)last.name.at, (size_t)last.name.size, (const char *)text.name.at,
                       (size_t)text.name.size) >= 0)
            return wc_invalid("meta");
        last = text;
    }
    reader->n_texts = (uint32_t)count;
    return wc_ok();
}

/* Rows 41c and 41d (SPEC 3.8). */
static inline wc_status wc_check_digest(wc_reader *reader) {
    reader->digest = reader->records[WC_SCHEMA];
    if (!reader->digest.at) return wc_ok();
    if (reader->digest.size != 32) return wc_malformed("schema-record");
    return reader->records[WC_NAMES].at ? wc_invalid("schema") : wc_ok();
}

/* Rows 41e to 41g (SPEC 3.9). */
static inline wc_status wc_check_semantics(wc_reader *reader) {
    wc_bytes body = reader->records[WC_SEMANTICS];
    uint64_t at;
    if (!body.at) return wc_ok();
    if (body.size == 0 || body.size % 8) return wc_malformed("semantics-record");
    for (at = 0; at < body.size; at += 8)
        if (wc_u32(body.at + at + 4) != WC_UNCHANGED) return wc_refuse(WC_UNSUPPORTED, "meaning");
    for (at = 0; at < body.size; at += 8) {
        uint32_t key = wc_u32(body.at + at);
        if (key >= reader->n_tensors || (at && key <= wc_u32(body.at + at - 8))) return wc_invalid("semantics");
        if (reader->tensors[key].domain) return wc_invalid("semantics");
        reader->tensors[key].absent = WC_UNCHANGED;
    }
    return wc_ok();
}

/* SHA-256 of a sequence of bytes (FIPS 180-4), for the digest of a schema. */
typedef struct wc_sha256 {
    uint32_t h[8];
    uint8_t block[64];
    uint64_t size; /* bytes so far */
} wc_sha256;

static inline uint32_t wc_rotate(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

static inline void wc_sha256_block(wc_sha256 *hash) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64], s[8];
    unsigned i;
    for (i = 0; i < 16; i++)
        w[i] = (uint32_t)hash->block[4 * i] << 24 | (uint32_t)hash->block[4 * i + 1] << 16 |
               (uint32_t)hash->block[4 * i + 2] << 8 | hash->block[4 * i + 3];
    for (; i < 64; i++)
        w[i] = w[i - 16] + (wc_rotate(w[i - 15], 7) ^ wc_rotate(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (wc_rotate(w[i - 2], 17) ^ wc_rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, hash->h, sizeof s);
    for (i = 0; i < 64; i++) {
        uint32_t t1 = s[7] + (wc_rotate(s[4], 6) ^ wc_rotate(s[4], 11) ^ wc_rotate(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        uint32_t t2 = (wc_rotate(s[0], 2) ^ wc_rotate(s[0], 13) ^ wc_rotate(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (i = 0; i < 8; i++) hash->h[i] += s[i];
}

static inline wc_sha256 wc_sha256_start(void) {
    static const uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    wc_sha256 hash;
    memset(&hash, 0, sizeof hash);
    memcpy(hash.h, h, sizeof h);
    return hash;
}

static inline void wc_sha256_add(wc_sha256 *hash, const void *bytes, uint64_t n) {
    const uint8_t *at = (const uint8_t *)bytes;
    uint64_t i;
    for (i = 0; i < n; i++) {
        hash->block[hash->size++ % 64] = at[i];
        if (hash->size % 64 == 0) wc_sha256_block(hash);
    }
}

/* Add the lower n bytes of a number, little-endian. */
static inline void wc_sha256_number(wc_sha256 *hash, uint64_t number, unsigned n) {
    uint8_t bytes[8];
    unsigned i;
    for (i = 0; i < n; i++) bytes[i] = (uint8_t)(number >> 8 * i);
    wc_sha256_add(hash, bytes, n);
}

static inline void wc_sha256_end(wc_sha256 *hash, uint8_t *digest) {
    uint64_t bits = 8 * hash->size;
    unsigned i;
    wc_sha256_add(hash, "\x80", 1);
    while (hash->size % 64 != 56) wc_sha256_add(hash, "", 1);
    for (i = 8; i-- > 0;) wc_sha256_number(hash, bits >> 8 * i, 1);
    for (i = 0; i < 32; i++) digest[i] = (uint8_t)(hash->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* Return whether the digest of a schema is the container's: row 44a (SPEC 3.8). */
static inline int wc_digest_fits(const wc_reader *reader) {
    wc_sha256 hash = wc_sha256_start();
    uint8_t digest[32];
    uint32_t i;
    unsigned j;
    wc_sha256_number(&hash, 1, 1);
    wc_sha256_number(&hash, reader->schema->count, 4);
    for (i = 0; i < reader->schema->count; i++) {
        const wc_expected *expected = &reader->schema->tensors[i];
        wc_sha256_number(&hash, expected->name_len, 4);
        wc_sha256_add(&hash, expected->name, expected->name_len);
        wc_sha256_number(&hash, (uint64_t)expected->dtype, 1);
        wc_sha256_number(&hash, expected->ndim, 1);
        for (j = 0; j < expected->ndim; j++) wc_sha256_number(&hash, expected->shape[j], 8);
    }
    wc_sha256_end(&hash, digest);
    return memcmp(digest, reader->digest.at, sizeof digest) == 0;
}

/* Rows 42a to 44a. */
static inline wc_status wc_check_schema(wc_reader *reader) {
    const wc_schema *schema = reader->schema;
    int named = reader->records[WC_NAMES].at != NULL;
    int single;
    uint32_t i, count;
    unsigned j;
    if (!schema) return wc_ok();
    single = schema->count == WC_ONE_TENSOR;
    if (single && reader->n_tensors != 1) return wc_refuse(WC_SCHEMA_MISMATCH, "schema-count");
    if (single && !schema->tensors) return wc_ok();
    count = single ? 1 : schema->count;
    if (count != reader->n_tensors) return wc_refuse(WC_SCHEMA_MISMATCH, "schema-names");
    for (i = 0; i < count && !single; i++) {
        const wc_expected *expected = &schema->tensors[i];
        wc_tensor *tensor = &reader->tensors[i];
        if (!named) {
            tensor->name = expected->name;
            tensor->name_len = expected->name_len;
        } else if (wc_compare(tensor->name, tensor->name_len, expected->name, expected->name_len)) {
            return wc_refuse(WC_SCHEMA_MISMATCH, "schema-names");
        }
    }
    for (i = 0; i < count; i++) {
        const wc_tensor *tensor = &reader->tensors[i];
        if (schema->tensors[i].ndim != tensor->ndim) return wc_refuse(WC_SCHEMA_MISMATCH, "schema-shape");
        for (j = 0; j < tensor->ndim; j++)
            if (schema->tensors[i].shape[j] != wc_dimension(tensor, j))
                return wc_refuse(WC_SCHEMA_MISMATCH, "schema-shape");
    }
    for (i = 0; i < count; i++)
        if (schema->tensors[i].dtype != reader->tensors[i].dtype) return wc_refuse(WC_SCHEMA_MISMATCH, "schema-dtype");
    if (reader->digest.at && !single && !wc_digest_fits(reader)) return wc_refuse(WC_SCHEMA_MISMATCH, "schema-digest");
    return wc_ok();
}

/* Parts of the buffer of wc_read, in their order; numbers of bytes are multiples of 8. */
typedef struct wc_sizes {
    uint64_t indices; /* of all tensors, 8 bytes each */
    uint64_t values; /* bytes */
    uint64_t scratch; /* bytes; the most that an index codec or a value codec needs */
    uint64_t coefficients; /* of the entry that has most; 24 bytes each */
    uint64_t points; /* of the longest transform; twice 16 bytes each */
} wc_sizes;

/* Return the sizes for all entries. */
static inline wc_sizes wc_count_sizes(const wc_reader *reader) {
    wc_sizes sizes = {0, 0, WC_SCRATCH, 0, 0};
    uint64_t i, row = 0, at = reader->payload;
    for (i = 0; i < reader->n_entries;) {
        wc_chunks chunks = wc_chunks_at(reader, i);
        uint64_t count = chunks.r;
        for (; i < chunks.end; i++) {
            wc_entry e = wc_entry_at(reader, i);
            if (e.index == 9 && e.index_len >= 24 && reader->data[at + 13] == 3)
                sizes.scratch = wc_max(sizes.scratch, wc_padded(wc_conflicts_size(e.r, e.index_len - 16)));
            if (e.domain) sizes.coefficients = wc_max(sizes.coefficients, e.r);
            at += wc_payload_bytes(&e);
        }
        if (chunks.first.domain) {
            count = chunks.r ? wc_elements_at(reader, row) : 0;
            sizes.points = wc_max(sizes.points, wc_smooth(count));
            row += 16;
        }
        sizes.indices += count;
        sizes.values += wc_padded(count * wc_width(reader->tensors[chunks.first.key].dtype));
    }
    return sizes;
}

/* Find the tensors, in a buffer of `describe_size` bytes. On WC_OK `tensors`, `n_tensors`, `tag` and
 * `read_size` are set; indices and values are not. */
static inline wc_status wc_describe(wc_reader *reader, void *buffer, uint64_t size) {
    uint64_t n_keys;
    wc_sizes sizes;
    uint8_t *at;
    if (size < reader->describe_size) return wc_refuse(WC_BUFFER, "describe-buffer");
    at = reader->n_tensors ? wc_align(buffer) : (uint8_t *)buffer;
    WC_TRY(wc_check_fused(reader, (uint64_t *)(void *)at, &n_keys));
    WC_TRY(wc_check_joined(reader, (uint64_t *)(void *)at, n_keys));
    reader->tensors = (wc_tensor *)(void *)at;
    WC_TRY(wc_place_tensors(reader));
    WC_TRY(wc_check_transform(reader));
    WC_TRY(wc_check_types(reader));
    WC_TRY(wc_check_names(reader));
    WC_TRY(wc_check_shapes(reader));
    reader->tag = reader->records[WC_TAG];
    if (reader->tag.at && reader->tag.size == 0) return wc_malformed("tag-record");
    WC_TRY(wc_check_meta(reader));
    WC_TRY(wc_check_digest(reader));
    WC_TRY(wc_check_semantics(reader));
    WC_TRY(wc_check_schema(reader));
    sizes = wc_count_sizes(reader);
    reader->read_size =
        wc_aligned(8 * sizes.indices + sizes.values + sizes.scratch + 24 * sizes.coefficients + 32 * sizes.points);
    return wc_ok();
}

/* ---- The payload: rows 45 to 50 ----------------------------------------------------------------------------- */

/* Check the sections of an entry, whose first byte is at `at`: rows 45 and 46. */
static inline wc_status wc_check_sections(const wc_reader *reader, const wc_entry *e, uint64_t at) {
    const uint8_t *start = reader->data + at;
    uint64_t lengths[3], i, place = 0;
    if (wc_crc32(0, start, wc_payload_bytes(e)) != e->crc) return wc_refuse(WC_CHECKSUM_MISMATCH, "entry-checksum");
    lengths[0] = e->index_len;
    lengths[1] = e->value_len;
    lengths[2] = e->map_len;
    for (i = 0; i < 3; i++) {
        if (!wc_all_zero(start + place + lengths[i], wc_pad8(lengths[i]))) return wc_malformed("padding");
        place += wc_padded(lengths[i]);
    }
    return wc_ok();
}

/* Decode one entry whose first byte is at `at`: r indices, counted within the chunk, and the values of each. */
static inline wc_status wc_read_entry(wc_reader *reader, const wc_entry *e, uint64_t at, uint64_t *indices,
                                      uint8_t *values, uint8_t *scratch) {
    const uint8_t *start = reader->data + at;
    uint64_t i;
    wc_bytes section;
    wc_values out;
    wc_index x;
    WC_TRY(wc_check_sections(reader, e, at));
    if (e->index_len == 0) {
        for (i = 0; i < e->r; i++) indices[i] = i;
    } else {
        x.at = start;
        x.len = e->index_len;
        x.d = e->d;
        x.r = e->r;
        x.out = indices;
        x.scratch = scratch;
        x.work = &reader->work;
        x.max_work = reader->limits.max_work;
        WC_TRY(wc_read_index(e->index, &x));
    }
    if (e->value_len == 0) return wc_ok();
    section.at = start + wc_padded(e->index_len);
    section.size = e->value_len;
    out.at = values;
    out.r = e->r * wc_components(e->domain);
    out.dtype = wc_stored_type(e->domain, e->dtype);
    WC_TRY(wc_read_value(e->value, section, out, scratch));
    for (i = 0; i < e->r && e->dtype == WC_BOOL; i++)
        if (values[i] > 1) return wc_invalid("bool-value");
    return wc_ok();
}

/* Assign the elements of fused entries to their members, in order (SPEC 3.3). */
static inline void wc_share_out(wc_reader *reader) {
    uint64_t at, i;
    for (at = 8; at < reader->records[WC_FUSED].size;) {
        wc_group group = wc_group_at(reader, at);
        wc_tensor whole = reader->tensors[group.key];
        uint64_t start = 0, n = 0;
        for (i = 0; i < group.n; i++) {
            wc_tensor *tensor = &reader->tensors[wc_u32(group.members + 8 * i)];
            uint64_t first = n;
            for (; n < whole.count && whole.indices[n] < start + tensor->size; n++) whole.indices[n] -= start;
            tensor->indices = whole.indices + first;
            tensor->values = (uint8_t *)whole.values + first * wc_width(tensor->dtype);
            tensor->count = n - first;
            start += tensor->size;
        }
        at = group.next;
    }
}

/* Assign the elements of joined vectors to their members (SPEC 3.11): all, or none. All indices count from 0. */
static inline void wc_share_vectors(wc_reader *reader) {
    uint64_t at, start = 0;
    wc_tensor whole;
    memset(&whole, 0, sizeof whole);
    for (at = 0; at < reader->records[WC_JOINED].size; at += 16) {
        wc_member member = wc_member_at(reader, at);
        wc_tensor *tensor = &reader->tensors[member.key];
        if (member.key == member.first) {
            whole = *tensor;
            start = 0;
        }
        tensor->count = whole.count ? tensor->size : 0;
        tensor->indices = whole.indices;
        tensor->values = (uint8_t *)whole.values + (whole.count ? start * wc_width(tensor->dtype) : 0);
        start += tensor->size;
    }
}

/* Parts of the buffer of wc_read that are used again for each entry. */
typedef struct wc_workspace {
    uint8_t *scratch;
    uint64_t *indices;
    uint8_t *numbers;
    double *x, *y; /* input and output of a transform */
} wc_workspace;

/* Check the coefficients of an entry (row 50), and add them to the input of the transform. Its output is not scaled, so their
 * weights are those of the inverse. */
static inline wc_status wc_add_coefficients(const wc_entry *e, const wc_workspace *w, uint64_t m) {
    const double most = 1.0715086071862673e301; /* 2^1000 */
    int dtype = wc_stored_type(e->domain, e->dtype);
    uint64_t count = (uint64_t)e->r * wc_components(e->domain), i;
    unsigned width = wc_width(dtype);
    double first, other; /* weights of coefficient 0 and of bin m/2, and of all others */
    if (e->r == 0) return wc_ok();
    for (i = 0; i < count; i++) {
        double number = wc_real(w->numbers + i * width, dtype);
        if (!(number >= -most && number <= most)) return wc_invalid("transform-value");
    }
    first = wc_square_root((double)m) / (double)m;
    other = wc_square_root(2 * (double)m) / (double)(e->domain == WC_RFFT ? m : 2 * m);
    for (i = 0; i < e->r; i++) {
        const uint8_t *at = w->numbers + i * wc_components(e->domain) * width;
        uint64_t k = e->base + w->indices[i];
        int real = k == 0 || (e->domain == WC_RFFT && 2 * k == m);
        double weight = real ? first : other;
        if (e->domain == WC_RFFT)
            wc_add_bin(w->x, k, weight * wc_real(at, dtype), weight * wc_real(at + width, dtype), real);
        else
            wc_add_cosine(w->x, m, k, weight * wc_real(at, dtype));
    }
    return wc_ok();
}

/* Decode the chunks of one key from entry i on, which are coefficients, to n elements, or to none. *at is the offset of
 * their payload. */
static inline wc_status wc_read_vector(wc_reader *reader, uint64_t i, uint64_t n, uint64_t *at, wc_tensor *tensor,
                                       const wc_workspace *w) {
    wc_chunks chunks = wc_chunks_at(reader, i);
    uint64_t m = wc_smooth(n), j;
    wc_values out;
    double *sums;
    if (chunks.r) memset(w->x, 0, 2 * m * sizeof *w->x);
    for (; i < chunks.end; i++) {
        wc_entry e = wc_entry_at(reader, i);
        WC_TRY(wc_read_entry(reader, &e, *at, w->indices, w->numbers, w->scratch));
        WC_TRY(wc_add_coefficients(&e, w, m));
        *at += wc_payload_bytes(&e);
    }
    if (!chunks.r) return wc_ok();
    sums = wc_fourier(w->x, w->y, m);
    out.at = (uint8_t *)tensor->values;
    out.r = 0;
    out.dtype = tensor->dtype;
    for (j = 0; j < n; j++) {
        uint64_t place = chunks.first.domain == WC_RFFT ? j : j % 2 ? m - 1 - j / 2 : j / 2;
        tensor->indices[j] = j;
        wc_put_real(out, j, sums[2 * place]);
    }
    tensor->count = n;
    return wc_ok();
}

/* Decode the chunks of one key from entry i on, which are elements. *at is the offset of their payload. */
static inline wc_status wc_read_elements(wc_reader *reader, uint64_t i, uint64_t *at, wc_tensor *tensor,
                                         const wc_workspace *w) {
    uint64_t end = wc_chunks_at(reader, i).end, j;
    for (; i < end; i++) {
        wc_entry e = wc_entry_at(reader, i);
        uint64_t *indices = tensor->indices + tensor->count;
        uint8_t *values = (uint8_t *)tensor->values + tensor->count * wc_width(tensor->dtype);
        e.dtype = tensor->dtype;
        WC_TRY(wc_read_entry(reader, &e, *at, indices, values, w->scratch));
        for (j = 0; j < e.r; j++) indices[j] += e.base;
        tensor->count += e.r;
        *at += wc_payload_bytes(&e);
    }
    return wc_ok();
}

/* Decode all tensors into a buffer of `read_size` bytes; their indices and values then point into it. */
static inline wc_status wc_read(wc_reader *reader, void *buffer, uint64_t size) {
    wc_sizes sizes = wc_count_sizes(reader);
    uint64_t i, at = reader->payload, row = 0, *indices;
    uint8_t *values;
    wc_workspace w;
    if (size < reader->read_size) return wc_refuse(WC_BUFFER, "read-buffer");
    indices = (uint64_t *)(void *)wc_align(buffer);
    values = (uint8_t *)(indices + sizes.indices);
    w.scratch = values + sizes.values;
    w.indices = (uint64_t *)(void *)(w.scratch + sizes.scratch);
    w.numbers = (uint8_t *)(w.indices + sizes.coefficients);
    w.x = (double *)(void *)(w.numbers + 16 * sizes.coefficients);
    w.y = w.x + 2 * sizes.points;
    reader->work = 0;
    for (i = 0; i < reader->n_entries; i = wc_chunks_at(reader, i).end) {
        wc_entry e = wc_entry_at(reader, i);
        wc_tensor *tensor = &reader->tensors[e.key];
        tensor->indices = indices;
        tensor->values = values;
        tensor->count = 0;
        if (e.domain) {
            WC_TRY(wc_read_vector(reader, i, wc_elements_at(reader, row), &at, tensor, &w));
            row += 16;
        } else {
            WC_TRY(wc_read_elements(reader, i, &at, tensor, &w));
        }
        indices += tensor->count;
        values += wc_padded(tensor->count * wc_width(tensor->dtype));
    }
    wc_share_out(reader);
    wc_share_vectors(reader);
    return wc_ok();
}

#endif
