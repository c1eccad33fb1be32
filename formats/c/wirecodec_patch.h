/* A reader of patches of weights (formats/spec/patch.md), in C99: no allocation, no recursion.
 *
 *     wc_patch patch;
 *     wc_status status = wc_open_patch(&patch, data, size, NULL, NULL);                  rows 1 to 32 of SPEC section 7
 *     status = wc_describe_patch(&patch, &state, buffer, patch.describe_size);           up to row 46: patch.apply_size
 *     status = wc_apply_patch(&patch, other_buffer, patch.apply_size);                   the rest: patch.target
 *
 * Each call requires that the one before it returned WC_OK. The caller owns all memory, and nothing that it passes is
 * changed. The new state is complete when the last call returns WC_OK. It points into the old one, the container and the
 * two buffers, so all of them must stay in place as long as it is used.
 */

#ifndef WIRECODEC_PATCH_H
#define WIRECODEC_PATCH_H

#include "wirecodec.h"

/* ---- The public interface -------------------------------------------------------------------------------- */

/* A tensor of a state. */
typedef struct wc_weights {
    const char *name; /* UTF-8; a terminating zero byte is not required */
    size_t name_len;
    int dtype;
    unsigned ndim;
    const uint64_t *shape;
    const uint8_t *bytes; /* the elements, row-major and little-endian */
} wc_weights;

/* The tensors of a state, strictly ascending by the bytes of their names. */
typedef struct wc_state {
    const wc_weights *tensors;
    uint64_t count;
    int is_part; /* whether it lacks tensors, on purpose: those of the patch that it has are changed */
} wc_state;

/* A Zstandard decompressor (value/zstd.md). It returns 1 if the frame is valid and has exactly `content_size` bytes of content,
 * which it writes to `content`, and otherwise 0. */
typedef struct wc_decompressor {
    int (*decompress)(void *context, const uint8_t *frame, size_t size, uint8_t *content, size_t content_size);
    void *context;
} wc_decompressor;

/* A tensor of the container, as a reader of patches sees it. */
typedef struct wc_match {
    uint64_t at; /* number of the state's first tensor whose name is not below its own */
    int has_base; /* whether that is the tensor */
    uint64_t sum, present; /* of a touched patch: mixed words of the present elements, and their number */
    const uint8_t *made; /* the new elements, or NULL if the state's are kept */
    const uint64_t *shape; /* of a whole tensor */
} wc_match;

/* Bytes for the name of a tensor that only its key identifies. */
enum { WC_DIGITS = 10 };

/* A patch that is being read. The fields after `n_changed` are private. */
typedef struct wc_patch {
    wc_reader reader;
    uint64_t describe_size; /* bytes that wc_describe_patch needs */
    uint64_t apply_size; /* bytes that wc_apply_patch needs */
    wc_state target; /* the new state */
    uint64_t n_complete; /* tensors of the patch that the state had already; it was half-written if it lacked others */
    uint64_t n_changed; /* tensors that have new elements, are new, or are removed */
    wc_state base;
    const wc_decompressor *zstd;
    int touched;
    uint32_t n_removed;
    wc_match *matches; /* one for each tensor */
    uint64_t most_present; /* elements of an entry that is not whole */
    uint64_t most_content; /* bytes of a Zstandard frame's content */
    uint64_t n_dimensions; /* of whole tensors */
    uint64_t n_bytes; /* of new elements */
    uint64_t *indices; /* of the entry that is being read */
    uint64_t *dimensions; /* of the next whole tensor */
    struct wc_tables *tables;
    uint8_t *content;
    uint8_t *elements; /* those of the next key */
} wc_patch;

/* ---- Digests (patch.md, Digests) --------------------------------------------------------------------------- */

static inline uint64_t wc_fold(uint64_t x, uint64_t number) {
    x += number * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 29) * 0x94D049BB133111EBu;
    return x ^ x >> 32;
}

static inline uint64_t wc_close(uint64_t x, uint64_t number) {
    uint64_t mixed = wc_fold(x, number);
    return mixed ? mixed : 1;
}

/* The page's `sum`. */
static inline uint64_t wc_sum(const uint8_t *at, uint64_t n) {
    uint64_t sum = 0, i;
    for (i = 0; i < n / 8; i++) sum += wc_fold(wc_u64(at + 8 * i), i + 1);
    return n % 8 ? sum + wc_fold(wc_number(at + 8 * i, (unsigned)(n % 8)), i + 1) : sum;
}

static inline uint64_t wc_text_digest(const void *at, uint64_t n) {
    return wc_close(wc_sum((const uint8_t *)at, n), n);
}

/* The page's `describe`: dimensions lie across the words. */
static inline uint64_t wc_shape_digest(const wc_weights *tensor) {
    uint64_t word = (uint64_t)(unsigned)tensor->dtype | (uint64_t)tensor->ndim << 16, sum = 0;
    unsigned i;
    for (i = 0; i < tensor->ndim; i++) {
        sum += wc_fold(word | tensor->shape[i] << 32, i + 1);
        word = tensor->shape[i] >> 32;
    }
    return wc_close(sum + wc_fold(word, (uint64_t)i + 1), 4 + 8 * (uint64_t)i);
}

static inline uint64_t wc_weights_count(const wc_weights *tensor) {
    uint64_t count = 1;
    unsigned i;
    for (i = 0; i < tensor->ndim; i++) count *= tensor->shape[i];
    return count;
}

static inline uint64_t wc_seal(const wc_weights *tensor) {
    uint64_t n = wc_weights_count(tensor) * wc_width(tensor->dtype);
    return wc_close(wc_sum(tensor->bytes, n) + wc_shape_digest(tensor), n);
}

/* ---- The record base (patch.md, Record base) ---------------------------------------------------------------- */

static inline uint64_t wc_before(const wc_patch *patch, uint32_t key) {
    return wc_u64(patch->reader.records[WC_BASE].at + 24 + 16 * (uint64_t)key);
}

static inline uint64_t wc_after(const wc_patch *patch, uint32_t key) {
    return wc_u64(patch->reader.records[WC_BASE].at + 32 + 16 * (uint64_t)key);
}

/* A removed tensor. Before the first one, all fields are 0. */
typedef struct wc_removed {
    uint64_t next, end; /* number of the next one; bytes of the names so far */
    const char *name;
    size_t name_len;
    uint64_t digest;
} wc_removed;

/* Return 0 after the last one. */
static inline int wc_next_removed(const wc_patch *patch, wc_removed *removed) {
    const uint8_t *digests = patch->reader.records[WC_BASE].at + 24 + 16 * (uint64_t)patch->reader.n_tensors;
    const uint8_t *lengths = digests + 8 * (uint64_t)patch->n_removed;
    if (removed->next == patch->n_removed) return 0;
    removed->digest = wc_u64(digests + 8 * removed->next);
    removed->name = (const char *)lengths + 2 * (uint64_t)patch->n_removed + removed->end;
    removed->name_len = wc_u16(lengths + 2 * removed->next);
    removed->end += removed->name_len;
    removed->next++;
    return 1;
}

/* The check base-record. */
static inline wc_status wc_check_base(wc_patch *patch) {
    wc_bytes body = patch->reader.records[WC_BASE];
    uint64_t lengths, end, i;
    if (body.size < 24) return wc_malformed("base-record");
    if (body.at[0] != 1 || body.at[1] > 1 || wc_u16(body.at + 2) || wc_u32(body.at + 12))
        return wc_malformed("base-record");
    patch->touched = body.at[1];
    patch->n_removed = wc_u32(body.at + 4);
    if (patch->touched && (wc_u32(body.at + 8) || wc_u64(body.at + 16))) return wc_malformed("base-record");
    lengths = 24 + 16 * (uint64_t)patch->reader.n_tensors + 8 * (uint64_t)patch->n_removed;
    end = lengths + 2 * (uint64_t)patch->n_removed;
    if (end > body.size) return wc_malformed("base-record");
    for (i = 0; i < patch->n_removed; i++) end += wc_u16(body.at + lengths + 2 * i);
    return end == body.size ? wc_ok() : wc_malformed("base-record");
}

/* Return whether a name is that of a removed tensor, which *removed is then. Names must be asked for in ascending order. */
static inline int wc_is_removed(const wc_patch *patch, wc_removed *removed, const char *name, size_t name_len) {
    int order = -1;
    for (;;) {
        if (removed->next) order = wc_compare(removed->name, removed->name_len, name, name_len);
        if (order >= 0) return order == 0;
        if (!wc_next_removed(patch, removed)) return 0;
    }
}

/* The check base-names. */
static inline wc_status wc_check_removed(const wc_patch *patch) {
    wc_removed removed, last;
    uint32_t i;
    memset(&removed, 0, sizeof removed);
    for (last = removed; wc_next_removed(patch, &removed); last = removed) {
        if (!wc_is_utf8((const uint8_t *)removed.name, removed.name_len)) return wc_invalid("base-names");
        if (last.next && wc_compare(last.name, last.name_len, removed.name, removed.name_len) >= 0)
            return wc_invalid("base-names");
    }
    memset(&removed, 0, sizeof removed);
    for (i = 0; i < patch->reader.n_tensors; i++)
        if (wc_is_removed(patch, &removed, patch->reader.tensors[i].name, patch->reader.tensors[i].name_len))
            return wc_invalid("base-names");
    return wc_ok();
}

/* ---- Keys (patch.md, Entries) ------------------------------------------------------------------------------- */

/* A key of the table: its entries, and the tensors that have their elements. Before the first one, all fields are 0. */
typedef struct wc_key {
    uint64_t first, end; /* entries */
    uint64_t payload, next_payload; /* offset of the first entry's sections, and of the next key's */
    uint64_t group; /* offset of the next group in the fused record */
    const uint8_t *members; /* rows of the fused record, or NULL for one tensor */
    uint64_t n; /* tensors */
    uint64_t d;
    uint32_t key;
    int dtype;
    unsigned width;
    int whole;
} wc_key;

static inline int wc_next_key(const wc_reader *reader, wc_key *key) {
    wc_bytes fused = reader->records[WC_FUSED];
    key->payload = key->end ? key->next_payload : reader->payload;
    if (key->end == 0) key->group = 8;
    if (key->end == reader->n_entries) return 0;
    key->first = key->end;
    key->next_payload = key->payload;
    key->key = wc_entry_at(reader, key->first).key;
    key->dtype = reader->tensors[key->key].dtype;
    key->width = wc_width(key->dtype);
    key->members = NULL;
    key->n = 1;
    key->d = 0;
    key->whole = 1;
    for (; key->end < reader->n_entries; key->end++) {
        wc_entry e = wc_entry_at(reader, key->end);
        if (e.key != key->key) break;
        if (e.r < e.d || e.value == WC_STEPS || e.value == WC_STEPS_ZSTD) key->whole = 0;
        key->d += e.d;
        key->next_payload += wc_payload_bytes(&e);
    }
    if (key->group < fused.size && wc_group_at(reader, key->group).key == key->key) {
        wc_group group = wc_group_at(reader, key->group);
        key->members = group.members;
        key->n = group.n;
        key->group = group.next;
        key->whole = 0;
    }
    return 1;
}

/* Return the key of member j. */
static inline uint32_t wc_member_key(const wc_key *key, uint64_t j) {
    return key->members ? wc_u32(key->members + 8 * j) : key->key;
}

/* Return the old tensor of member j, which the state has. */
static inline const wc_weights *wc_old(const wc_patch *patch, const wc_key *key, uint64_t j) {
    return &patch->base.tensors[patch->matches[wc_member_key(key, j)].at];
}

/* The checks base-entries and max-expansion. */
static inline wc_status wc_check_keys(const wc_patch *patch) {
    const wc_reader *reader = &patch->reader;
    uint64_t i, stored = 0;
    wc_key key;
    for (i = 0; i < reader->n_entries; i++) {
        wc_entry e = wc_entry_at(reader, i);
        int is_index = (e.index >= 1 && e.index <= 3) || e.index == 6 || (e.index == WC_BY_CLASS && !patch->touched);
        int is_value = e.value == 1 || e.value == WC_ZSTD || e.value == WC_STEPS || e.value == WC_STEPS_ZSTD;
        if (e.domain || e.map || !is_index || !is_value) return wc_invalid("base-entries");
    }
    memset(&key, 0, sizeof key);
    while (wc_next_key(reader, &key)) {
        if (wc_number_width(key.dtype) < key.width && !key.whole) return wc_invalid("base-entries");
        if (key.whole) stored += key.d;
    }
    if (wc_ceil(stored, reader->size) > reader->limits.max_expansion)
        return wc_refuse(WC_LIMIT_EXCEEDED, "max-expansion");
    return wc_ok();
}

/* Rows 45 and 46 for all entries. */
static inline wc_status wc_check_payload(const wc_reader *reader) {
    uint64_t i, at = reader->payload;
    for (i = 0; i < reader->n_entries; i++) {
        wc_entry e = wc_entry_at(reader, i);
        WC_TRY(wc_check_sections(reader, &e, at));
        at += wc_payload_bytes(&e);
    }
    return wc_ok();
}

/* The checks base-tensors and base-shape of a key; *left_out is set if the state, a part, lacks its tensors. */
static inline wc_status wc_check_members(const wc_patch *patch, const wc_key *key, int *left_out) {
    uint64_t j, absent = 0;
    for (j = 0; j < key->n; j++) absent += !patch->matches[wc_member_key(key, j)].has_base;
    *left_out = 0;
    if (key->whole && absent && wc_before(patch, key->key) == 0) return wc_ok();
    *left_out = patch->base.is_part && absent == key->n;
    if (*left_out) return wc_ok();
    if (absent) return wc_refuse(WC_SCHEMA_MISMATCH, "base-tensors");
    for (j = 0; j < key->n && !key->whole; j++) {
        const wc_weights *old = wc_old(patch, key, j);
        if (old->dtype != key->dtype || wc_weights_count(old) != patch->reader.tensors[wc_member_key(key, j)].size)
            return wc_refuse(WC_SCHEMA_MISMATCH, "base-shape");
    }
    return wc_ok();
}

/* ---- The coder (patch.md, The coder) ------------------------------------------------------------------------ */

/* A stream of at most 8 lanes. */
typedef struct wc_lanes {
    uint64_t x[8];
    unsigned n;
    const uint8_t *at;
    uint64_t left; /* words */
    int broken;
} wc_lanes;

static inline wc_lanes wc_start_lanes(const uint8_t *at, uint64_t size, unsigned n) {
    wc_lanes lanes;
    unsigned i;
    memset(&lanes, 0, sizeof lanes);
    lanes.n = n;
    lanes.broken = size < 8 * (uint64_t)n;
    if (lanes.broken) return lanes;
    for (i = 0; i < n; i++) {
        lanes.x[i] = wc_u64(at + 8 * i);
        if (lanes.x[i] >> 31 == 0 || lanes.x[i] >> 63) lanes.broken = 1;
    }
    lanes.at = at + 8 * n;
    lanes.left = size / 4 - 2 * n;
    return lanes;
}

static inline uint64_t wc_slot(const wc_lanes *lanes, unsigned lane, unsigned bits) {
    return lanes->x[lane] & (((uint64_t)1 << bits) - 1);
}

/* Leave a symbol that starts at `start` and ends before `end`. */
static inline void wc_leave(wc_lanes *lanes, unsigned lane, uint64_t start, uint64_t end, unsigned bits) {
    uint64_t *x = &lanes->x[lane];
    *x = (end - start) * (*x >> bits) + wc_slot(lanes, lane, bits) - start;
    if (*x >> 31) return;
    if (lanes->left == 0) {
        lanes->broken = 1;
        return;
    }
    *x = *x << 32 | wc_u32(lanes->at);
    lanes->at += 4;
    lanes->left--;
}

/* Return whether a stream ends here, and is not broken. */
static inline int wc_ends(const wc_lanes *lanes) {
    unsigned i;
    for (i = 0; i < lanes->n; i++)
        if (lanes->x[i] != (uint64_t)1 << 31) return 0;
    return !lanes->broken && lanes->left == 0;
}

/* Return whether there are rows, at most 2048, of elements of `width` bytes (patch.md, Index codec 12). */
static inline int wc_has_rows(unsigned width, unsigned shift) {
    return shift < 8 * width && 8 * width - 1 - shift <= 11;
}

static inline unsigned wc_row(uint64_t word, unsigned width, unsigned shift) {
    return (unsigned)(word >> shift & (((uint64_t)1 << (8 * width - 1 - shift)) - 1));
}

/* ---- Index codec by-class (patch.md, Index codec 12) ---------------------------------------------------------- */

/* Return the cumulative frequency at a place, from 0 to 2^28. */
static inline uint64_t wc_rise(uint64_t place) {
    static const uint32_t c[18] = {0,          628981760,  1073739507, 1388231065, 1610610418, 1767856536,
                                   1879046453, 1957669682, 2013264760, 2052576459, 2080374058, 2100029950,
                                   2113928780, 2123756747, 2130706177, 2135620171, 2139094893, 2147483648u};
    uint64_t k = place >> 24;
    return c[k] + ((place & 0xFFFFFF) * (c[k + 1] - c[k]) >> 24);
}

/* A lane of positions. */
typedef struct wc_positions {
    uint64_t left; /* present elements that are not decoded */
    uint64_t *out;
    uint64_t i, end; /* the element at which the search goes on, and the one after the lane's last */
    uint64_t total; /* the weights of the lane's elements before i */
} wc_positions;

/* The classes, and the old elements of an entry. */
typedef struct wc_by_class {
    const uint8_t *old;
    unsigned width, shift, n_classes, first;
    uint64_t weights[64];
} wc_by_class;

static inline uint64_t wc_class_weight(unsigned code) {
    return code ? (uint64_t)(4 + (code - 1) % 4) << ((code - 1) / 4 + 2) : 0;
}

static inline uint64_t wc_element_weight(const wc_by_class *c, uint64_t i) {
    unsigned row = wc_row(wc_number(c->old + i * c->width, c->width), c->width, c->shift);
    return c->weights[row < c->first ? 0 : wc_min(row - c->first, c->n_classes - 1)];
}

/* Decode the next present element of a lane (The scale). Return 0 if no element has the place. */
static inline int wc_next_position(const wc_by_class *c, wc_lanes *lanes, unsigned lane, wc_positions *p) {
    const uint64_t segment = (uint64_t)1 << 24, reach = (uint64_t)1 << 28, beyond = wc_rise(reach);
    uint64_t offset = p->total, slot, k = 0, low, high, place, own = 0;
    while ((slot = wc_slot(lanes, lane, 31)) >= beyond && !lanes->broken) {
        wc_leave(lanes, lane, beyond, (uint64_t)1 << 31, 31);
        offset += reach;
    }
    if (lanes->broken) return 0;
    while (wc_rise((k + 1) * segment) <= slot) k++;
    low = wc_rise(k * segment);
    high = wc_rise((k + 1) * segment);
    place = offset + k * segment + ((slot - low + 1) * segment - 1) / (high - low);
    for (; p->i < p->end; p->i++, p->total += own) {
        own = wc_element_weight(c, p->i);
        if (place < p->total + own) break;
    }
    if (p->i == p->end) return 0;
    low = wc_rise(wc_max(p->total, offset) - offset);
    high = wc_rise(wc_min(p->total + own - offset, reach));
    wc_leave(lanes, lane, low, high, 31);
    *p->out++ = p->i++;
    p->total += own;
    p->left--;
    return 1;
}

/* Decode the section of an entry with 0 < r < d, given its old elements. */
static inline wc_status wc_read_by_class(wc_bytes s, const uint8_t *old, unsigned width, uint64_t d, uint64_t r,
                                         uint64_t *out) {
    wc_positions positions[8];
    wc_by_class c;
    wc_lanes lanes;
    uint64_t counts, start, each, left = r;
    unsigned n, i;
    if (s.size < 8 || s.size % 4) return wc_malformed("by-class-length");
    c.old = old;
    c.width = width;
    c.shift = s.at[0];
    c.n_classes = s.at[1];
    c.first = wc_u16(s.at + 2);
    n = s.at[4];
    if (c.n_classes < 2 || c.n_classes > 64 || !wc_has_rows(width, c.shift)) return wc_malformed("by-class-head");
    if ((n != 1 && n != 2 && n != 4 && n != 8) || !wc_all_zero(s.at + 5, 3)) return wc_malformed("by-class-head");
    counts = 8 + 4 * wc_ceil(c.n_classes, 4);
    start = counts + 4 * (n - 1);
    if (start > s.size || !wc_all_zero(s.at + 8 + c.n_classes, counts - 8 - c.n_classes))
        return wc_malformed("by-class-length");
    for (i = 0; i < c.n_classes; i++) {
        if (s.at[8 + i] > 96) return wc_invalid("by-class-codes");
        c.weights[i] = wc_class_weight(s.at[8 + i]);
    }
    each = 16 * wc_ceil(d, 16 * (uint64_t)n);
    for (i = 0; i < n; i++) {
        wc_positions *p = &positions[i];
        p->left = i + 1 < n ? wc_u32(s.at + counts + 4 * i) : left;
        if (p->left > left) return wc_invalid("by-class-lanes");
        p->out = out + (r - left);
        left -= p->left;
        p->i = wc_min(i * each, d);
        p->end = wc_min((i + 1) * each, d);
        p->total = 0;
    }
    lanes = wc_start_lanes(s.at + start, s.size - start, n);
    for (left = r; left && !lanes.broken;)
        for (i = 0; i < n; i++) {
            if (positions[i].left == 0) continue;
            if (!wc_next_position(&c, &lanes, i, &positions[i])) return wc_invalid("by-class-stream");
            left--;
        }
    return wc_ends(&lanes) ? wc_ok() : wc_invalid("by-class-stream");
}

/* ---- Value codec steps (patch.md, Value codec 16) ------------------------------------------------------------- */

/* The tables of a section of steps, one for each context: the cumulative frequencies of its symbols. */
typedef struct wc_tables {
    uint16_t starts[16][137];
    uint16_t rows[16]; /* first row of each context */
    unsigned shift, n;
} wc_tables;

static inline uint64_t wc_ones_below(unsigned width) { return ((uint64_t)1 << (8 * width - 1)) * 2 - 1; }

/* The page's `order`, of elements of `width` bytes. */
static inline uint64_t wc_order(uint64_t v, unsigned width, int is_signed) {
    uint64_t half = (uint64_t)1 << (8 * width - 1);
    return is_signed && v >= half ? (3 * half - 1 - v) & wc_ones_below(width) : v;
}

static inline uint64_t wc_take_step(uint64_t old, uint64_t step, unsigned width, int is_signed) {
    uint64_t delta = step % 2 ? 0 - (step / 2 + 1) : step / 2;
    return wc_order((wc_order(old, width, is_signed) + delta) & wc_ones_below(width), width, is_signed);
}

/* Read the table of a context; *at moves past it. */
static inline wc_status wc_read_frequencies(wc_bytes s, uint64_t *at, uint16_t *starts) {
    unsigned count, i, f = 0, sum = 0;
    if (*at == s.size) return wc_malformed("steps-length");
    count = s.at[(*at)++];
    if (count > 136) return wc_invalid("steps-table");
    for (i = 0; i < count; i++) {
        if (*at == s.size) return wc_malformed("steps-length");
        f = s.at[(*at)++];
        if (f >= 128) {
            if (*at == s.size) return wc_malformed("steps-length");
            if (s.at[*at] < 1 || s.at[*at] > 32) return wc_invalid("steps-table");
            f = f - 128 + 128u * s.at[(*at)++];
        }
        starts[i] = (uint16_t)wc_min(sum, 4096);
        sum += f;
    }
    for (; i < 137; i++) starts[i] = 4096;
    return sum == 4096 && f ? wc_ok() : wc_invalid("steps-table");
}

/* Read everything before the stream; *at is its offset then. */
static inline wc_status wc_read_tables(wc_bytes s, unsigned width, wc_tables *t, uint64_t *at) {
    unsigned i;
    if (s.size < 4 || s.size % 4) return wc_malformed("steps-length");
    t->shift = s.at[2];
    t->n = s.at[3];
    if (s.at[0] || s.at[1] > 3 || t->n == 0 || t->n > 16) return wc_malformed("steps-head");
    if (t->n == 1 ? t->shift != 0 : !wc_has_rows(width, t->shift)) return wc_malformed("steps-head");
    *at = 4 + 2 * (t->n - 1);
    if (*at > s.size) return wc_malformed("steps-length");
    t->rows[0] = 0;
    for (i = 1; i < t->n; i++) {
        t->rows[i] = (uint16_t)wc_u16(s.at + 2 + 2 * i);
        if (t->rows[i] <= t->rows[i - 1] || t->rows[i] >> (8 * width - 1 - t->shift))
            return wc_invalid("steps-contexts");
    }
    for (i = 0; i < t->n; i++) WC_TRY(wc_read_frequencies(s, at, t->starts[i]));
    for (; *at % 4; (*at)++)
        if (s.at[*at]) return wc_malformed("steps-length");
    return wc_ok();
}

/* Read a step. The stream is broken if it has more bits than an element. */
static inline uint64_t wc_next_step(const wc_tables *t, wc_lanes *lanes, unsigned lane, uint64_t old, unsigned width) {
    unsigned context = 0, row = t->n > 1 ? wc_row(old, width, t->shift) : 0, symbol = 0, left, bits;
    uint64_t slot = wc_slot(lanes, lane, 12), step;
    while (context + 1 < t->n && t->rows[context + 1] <= row) context++;
    while (t->starts[context][symbol + 1] <= slot) symbol++;
    wc_leave(lanes, lane, t->starts[context][symbol], t->starts[context][symbol + 1], 12);
    if (symbol < 16) return symbol;
    left = (symbol - 8) / 2 - 1;
    step = 2 + symbol % 2;
    if (left + 2 > 8 * width) lanes->broken = 1;
    for (bits = left % 16 ? left % 16 : 16; left && !lanes->broken; left -= bits, bits = 16) {
        uint64_t raw = wc_slot(lanes, lane, bits);
        wc_leave(lanes, lane, raw, raw + 1, bits);
        step = step << bits | raw;
    }
    return step;
}

static inline void wc_put_number(uint8_t *at, unsigned width, uint64_t number) {
    unsigned j;
    for (j = 0; j < width; j++) at[j] = (uint8_t)(number >> 8 * j);
}

/* Change the present elements of an entry. */
static inline wc_status wc_apply_steps(wc_bytes s, uint8_t *elements, unsigned width, const uint64_t *indices,
                                       uint64_t r, wc_tables *t) {
    uint64_t at, i;
    wc_lanes lanes;
    WC_TRY(wc_read_tables(s, width, t, &at));
    lanes = wc_start_lanes(s.at + at, s.size - at, s.at[1] & 2 ? 4 : 1);
    for (i = 0; i < r && !lanes.broken; i++) {
        uint8_t *element = elements + indices[i] * width;
        uint64_t old = wc_number(element, width);
        uint64_t step = wc_next_step(t, &lanes, (unsigned)(i % lanes.n), old, width);
        wc_put_number(element, width, wc_take_step(old, step, width, s.at[1] & 1));
    }
    return wc_ends(&lanes) ? wc_ok() : wc_invalid("steps-stream");
}

/* ---- Value codec zstd (value/zstd.md) --------------------------------------------------------------------------- */

/* Check the header of a frame; *at is the offset of its first block then, and *most the greatest size of a block. */
static inline wc_status wc_check_frame(wc_bytes frame, uint64_t size, uint64_t *at, uint64_t *most) {
    unsigned s, single;
    uint64_t stated, window;
    if (frame.size < 5 || wc_u32(frame.at) != 0xFD2FB528u) return wc_malformed("zstd-frame");
    s = frame.at[4] >> 6;
    single = frame.at[4] >> 5 & 1;
    if (frame.at[4] & 31 || (s == 0 && !single)) return wc_malformed("zstd-header");
    *at = 6 - single + ((uint64_t)1 << s);
    if (frame.size < *at) return wc_malformed("zstd-frame");
    stated = wc_number(frame.at + 6 - single, 1u << s) + (s == 1 ? 256 : 0);
    if (stated != size) return wc_invalid("zstd-size");
    window = single ? stated : (uint64_t)(8 + (frame.at[5] & 7)) << (7 + (frame.at[5] >> 3));
    if (window > (uint64_t)1 << 23) return wc_invalid("zstd-window");
    *most = wc_min(window, (uint64_t)1 << 17);
    return wc_ok();
}

/* Check the headers of the blocks, from the first on. */
static inline wc_status wc_check_blocks(wc_bytes frame, uint64_t at, uint64_t most) {
    unsigned last = 0;
    while (!last) {
        uint64_t header, size;
        if (frame.size - at < 3) return wc_malformed("zstd-block");
        header = wc_number(frame.at + at, 3);
        last = header & 1;
        size = header >> 3;
        if ((header >> 1 & 3) == 3 || size > most) return wc_malformed("zstd-block");
        if ((header >> 1 & 3) == 1) size = 1;
        if (frame.size - at - 3 < size) return wc_malformed("zstd-block");
        at += 3 + size;
    }
    return at == frame.size ? wc_ok() : wc_malformed("zstd-trailing");
}

/* Numbers that are stored one after the other, or in byte planes: byte j of number i is at[i * number + j * byte]. */
typedef struct wc_content {
    const uint8_t *at;
    uint64_t number, byte;
} wc_content;

static inline wc_content wc_content_at(const uint8_t *at, uint64_t number, uint64_t byte) {
    wc_content content;
    content.at = at;
    content.number = number;
    content.byte = byte;
    return content;
}

/* Copy number i, as little-endian bytes. */
static inline void wc_copy_content(const wc_content *content, uint64_t i, uint8_t *out, unsigned width) {
    unsigned j;
    for (j = 0; j < width; j++) out[j] = content->at[i * content->number + j * content->byte];
}

/* Read a section of zstd into the buffer of the content. */
static inline wc_status wc_read_zstd(const wc_patch *patch, wc_bytes s, uint64_t r, unsigned width, wc_content *content) {
    wc_bytes frame;
    uint64_t at, most, size = r * width;
    if (s.at[0] > 1) return wc_malformed("zstd-parameter");
    frame.at = s.at + 1;
    frame.size = s.size - 1;
    WC_TRY(wc_check_frame(frame, size, &at, &most));
    WC_TRY(wc_check_blocks(frame, at, most));
    if (!patch->zstd->decompress(patch->zstd->context, frame.at, (size_t)frame.size, patch->content, (size_t)size))
        return wc_malformed("zstd-content");
    *content = s.at[0] ? wc_content_at(patch->content, 1, r) : wc_content_at(patch->content, width, 1);
    return wc_ok();
}

/* ---- Entries ------------------------------------------------------------------------------------------------------ */

static inline wc_bytes wc_value_section(const wc_patch *patch, const wc_entry *e, uint64_t at) {
    wc_bytes section;
    section.at = patch->reader.data + at + wc_padded(e->index_len);
    section.size = e->value_len;
    return section;
}

/* Decode the indices of an entry whose sections are at `at`, given its old elements. */
static inline wc_status wc_patch_indices(const wc_patch *patch, const wc_entry *e, uint64_t at, const uint8_t *old,
                                         unsigned width) {
    wc_bytes s;
    wc_index x;
    uint64_t i;
    s.at = patch->reader.data + at;
    s.size = e->index_len;
    for (i = 0; i < e->r && e->r == e->d; i++) patch->indices[i] = i;
    if (e->index_len == 0) return wc_ok();
    if (e->index == WC_BY_CLASS) return wc_read_by_class(s, old, width, e->d, e->r, patch->indices);
    memset(&x, 0, sizeof x);
    x.at = s.at;
    x.len = s.size;
    x.d = e->d;
    x.r = e->r;
    x.out = patch->indices;
    return wc_read_index(e->index, &x);
}

/* Read the numbers of an entry: its elements, or its steps. */
static inline wc_status wc_read_content(const wc_patch *patch, const wc_entry *e, wc_bytes s, unsigned width,
                                        wc_content *content) {
    if (e->value == WC_STEPS_ZSTD) {
        if (s.at[0] > 1 || s.size < 2) return wc_malformed("steps-head");
        s.at++;
        s.size--;
    }
    if (e->value != 1) return wc_read_zstd(patch, s, e->r, width, content);
    if (s.size != (uint64_t)e->r * width) return wc_malformed("raw-length");
    *content = wc_content_at(s.at, width, 1);
    return wc_ok();
}

/* Change the present elements of an entry; `elements` has all of it. Rows 48 and 48a. */
static inline wc_status wc_change_elements(const wc_patch *patch, const wc_entry *e, uint64_t at, uint8_t *elements,
                                           int dtype) {
    wc_bytes s = wc_value_section(patch, e, at);
    unsigned width = wc_width(dtype);
    wc_content content;
    uint64_t i;
    if (e->r == 0) return wc_ok();
    if (e->value == WC_STEPS) {
        WC_TRY(wc_apply_steps(s, elements, width, patch->indices, e->r, patch->tables));
    } else {
        WC_TRY(wc_read_content(patch, e, s, width, &content));
        for (i = 0; i < e->r; i++) {
            uint8_t *element = elements + patch->indices[i] * width;
            uint64_t old = wc_number(element, width);
            wc_copy_content(&content, i, element, width);
            if (e->value == WC_STEPS_ZSTD)
                wc_put_number(element, width, wc_take_step(old, wc_number(element, width), width, s.at[0]));
        }
    }
    for (i = 0; i < e->r && dtype == WC_BOOL; i++)
        if (elements[patch->indices[i]] > 1) return wc_invalid("bool-value");
    return wc_ok();
}

/* ---- Applying ----------------------------------------------------------------------------------------------------- */

/* Add the present elements of an entry to the sums of their tensors. `elements` are those of the key. */
static inline void wc_touch(const wc_patch *patch, const wc_key *key, const wc_entry *e, const uint8_t *elements) {
    uint64_t i, j = 0, start = 0;
    for (i = 0; i < e->r; i++) {
        uint64_t at = e->base + patch->indices[i];
        wc_match *match;
        while (at - start >= patch->reader.tensors[wc_member_key(key, j)].size)
            start += patch->reader.tensors[wc_member_key(key, j++)].size;
        match = &patch->matches[wc_member_key(key, j)];
        match->sum += wc_fold(wc_number(elements + at * key->width, key->width), at - start + 1);
        match->present++;
    }
}

static inline void wc_clear_sums(const wc_patch *patch, const wc_key *key) {
    uint64_t j;
    for (j = 0; j < key->n; j++) {
        wc_match *match = &patch->matches[wc_member_key(key, j)];
        match->sum = match->present = 0;
    }
}

/* Read the indices of all entries of a key, and change their elements if `changes`. The sums of a touched patch are those
 * of the elements afterwards. */
static inline wc_status wc_read_key(const wc_patch *patch, const wc_key *key, int changes) {
    uint64_t i, at = key->payload;
    wc_clear_sums(patch, key);
    for (i = key->first; i < key->end; i++) {
        wc_entry e = wc_entry_at(&patch->reader, i);
        uint8_t *elements = patch->elements + e.base * key->width;
        WC_TRY(wc_patch_indices(patch, &e, at, elements, key->width));
        if (changes) WC_TRY(wc_change_elements(patch, &e, at, elements, key->dtype));
        if (patch->touched) wc_touch(patch, key, &e, patch->elements);
        at += wc_payload_bytes(&e);
    }
    return wc_ok();
}

/* Return the digest of member j with other elements, which its pair is compared with. */
static inline uint64_t wc_member_digest(const wc_patch *patch, const wc_key *key, uint64_t j, const uint8_t *bytes) {
    const wc_match *match = &patch->matches[wc_member_key(key, j)];
    wc_weights tensor = *wc_old(patch, key, j);
    tensor.bytes = bytes;
    return patch->touched ? wc_close(match->sum + wc_shape_digest(&tensor), match->present) : wc_seal(&tensor);
}

/* The check of `base` for a key; *complete is set if all its tensors are those of the target. */
static inline wc_status wc_check_own(const wc_patch *patch, const wc_key *key, int *complete) {
    uint64_t j, old = 0, done = 0; /* a tensor that the patch does not change counts for both */
    const uint8_t *bytes = patch->elements;
    for (j = 0; j < key->n; j++) {
        uint32_t member = wc_member_key(key, j);
        uint64_t own = wc_member_digest(patch, key, j, bytes);
        old += own == wc_before(patch, member);
        done += own == wc_after(patch, member);
        bytes += patch->reader.tensors[member].size * key->width;
    }
    *complete = done == key->n;
    return old == key->n || *complete ? wc_ok() : wc_refuse(WC_SCHEMA_MISMATCH, "base");
}

/* Make the new elements of the partial tensors of a key. */
static inline wc_status wc_apply_partial(wc_patch *patch, const wc_key *key) {
    uint64_t j;
    uint8_t *bytes = patch->elements;
    int complete;
    for (j = 0; j < key->n; j++) {
        uint64_t size = patch->reader.tensors[wc_member_key(key, j)].size * key->width;
        if (size) memcpy(bytes, wc_old(patch, key, j)->bytes, (size_t)size);
        bytes += size;
    }
    if (patch->touched) WC_TRY(wc_read_key(patch, key, 0));
    WC_TRY(wc_check_own(patch, key, &complete));
    *(complete ? &patch->n_complete : &patch->n_changed) += key->n;
    if (complete) return wc_ok();
    WC_TRY(wc_read_key(patch, key, 1));
    bytes = patch->elements;
    for (j = 0; j < key->n; j++) {
        uint32_t member = wc_member_key(key, j);
        if (wc_member_digest(patch, key, j, bytes) != wc_after(patch, member)) return wc_invalid("base-target");
        patch->matches[member].made = bytes;
        bytes += patch->reader.tensors[member].size * key->width;
    }
    patch->elements += wc_padded(key->d * key->width);
    return wc_ok();
}

/* Return the tensor of a whole key with its new elements. */
static inline wc_weights wc_whole(const wc_patch *patch, uint32_t key) {
    const wc_tensor *tensor = &patch->reader.tensors[key];
    wc_weights made;
    made.name = tensor->name;
    made.name_len = tensor->name_len;
    made.dtype = tensor->dtype;
    made.ndim = tensor->ndim;
    made.shape = patch->matches[key].shape;
    made.bytes = patch->matches[key].made;
    return made;
}

/* Make the elements of a whole tensor. */
static inline wc_status wc_apply_whole(wc_patch *patch, const wc_key *key) {
    const wc_tensor *tensor = &patch->reader.tensors[key->key];
    wc_match *match = &patch->matches[key->key];
    uint64_t i, j, at = key->payload, own;
    uint8_t *out = patch->elements;
    wc_weights made;
    if (match->has_base) {
        own = wc_seal(wc_old(patch, key, 0));
        if (own == wc_after(patch, key->key)) {
            patch->n_complete++;
            return wc_ok();
        }
        if (own != wc_before(patch, key->key)) return wc_refuse(WC_SCHEMA_MISMATCH, "base");
    }
    for (i = key->first; i < key->end; i++) {
        wc_entry e = wc_entry_at(&patch->reader, i);
        wc_content content;
        if (e.r) WC_TRY(wc_read_content(patch, &e, wc_value_section(patch, &e, at), key->width, &content));
        for (j = 0; j < e.r; j++, out += key->width) {
            wc_copy_content(&content, j, out, key->width);
            if (key->dtype == WC_BOOL && *out > 1) return wc_invalid("bool-value");
        }
        at += wc_payload_bytes(&e);
    }
    patch->n_changed++;
    match->made = patch->elements;
    match->shape = patch->dimensions;
    for (i = 0; i < tensor->ndim; i++) *patch->dimensions++ = wc_dimension(tensor, (unsigned)i);
    made = wc_whole(patch, key->key);
    if (wc_seal(&made) != wc_after(patch, key->key)) return wc_invalid("base-target");
    patch->elements += wc_padded(key->d * key->width);
    return wc_ok();
}

/* Return the tensor that the new state has in place of one of the patch: that of the state, with new elements if there are. */
static inline wc_weights wc_patched(const wc_patch *patch, uint32_t key) {
    const wc_match *match = &patch->matches[key];
    wc_weights tensor;
    if (match->shape) return wc_whole(patch, key);
    tensor = patch->base.tensors[match->at];
    if (match->made) tensor.bytes = match->made;
    return tensor;
}

/* The checks of removed tensors, and of those that the patch neither has nor removes. */
static inline wc_status wc_check_rest(wc_patch *patch) {
    const wc_reader *reader = &patch->reader;
    const uint8_t *body = reader->records[WC_BASE].at;
    uint64_t i, key = 0, count = 0, rest = 0;
    wc_removed removed;
    memset(&removed, 0, sizeof removed);
    for (i = 0; i < patch->base.count; i++) {
        const wc_weights *tensor = &patch->base.tensors[i];
        while (key < reader->n_tensors && (patch->matches[key].at < i || !patch->matches[key].has_base)) key++;
        if (key < reader->n_tensors && patch->matches[key].at == i) continue;
        if (wc_is_removed(patch, &removed, tensor->name, tensor->name_len)) {
            if (wc_seal(tensor) != removed.digest) return wc_refuse(WC_SCHEMA_MISMATCH, "base");
            patch->n_changed++;
        } else if (!patch->touched && !patch->base.is_part) {
            rest += wc_close(wc_seal(tensor), wc_text_digest(tensor->name, tensor->name_len));
            count++;
        }
    }
    if (patch->touched || patch->base.is_part) return wc_ok();
    if (count != wc_u32(body + 8)) return wc_refuse(WC_SCHEMA_MISMATCH, "base-tensors");
    return rest == wc_u64(body + 16) ? wc_ok() : wc_refuse(WC_SCHEMA_MISMATCH, "base");
}

/* List the tensors of the new state. */
static inline wc_state wc_merge_states(const wc_patch *patch, wc_weights *out) {
    const wc_weights *old = patch->base.tensors;
    uint64_t i = 0, n = 0;
    uint32_t key;
    wc_removed removed;
    wc_state target = patch->base;
    memset(&removed, 0, sizeof removed);
    for (key = 0; key <= patch->reader.n_tensors; key++) {
        const wc_match *match = &patch->matches[key]; /* of the last key: the end of the state */
        for (; i < match->at; i++)
            if (!wc_is_removed(patch, &removed, old[i].name, old[i].name_len)) out[n++] = old[i];
        if (match->has_base || match->made) out[n++] = wc_patched(patch, key);
        i += (uint64_t)match->has_base;
    }
    target.tensors = out;
    target.count = n;
    return target;
}

/* ---- The steps of a reader ------------------------------------------------------------------------------------------ */

/* Open a patch of exactly `size` bytes. NULL limits are the defaults. Without a decompressor, value codecs 7 and 17 are
 * refused. On WC_OK, `describe_size` is the buffer size of wc_describe_patch. */
static inline wc_status wc_open_patch(wc_patch *patch, const void *data, size_t size, const wc_limits *limits,
                                      const wc_decompressor *zstd) {
    memset(patch, 0, sizeof *patch);
    wc_begin(&patch->reader, data, size, limits, NULL);
    patch->reader.based = 1;
    patch->reader.zstd = zstd != NULL;
    patch->zstd = zstd;
    WC_TRY(wc_check_head(&patch->reader));
    patch->describe_size = patch->reader.describe_size +
                           wc_aligned(((uint64_t)patch->reader.n_tensors + 1) * (sizeof(wc_match) + WC_DIGITS));
    return wc_ok();
}

/* Name the tensors by their keys (SPEC 3.1), if the container does not. */
static inline void wc_name_by_keys(wc_reader *reader, char *digits) {
    unsigned width = 1, i;
    uint32_t key, left;
    if (reader->records[WC_NAMES].at || reader->n_tensors == 0) return;
    for (left = reader->n_tensors - 1; left >= 10; left /= 10) width++;
    for (key = 0; key < reader->n_tensors; key++, digits += width) {
        for (i = width, left = key; i-- > 0; left /= 10) digits[i] = (char)('0' + left % 10);
        reader->tensors[key].name = digits;
        reader->tensors[key].name_len = width;
    }
}

/* Find the tensors of the container in the state. Both ascend. */
static inline void wc_find_bases(wc_patch *patch) {
    uint64_t i = 0;
    uint32_t key;
    for (key = 0; key < patch->reader.n_tensors; key++) {
        const wc_tensor *tensor = &patch->reader.tensors[key];
        int order = 1;
        for (; i < patch->base.count; i++) {
            const wc_weights *old = &patch->base.tensors[i];
            order = wc_compare(old->name, old->name_len, tensor->name, tensor->name_len);
            if (order >= 0) break;
        }
        patch->matches[key].at = i;
        patch->matches[key].has_base = i < patch->base.count && order == 0;
    }
    patch->matches[key].at = patch->base.count;
}

/* Set `apply_size`. The first key that does not fit the state ends the count, because it will be refused. So sizes that the
 * state does not confirm are those of whole tensors alone, which the limits bound. */
static inline void wc_count_memory(wc_patch *patch) {
    const wc_reader *reader = &patch->reader;
    uint64_t i;
    int left_out;
    wc_key key;
    memset(&key, 0, sizeof key);
    patch->most_present = patch->most_content = patch->n_dimensions = patch->n_bytes = 0;
    while (wc_next_key(reader, &key) && wc_check_members(patch, &key, &left_out).kind == WC_OK) {
        if (left_out) continue;
        for (i = key.first; i < key.end; i++) {
            wc_entry e = wc_entry_at(reader, i);
            if (!key.whole) patch->most_present = wc_max(patch->most_present, e.r);
            if (e.value == WC_ZSTD || e.value == WC_STEPS_ZSTD)
                patch->most_content = wc_max(patch->most_content, (uint64_t)e.r * key.width);
        }
        if (key.whole) patch->n_dimensions += reader->tensors[key.key].ndim;
        patch->n_bytes += wc_padded(key.d * key.width);
    }
    patch->apply_size = wc_aligned((patch->base.count + reader->n_tensors) * sizeof(wc_weights) +
                                   8 * (patch->n_dimensions + patch->most_present) + wc_padded(sizeof(wc_tables)) +
                                   wc_padded(patch->most_content) + patch->n_bytes);
}

/* Find the tensors of the patch, in a buffer of `describe_size` bytes, and compare names, types and sizes with those of a
 * state. On WC_OK, `apply_size` is the buffer size of wc_apply_patch. */
static inline wc_status wc_describe_patch(wc_patch *patch, const wc_state *base, void *buffer, uint64_t size) {
    wc_reader *reader = &patch->reader;
    uint64_t n = (uint64_t)reader->n_tensors + 1;
    if (size < patch->describe_size) return wc_refuse(WC_BUFFER, "describe-buffer");
    WC_TRY(wc_describe(reader, buffer, reader->describe_size));
    if (!reader->records[WC_BASE].at) return wc_refuse(WC_UNSUPPORTED, "base-absent");
    patch->base = *base;
    patch->matches = (wc_match *)(void *)wc_align((uint8_t *)buffer + reader->describe_size);
    memset(patch->matches, 0, (size_t)(n * sizeof(wc_match)));
    wc_name_by_keys(reader, (char *)(patch->matches + n));
    WC_TRY(wc_check_base(patch));
    WC_TRY(wc_check_removed(patch));
    WC_TRY(wc_check_keys(patch));
    WC_TRY(wc_check_payload(reader));
    wc_find_bases(patch);
    wc_count_memory(patch);
    return wc_ok();
}

/* Make the new state, in a buffer of `apply_size` bytes. On WC_OK, `target` is set, and its tensors ascend by their names. */
static inline wc_status wc_apply_patch(wc_patch *patch, void *buffer, uint64_t size) {
    wc_weights *target;
    int left_out;
    wc_key key;
    if (size < patch->apply_size) return wc_refuse(WC_BUFFER, "apply-buffer");
    target = (wc_weights *)(void *)wc_align(buffer);
    patch->dimensions = (uint64_t *)(void *)(target + patch->base.count + patch->reader.n_tensors);
    patch->indices = patch->dimensions + patch->n_dimensions;
    patch->n_complete = patch->n_changed = 0;
    patch->tables = (wc_tables *)(void *)(patch->indices + patch->most_present);
    patch->content = (uint8_t *)patch->tables + wc_padded(sizeof(wc_tables));
    patch->elements = patch->content + wc_padded(patch->most_content);
    memset(&key, 0, sizeof key);
    while (wc_next_key(&patch->reader, &key)) {
        WC_TRY(wc_check_members(patch, &key, &left_out));
        if (left_out) continue;
        WC_TRY(key.whole ? wc_apply_whole(patch, &key) : wc_apply_partial(patch, &key));
    }
    WC_TRY(wc_check_rest(patch));
    patch->target = wc_merge_states(patch, target);
    return wc_ok();
}

#endif
