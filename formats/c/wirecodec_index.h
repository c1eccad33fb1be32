/* A reader of the index of a closed stream (formats/spec/stream.md, sections 4 to 6), in C99: no allocation, no recursion.
 *
 *     wc_end end;
 *     wc_status status = wc_read_end(&end, last, size, stream_size, NULL);      where the index is
 *     wc_stream_index index;
 *     status = wc_read_stream_index(&index, &end, unit, end.index_size);               its parts and tensors
 *     while (wc_next_indexed(&index, &listed)) …                                 each tensor
 *
 * Two ranges of the stream are enough: its last WC_END_SIZE bytes, and the index that they name. The index stays in place as
 * long as the reader is used. No container is read. wc_check_part compares one with its digest.
 */

#ifndef WIRECODEC_INDEX_H
#define WIRECODEC_INDEX_H

#include "wirecodec.h"

/* Bytes of the unit that ends a closed stream. */
enum { WC_END_SIZE = 88 };

/* Where the index is. */
typedef struct wc_end {
    uint64_t index_offset; /* from the first byte of the stream */
    uint64_t index_size;
    uint8_t digest[32]; /* SHA-256 of the index: sign it to sign the stream */
} wc_end;

/* An index that was read. The fields after the first two are private. */
typedef struct wc_stream_index {
    uint32_t n_parts;
    uint32_t n_tensors;
    const uint8_t *parts; /* rows of 48 bytes */
    const uint8_t *tensors; /* rows of 12 bytes */
    const uint8_t *dimensions, *names;
} wc_stream_index;

/* A container of the stream. */
typedef struct wc_indexed_part {
    uint64_t offset; /* from the first byte of the stream */
    uint64_t size;
    const uint8_t *digest; /* 32 bytes, SHA-256 */
} wc_indexed_part;

/* A tensor of the index. Start with all zeros; wc_next_indexed moves to the next. The fields after `shape` are private. */
typedef struct wc_indexed_tensor {
    uint32_t part; /* the number of its container */
    const char *name; /* UTF-8 without a terminating zero byte */
    size_t name_len;
    uint16_t dtype;
    uint8_t ndim;
    const uint8_t *shape; /* wc_indexed_dimension returns its numbers */
    uint32_t next;
    const uint8_t *next_shape, *next_name;
} wc_indexed_tensor;

/* Rows 5, 7 and 8 of the page for a unit of `size` bytes, at least 24. */
static inline wc_status wc_check_unit(const uint8_t *unit, uint64_t size) {
    uint64_t body = wc_u32(unit + 8);
    if (wc_u64(unit + 16) != size || size != 24 + wc_padded(body)) return wc_malformed("unit-length");
    if (wc_crc32(wc_crc32(0, unit, 12), unit + 16, size - 16) != wc_u32(unit + 12))
        return wc_refuse(WC_CHECKSUM_MISMATCH, "unit-checksum");
    return wc_all_zero(unit + 24 + body, size - 24 - body) ? wc_ok() : wc_malformed("unit-padding");
}

/* Return whether bytes begin with the magic of a unit and an application. */
static inline int wc_is_unit(const uint8_t *at, uint32_t application) {
    return wc_u32(at) == 0x554357F7 && wc_u32(at + 4) == application;
}

/* Find the index: rows 9 to 12 of the page. `last` are the last `size` bytes of a stream of `stream_size` bytes: WC_END_SIZE,
 * or more. If the stream has fewer, they are all of it. Of the limits, max_bytes bounds the index; NULL are the defaults. */
static inline wc_status wc_read_end(wc_end *end, const void *last, uint64_t size, uint64_t stream_size,
                                    const wc_limits *limits) {
    uint64_t most = limits ? limits->max_bytes : wc_default_limits().max_bytes, room = stream_size - WC_END_SIZE;
    const uint8_t *unit, *body;
    if (size < WC_END_SIZE || stream_size < size) return wc_refuse(WC_TRUNCATED, "stream-end");
    unit = (const uint8_t *)last + (size - WC_END_SIZE);
    if (!wc_is_unit(unit, 2) || wc_u32(unit + 8) != 64) return wc_refuse(WC_TRUNCATED, "stream-end");
    WC_TRY(wc_check_unit(unit, WC_END_SIZE));
    body = unit + 24;
    end->index_offset = wc_u64(body + 8);
    end->index_size = wc_u64(body + 16);
    memcpy(end->digest, body + 32, sizeof end->digest);
    if (body[0] != 1 || !wc_all_zero(body + 1, 7) || wc_u64(body + 24) != stream_size) return wc_malformed("end");
    if (end->index_offset % 8 || end->index_size % 8 || end->index_size < 40) return wc_malformed("end");
    if (end->index_offset > room || end->index_size > room - end->index_offset) return wc_malformed("end");
    return end->index_size > most ? wc_refuse(WC_LIMIT_EXCEEDED, "max-bytes") : wc_ok();
}

static inline int wc_has_digest(const void *bytes, uint64_t size, const uint8_t *digest) {
    wc_sha256 hash = wc_sha256_start();
    uint8_t found[32];
    wc_sha256_add(&hash, bytes, size);
    wc_sha256_end(&hash, found);
    return memcmp(found, digest, sizeof found) == 0;
}

/* Return a container of the index, by its number below n_parts. */
static inline wc_indexed_part wc_part_at(const wc_stream_index *index, uint32_t number) {
    const uint8_t *row = index->parts + 48 * (uint64_t)number;
    wc_indexed_part part;
    part.offset = wc_u64(row);
    part.size = wc_u64(row + 8);
    part.digest = row + 16;
    return part;
}

/* Row 16 for the parts; `stop` is the offset of the index. */
static inline wc_status wc_check_parts(const wc_stream_index *index, uint64_t stop) {
    uint64_t at = 0;
    uint32_t i;
    for (i = 0; i < index->n_parts; i++) {
        wc_indexed_part part = wc_part_at(index, i);
        if (part.offset % 8 || part.size % 8 || part.size < 24) return wc_malformed("index");
        if (part.offset < at || part.offset > stop || part.size > stop - part.offset) return wc_malformed("index");
        at = part.offset + part.size;
    }
    return wc_ok();
}

/* Rows 16 and 17 for the rows of tensors. */
static inline wc_status wc_check_indexed(const wc_stream_index *index) {
    uint32_t i, last = 0;
    for (i = 0; i < index->n_tensors; i++) {
        const uint8_t *row = index->tensors + 12 * (uint64_t)i;
        uint32_t part = wc_u32(row);
        if (part >= index->n_parts || part < last || wc_u16(row + 10)) return wc_malformed("index");
        last = part;
    }
    for (i = 0; i < index->n_tensors; i++) {
        unsigned dtype = index->tensors[12 * (uint64_t)i + 8];
        if (dtype < WC_FLOAT32 || dtype > WC_FLOAT4_E2M1FN_X2 || (dtype > WC_FLOAT64 && dtype < WC_INT8))
            return wc_refuse(WC_UNSUPPORTED, "dtype");
    }
    return wc_ok();
}

/* Move to the next tensor, or return 0 after the last one. */
static inline int wc_next_indexed(const wc_stream_index *index, wc_indexed_tensor *listed) {
    const uint8_t *row = index->tensors + 12 * (uint64_t)listed->next;
    if (listed->next == index->n_tensors) return 0;
    listed->shape = listed->next ? listed->next_shape : index->dimensions;
    listed->name = (const char *)(listed->next ? listed->next_name : index->names);
    listed->part = wc_u32(row);
    listed->name_len = wc_u32(row + 4);
    listed->dtype = row[8];
    listed->ndim = row[9];
    listed->next_shape = listed->shape + 8 * (size_t)listed->ndim;
    listed->next_name = (const uint8_t *)listed->name + listed->name_len;
    listed->next++;
    return 1;
}

/* Return a dimension of a tensor, by its number below ndim. */
static inline uint64_t wc_indexed_dimension(const wc_indexed_tensor *listed, unsigned number) {
    return wc_u64(listed->shape + 8 * (size_t)number);
}

/* Read the index: rows 13 to 18 of the page. `unit` are the index_size bytes of the stream at index_offset. */
static inline wc_status wc_read_stream_index(wc_stream_index *index, const wc_end *end, const void *unit, uint64_t size) {
    const uint8_t *at = (const uint8_t *)unit, *body = at + 24;
    uint64_t left, shapes = 0, names = 0, i;
    wc_indexed_tensor listed;
    if (size != end->index_size) return wc_refuse(WC_BUFFER, "");
    if (!wc_has_digest(at, size, end->digest)) return wc_refuse(WC_CHECKSUM_MISMATCH, "index-digest");
    if (!wc_is_unit(at, 1) || wc_u64(at + 16) != size) return wc_malformed("index");
    WC_TRY(wc_check_unit(at, size));
    left = wc_u32(at + 8);
    if (left < 16 || body[0] != 1 || !wc_all_zero(body + 1, 7)) return wc_malformed("index");
    index->n_parts = wc_u32(body + 8);
    index->n_tensors = wc_u32(body + 12);
    left -= 16;
    if (left < 48 * (uint64_t)index->n_parts + 12 * (uint64_t)index->n_tensors) return wc_malformed("index");
    left -= 48 * (uint64_t)index->n_parts + 12 * (uint64_t)index->n_tensors;
    index->parts = body + 16;
    index->tensors = index->parts + 48 * (uint64_t)index->n_parts;
    index->dimensions = index->tensors + 12 * (uint64_t)index->n_tensors;
    for (i = 0; i < index->n_tensors; i++) {
        shapes += 8 * (uint64_t)index->tensors[12 * i + 9];
        names += wc_u32(index->tensors + 12 * i + 4);
    }
    if (shapes + names != left) return wc_malformed("index"); /* below 2^32 rows of less than 2^33: no sum wraps */
    index->names = index->dimensions + shapes;
    WC_TRY(wc_check_parts(index, end->index_offset));
    WC_TRY(wc_check_indexed(index));
    memset(&listed, 0, sizeof listed);
    while (wc_next_indexed(index, &listed))
        if (listed.name_len > 65535 || !wc_is_utf8((const uint8_t *)listed.name, listed.name_len))
            return wc_invalid("index-names");
    return wc_ok();
}

/* Compare a container with its digest. */
static inline wc_status wc_check_part(const wc_indexed_part *part, const void *container, uint64_t size) {
    if (size != part->size || !wc_has_digest(container, size, part->digest))
        return wc_refuse(WC_CHECKSUM_MISMATCH, "index-digest");
    return wc_ok();
}

#endif
