/* A splitter of streams of containers and units (formats/spec/stream.md), in C99: no allocation, no recursion.
 *
 *     wc_splitter splitter = wc_split(wc_file_source, stdin, NULL);
 *     wc_part part;
 *     wc_status status = wc_next_part(&splitter, &part);               the kind and the size of the next part
 *     status = wc_read_part(&splitter, bytes, size, &count);           its next bytes
 *
 * It takes bytes from its source as they are needed, and none beyond the part that it is asked for. Of a part, it holds
 * 24 bytes, so a false length costs no memory. A part, or the rest of one, that is not read is skipped. Rows 7 and 8 of
 * the page are then left out, as they are by a reader that skips units.
 */

#ifndef WIRECODEC_STREAM_H
#define WIRECODEC_STREAM_H

#include <stdio.h>

#include "wirecodec.h"

/* A source of bytes. It copies 1 to `size` bytes to `out` and returns their number, or 0 at the end. A splitter takes an
 * error of the source for its end. The caller therefore checks the source, such as by ferror, after the last part. */
typedef size_t (*wc_source)(void *context, uint8_t *out, size_t size);

/* The kinds of parts, and the end of a stream. */
enum { WC_END = 0, WC_CONTAINER_PART = 1, WC_UNIT = 2 };

/* A part of a stream. */
typedef struct wc_part {
    int kind;
    uint32_t application; /* of a unit */
    uint64_t size; /* bytes that wc_read_part returns of it: a whole container, or the body of a unit */
} wc_part;

/* A stream that is being split. The fields are private. */
typedef struct wc_splitter {
    wc_source source;
    void *context;
    uint64_t max_bytes;
    wc_status status; /* of the last call: nothing follows a failure */
    wc_part part;
    uint8_t prefix[24]; /* of the part */
    uint64_t given; /* bytes of `part.size` that were returned */
    uint64_t left; /* bytes of the part that the source still has */
    uint32_t crc; /* of a unit, so far */
} wc_splitter;

/* A source that reads a FILE, its context. */
static inline size_t wc_file_source(void *file, uint8_t *out, size_t size) {
    return fread(out, 1, size, (FILE *)file);
}

/* A source that takes bytes from memory: its context is a wc_bytes, from whose front it takes them. */
static inline size_t wc_memory_source(void *bytes, uint8_t *out, size_t size) {
    wc_bytes *from = (wc_bytes *)bytes;
    size_t n = (size_t)wc_min(size, from->size);
    if (n) memcpy(out, from->at, n);
    from->at += n;
    from->size -= n;
    return n;
}

/* Start to split the stream that a source has. Of the limits, max_bytes bounds each part; NULL are the defaults. */
static inline wc_splitter wc_split(wc_source source, void *context, const wc_limits *limits) {
    wc_splitter splitter;
    memset(&splitter, 0, sizeof splitter);
    splitter.source = source;
    splitter.context = context;
    splitter.max_bytes = limits ? limits->max_bytes : wc_default_limits().max_bytes;
    splitter.status = wc_ok();
    return splitter;
}

/* Take n bytes of the source, or fewer at its end; return their number. */
static inline size_t wc_take_bytes(const wc_splitter *splitter, uint8_t *out, size_t n) {
    size_t taken = 0, piece = 1;
    while (taken < n && piece) taken += piece = splitter->source(splitter->context, out + taken, n - taken);
    return taken;
}

/* Take n bytes of the part. Rows 7 of SPEC section 7 and 6 of the page. */
static inline wc_status wc_take_part(wc_splitter *splitter, uint8_t *out, size_t n) {
    splitter->left -= n;
    if (wc_take_bytes(splitter, out, n) == n) return wc_ok();
    return wc_refuse(WC_TRUNCATED, splitter->part.kind == WC_UNIT ? "unit" : "container");
}

static inline wc_status wc_skip_part(wc_splitter *splitter) {
    uint8_t unused[512];
    while (splitter->left) WC_TRY(wc_take_part(splitter, unused, (size_t)wc_min(splitter->left, sizeof unused)));
    return wc_ok();
}

/* Rows 1 to 5 of the page. */
static inline wc_status wc_read_prefix(wc_splitter *splitter) {
    const uint8_t *p = splitter->prefix;
    wc_part *part = &splitter->part;
    uint64_t total, body;
    size_t n = wc_take_bytes(splitter, splitter->prefix, sizeof splitter->prefix);
    if (n == 0) return wc_ok();
    if (n < sizeof splitter->prefix) return wc_refuse(WC_TRUNCATED, "prefix");
    total = wc_u64(p + 16);
    if (wc_u32(p) == 0x554357F7) {
        body = wc_u32(p + 8);
        if (total > splitter->max_bytes) return wc_refuse(WC_LIMIT_EXCEEDED, "max-bytes");
        if (total != sizeof splitter->prefix + wc_padded(body)) return wc_malformed("unit-length");
        part->kind = WC_UNIT;
        part->application = wc_u32(p + 4);
        part->size = body;
        splitter->crc = wc_crc32(wc_crc32(0, p, 12), p + 16, 8);
    } else {
        WC_TRY(wc_check_prefix(p, splitter->max_bytes));
        part->kind = WC_CONTAINER_PART;
        part->size = total;
    }
    splitter->left = total - sizeof splitter->prefix;
    return wc_ok();
}

/* Find the next part, or the end: `part->kind` is then WC_END. The rest of the part before is skipped. */
static inline wc_status wc_next_part(wc_splitter *splitter, wc_part *part) {
    if (splitter->status.kind == WC_OK) splitter->status = wc_skip_part(splitter);
    memset(&splitter->part, 0, sizeof splitter->part);
    splitter->given = 0;
    if (splitter->status.kind == WC_OK) splitter->status = wc_read_prefix(splitter);
    *part = splitter->part;
    return splitter->status;
}

/* Rows 7 and 8 of the page, after the body. */
static inline wc_status wc_end_unit(wc_splitter *splitter) {
    uint8_t padding[8];
    size_t n = (size_t)splitter->left;
    WC_TRY(wc_take_part(splitter, padding, n));
    if (wc_crc32(splitter->crc, padding, n) != wc_u32(splitter->prefix + 12))
        return wc_refuse(WC_CHECKSUM_MISMATCH, "unit-checksum");
    return wc_all_zero(padding, n) ? wc_ok() : wc_malformed("unit-padding");
}

static inline wc_status wc_read_piece(wc_splitter *splitter, uint8_t *out, size_t n) {
    size_t head = 0;
    if (splitter->part.kind == WC_CONTAINER_PART) {
        for (; head < n && splitter->given + head < sizeof splitter->prefix; head++)
            out[head] = splitter->prefix[splitter->given + head];
        return wc_take_part(splitter, out + head, n - head);
    }
    WC_TRY(wc_take_part(splitter, out, n));
    splitter->crc = wc_crc32(splitter->crc, out, n);
    return splitter->given + n == splitter->part.size ? wc_end_unit(splitter) : wc_ok();
}

/* Copy the next bytes of the part to `out`, at most `size`; `*count` is their number. They are all that is left if
 * `size` allows. The call that returns the last byte of a unit makes rows 7 and 8, so no body is right before. For a unit
 * without a body, any call does. A container is not checked: wc_open does so. */
static inline wc_status wc_read_part(wc_splitter *splitter, void *out, size_t size, size_t *count) {
    size_t n = (size_t)wc_min(size, splitter->part.size - splitter->given);
    int empty = splitter->part.kind == WC_UNIT && splitter->part.size == 0;
    *count = 0;
    if (splitter->status.kind == WC_OK && (n || empty))
        splitter->status = wc_read_piece(splitter, (uint8_t *)out, n);
    if (splitter->status.kind != WC_OK) return splitter->status;
    splitter->given += n;
    *count = n;
    return splitter->status;
}

#endif
