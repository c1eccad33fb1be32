/* Apply patches of weights to a state.
 *
 *     patch STATE FILE … > NEW      the patches of each file, to the state that the one before makes: all, or none
 *     patch                         requests from standard input; each is answered before the next is read; for tests
 *
 * A state is, all little-endian: count u32, and for each tensor, ascending by name: name_len u32, dtype u32, ndim u32,
 * dimension u64 × ndim, the name, the elements. Compile with -DWITH_ZSTD and -lzstd to read Zstandard frames; without it,
 * value codecs 7 and 17 are refused.
 *
 * A request is, all little-endian: limits u64 × 6 in the order of wc_limits; flags u32, 1 if the state is a part, plus 2 if
 * frames can be asked for; the state; length u64 and the container. A question is a line "frame SIZE CONTENT_SIZE" and the
 * frame. Its answer is a byte, 1 for a valid frame, which its content follows, or 0. The answer to the request is a line
 * "refused KIND CODE", or a line "ok SIZE" and the new state.
 */

#include "wirecodec_patch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WITH_ZSTD
#include <zstd.h>
#endif

static void fail(const char *message) {
    fprintf(stderr, "patch: %s\n", message);
    exit(2);
}

/* Allocate at least one byte; never return NULL. */
static void *allocate(uint64_t size) {
    void *memory = size > SIZE_MAX ? NULL : malloc(size ? (size_t)size : 1);
    if (!memory) fail("out of memory");
    return memory;
}

static uint8_t *read_bytes(FILE *file, uint64_t n) {
    uint8_t *bytes = (uint8_t *)allocate(n);
    if (n && fread(bytes, 1, (size_t)n, file) != n) fail("the input ends early");
    return bytes;
}

static uint64_t read_number(FILE *file, unsigned width) {
    uint8_t bytes[8];
    if (fread(bytes, 1, width, file) != width) fail("the input ends early");
    return wc_number(bytes, width);
}

static void write_number(uint64_t number, unsigned width) {
    uint8_t bytes[8];
    wc_put_number(bytes, width, number);
    fwrite(bytes, 1, width, stdout);
}

/* ---- States ---- */

/* Read a tensor, whose parts are allocated. */
static wc_weights read_tensor(FILE *file) {
    wc_weights tensor;
    uint64_t *shape, count = 1;
    unsigned i;
    tensor.name_len = (size_t)read_number(file, 4);
    tensor.dtype = (int)read_number(file, 4);
    tensor.ndim = (unsigned)read_number(file, 4);
    shape = (uint64_t *)allocate(8 * (uint64_t)tensor.ndim);
    for (i = 0; i < tensor.ndim; i++) {
        shape[i] = read_number(file, 8);
        if (shape[i] && count > UINT64_MAX / 16 / shape[i]) fail("a tensor of the state is too large");
        count *= shape[i];
    }
    tensor.shape = shape;
    tensor.name = (const char *)read_bytes(file, tensor.name_len);
    tensor.bytes = read_bytes(file, count * wc_width(tensor.dtype));
    return tensor;
}

static wc_state read_state(FILE *file) {
    wc_state state;
    uint64_t i;
    wc_weights *tensors;
    state.count = read_number(file, 4);
    state.tensors = tensors = (wc_weights *)allocate(state.count * sizeof *tensors);
    state.is_part = 0;
    for (i = 0; i < state.count; i++) {
        tensors[i] = read_tensor(file);
        if (i && wc_compare(tensors[i - 1].name, tensors[i - 1].name_len, tensors[i].name, tensors[i].name_len) >= 0)
            fail("the names of the state are not ascending");
    }
    return state;
}

static void free_state(const wc_state *state) {
    uint64_t i;
    for (i = 0; i < state->count; i++) {
        free((void *)(uintptr_t)state->tensors[i].shape);
        free((void *)(uintptr_t)state->tensors[i].name);
        free((void *)(uintptr_t)state->tensors[i].bytes);
    }
    free((void *)(uintptr_t)state->tensors);
}

/* Return the number of bytes that write_state writes. */
static uint64_t state_size(const wc_state *state) {
    uint64_t size = 4, i;
    for (i = 0; i < state->count; i++) {
        const wc_weights *tensor = &state->tensors[i];
        size += 12 + 8 * (uint64_t)tensor->ndim + tensor->name_len + wc_weights_count(tensor) * wc_width(tensor->dtype);
    }
    return size;
}

static void write_state(const wc_state *state) {
    uint64_t i;
    unsigned j;
    write_number(state->count, 4);
    for (i = 0; i < state->count; i++) {
        const wc_weights *tensor = &state->tensors[i];
        write_number(tensor->name_len, 4);
        write_number((uint64_t)tensor->dtype, 4);
        write_number(tensor->ndim, 4);
        for (j = 0; j < tensor->ndim; j++) write_number(tensor->shape[j], 8);
        fwrite(tensor->name, 1, tensor->name_len, stdout);
        fwrite(tensor->bytes, wc_width(tensor->dtype), (size_t)wc_weights_count(tensor), stdout);
    }
}

/* ---- Patches ---- */

/* A patch that was applied, with its memory. */
typedef struct applied {
    wc_patch patch;
    void *described, *made;
} applied;

static wc_status apply(applied *step, const wc_state *base, const uint8_t *data, uint64_t size, const wc_limits *limits,
                       const wc_decompressor *zstd) {
    step->described = step->made = NULL;
    WC_TRY(wc_open_patch(&step->patch, data, (size_t)size, limits, zstd));
    step->described = allocate(step->patch.describe_size);
    WC_TRY(wc_describe_patch(&step->patch, base, step->described, step->patch.describe_size));
    step->made = allocate(step->patch.apply_size);
    return wc_apply_patch(&step->patch, step->made, step->patch.apply_size);
}

static void print_refusal(FILE *file, wc_status status) {
    fprintf(file, "refused %s %s\n", wc_kind_name(status.kind), status.code);
}

#ifdef WITH_ZSTD
/* Pass the last byte by itself: libzstd then checks the size of each block's content (value/zstd.md). */
static int decompress(void *context, const uint8_t *frame, size_t size, uint8_t *content, size_t content_size) {
    ZSTD_DCtx *decoder = ZSTD_createDCtx();
    ZSTD_inBuffer in = {frame, size - 1, 0};
    ZSTD_outBuffer out = {content, content_size, 0};
    size_t left;
    (void)context;
    if (!decoder) fail("out of memory");
    do left = ZSTD_decompressStream(decoder, &out, &in);
    while (!ZSTD_isError(left) && in.pos < in.size);
    in.size = size;
    if (!ZSTD_isError(left)) left = ZSTD_decompressStream(decoder, &out, &in);
    ZSTD_freeDCtx(decoder);
    return left == 0 && in.pos == size && out.pos == content_size;
}
#endif

/* Ask for the content of a frame. */
static int ask(void *context, const uint8_t *frame, size_t size, uint8_t *content, size_t content_size) {
    (void)context;
    printf("frame %" PRIu64 " %" PRIu64 "\n", (uint64_t)size, (uint64_t)content_size);
    fwrite(frame, 1, size, stdout);
    fflush(stdout);
    if (read_number(stdin, 1) == 0) return 0;
    if (content_size && fread(content, 1, content_size, stdin) != content_size) fail("the input ends early");
    return 1;
}

static void serve(void) {
    static const wc_decompressor asked = {ask, NULL};
    wc_limits limits;
    wc_state base;
    wc_status status;
    applied step;
    uint8_t *data;
    uint64_t flags, size;
    limits.max_bytes = read_number(stdin, 8);
    limits.max_entries = read_number(stdin, 8);
    limits.max_elements = read_number(stdin, 8);
    limits.max_dense = read_number(stdin, 8);
    limits.max_expansion = read_number(stdin, 8);
    limits.max_work = read_number(stdin, 8);
    flags = read_number(stdin, 4);
    base = read_state(stdin);
    base.is_part = flags & 1;
    size = read_number(stdin, 8);
    data = read_bytes(stdin, size);
    status = apply(&step, &base, data, size, &limits, flags & 2 ? &asked : NULL);
    if (status.kind == WC_OK) {
        printf("ok %" PRIu64 "\n", state_size(&step.patch.target));
        write_state(&step.patch.target);
    } else {
        print_refusal(stdout, status);
    }
    free(step.made);
    free(step.described);
    free(data);
    free_state(&base);
}

static FILE *open_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    return file;
}

/* Read a whole file. */
static uint8_t *read_file(const char *path, uint64_t *size) {
    FILE *file = open_file(path);
    uint8_t *bytes = NULL;
    size_t count, room = 0;
    *size = 0;
    do {
        room = 2 * room + 65536;
        bytes = (uint8_t *)realloc(bytes, room);
        if (!bytes) fail("out of memory");
        count = fread(bytes + *size, 1, room - (size_t)*size, file);
        *size += count;
    } while (*size == room);
    if (ferror(file)) fail(path);
    fclose(file);
    return bytes;
}

/* Return the length of the container at the front of these bytes: all of them if its own is false, for which it is refused. */
static uint64_t container_size(const uint8_t *data, uint64_t left) {
    uint64_t size = left < WC_PREFIX ? left : wc_u64(data + 16);
    return size < WC_PREFIX || size > left ? left : size;
}

/* Apply the patches of a file to *state. What that points to then lives as long as the program. */
static wc_status apply_file(const char *path, wc_state *state) {
    const wc_decompressor *zstd = NULL;
    uint64_t size, at = 0, n;
    uint8_t *data = read_file(path, &size);
#ifdef WITH_ZSTD
    static const wc_decompressor real = {decompress, NULL};
    zstd = &real;
#endif
    do {
        applied *step = (applied *)allocate(sizeof *step);
        n = container_size(data + at, size - at);
        WC_TRY(apply(step, state, data + at, n, NULL, zstd));
        if (step->patch.n_complete && step->patch.n_changed) fprintf(stderr, "%s: the state was half-written\n", path);
        *state = step->patch.target;
        at += n;
    } while (at < size);
    return wc_ok();
}

static int apply_files(const char *state, char **paths, int n) {
    FILE *file = open_file(state);
    wc_state target = read_state(file);
    int i;
    fclose(file);
    for (i = 0; i < n; i++) {
        wc_status status = apply_file(paths[i], &target);
        if (status.kind == WC_OK) continue;
        fprintf(stderr, "%s: ", paths[i]);
        print_refusal(stderr, status);
        return 1;
    }
    write_state(&target);
    if (fflush(stdout)) fail("the new state cannot be written");
    return 0;
}

int main(int argc, char **argv) {
    int next;
    if (argc > 1) return apply_files(argv[1], argv + 2, argc - 2);
    while ((next = getchar()) != EOF) {
        ungetc(next, stdin);
        serve();
        fflush(stdout);
    }
    return 0;
}
