/* Decode containers and print their content.
 *
 *     check FILE …      each file, with the default limits and without a schema
 *     check             requests from standard input; each is answered before the next is read; for tests
 *
 * A request is, all little-endian: limits u64 × 6 in the order of wc_limits; schema u32, 0 for none, 1 for one with
 * names, 2 for one tensor of any name; if it is not 0, count u32 and, for each tensor, name_len u32, dtype u32, ndim u32,
 * dimension u64 × ndim, the name; then length u64 and the container. An answer is one line "refused KIND CODE", or "ok N TAG" and, for each of the N tensors, a line
 * "tensor NAME DTYPE NDIM dimensions", one of its indices and one of its values. Name, tag and values are in hexadecimal, with
 * "-" for no bytes; values are little-endian elements. A patch has " unchanged" after its dimensions.
 * If there are metadata, the first line is "ok N TAG TEXTS", and TEXTS lines "text KEY NAME VALUE" come before the tensors.
 */

#include "wirecodec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void fail(const char *message) {
    fprintf(stderr, "check: %s\n", message);
    exit(2);
}

/* Allocate at least one byte; never return NULL. */
static void *allocate(uint64_t size) {
    void *memory = size > SIZE_MAX ? NULL : malloc(size ? (size_t)size : 1);
    if (!memory) fail("out of memory");
    return memory;
}

static void print_hex(const uint8_t *at, uint64_t n) {
    uint64_t i;
    if (n == 0) putchar('-');
    for (i = 0; i < n; i++) printf("%02x", at[i]);
}

/* Print a number's little-endian bytes, on machines of any byte order. */
static void print_number(const uint8_t *at, unsigned width) {
    unsigned j;
    uint64_t bits = 0;
    uint32_t single;
    uint16_t half;
    if (width == 8) {
        memcpy(&bits, at, 8);
    } else if (width == 4) {
        memcpy(&single, at, 4);
        bits = single;
    } else if (width == 2) {
        memcpy(&half, at, 2);
        bits = half;
    } else {
        bits = at[0];
    }
    for (j = 0; j < width; j++) printf("%02x", (unsigned)(bits >> 8 * j & 255));
}

/* Print an element: a complex number is two numbers. */
static void print_element(const wc_tensor *tensor, uint64_t i) {
    unsigned width = wc_width(tensor->dtype), part = wc_number_width(tensor->dtype), j;
    for (j = 0; j < width; j += part) print_number((const uint8_t *)tensor->values + i * width + j, part);
}

/* Print a tensor. `width` is the number of digits of a key that serves as name. */
static void print_tensor(const wc_tensor *tensor, uint32_t key, int width) {
    static const char *const dtypes[] = {
        "", "float32", "float16", "bfloat16", "float64", "", "", "", "", "", "", "", "", "", "", "",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
        "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "float8_e8m0fnu", "float4_e2m1fn_x2"};
    char digits[16];
    uint64_t i;
    printf("tensor ");
    if (tensor->name) {
        print_hex((const uint8_t *)tensor->name, tensor->name_len);
    } else {
        int n = snprintf(digits, sizeof digits, "%0*" PRIu32, width, key);
        print_hex((const uint8_t *)digits, (uint64_t)n);
    }
    printf(" %s %u", dtypes[tensor->dtype], (unsigned)tensor->ndim);
    for (i = 0; i < tensor->ndim; i++) printf(" %" PRIu64, wc_dimension(tensor, (unsigned)i));
    puts(tensor->absent == WC_UNCHANGED ? " unchanged" : "");
    for (i = 0; i < tensor->count; i++) printf(i ? " %" PRIu64 : "%" PRIu64, tensor->indices[i]);
    putchar('\n');
    if (tensor->count == 0) putchar('-');
    for (i = 0; i < tensor->count; i++) print_element(tensor, i);
    putchar('\n');
}

static void print_texts(const wc_reader *reader) {
    wc_text text;
    uint64_t at = 0;
    uint32_t i = 0;
    while (wc_next_text(reader, &i, &at, &text)) {
        printf("text %" PRIu32 " ", text.key);
        print_hex(text.name.at, text.name.size);
        putchar(' ');
        print_hex(text.value.at, text.value.size);
        putchar('\n');
    }
}

/* Decode one container and print the answer; return 1 if it is refused. */
static int answer(const uint8_t *data, size_t size, const wc_limits *limits, const wc_schema *schema) {
    void *described = NULL, *decoded = NULL;
    wc_reader reader;
    uint32_t i;
    wc_status status = wc_open(&reader, data, size, limits, schema);
    if (status.kind == WC_OK) {
        described = allocate(reader.describe_size);
        status = wc_describe(&reader, described, reader.describe_size);
    }
    if (status.kind == WC_OK) {
        decoded = allocate(reader.read_size);
        status = wc_read(&reader, decoded, reader.read_size);
    }
    if (status.kind != WC_OK) {
        printf("refused %s %s\n", wc_kind_name(status.kind), status.code);
    } else {
        int width = snprintf(NULL, 0, "%" PRIu32, reader.n_tensors ? reader.n_tensors - 1 : 0);
        printf("ok %" PRIu32 " ", reader.n_tensors);
        print_hex(reader.tag.at, reader.tag.size);
        if (reader.n_texts) printf(" %" PRIu32, reader.n_texts);
        putchar('\n');
        print_texts(&reader);
        for (i = 0; i < reader.n_tensors; i++) print_tensor(&reader.tensors[i], i, width);
    }
    free(decoded);
    free(described);
    return status.kind != WC_OK;
}

/* Read exactly n bytes of a file. */
static uint8_t *read_bytes(FILE *file, uint64_t n) {
    uint8_t *bytes = (uint8_t *)allocate(n);
    if (n && fread(bytes, 1, (size_t)n, file) != n) fail("the input ends within a request");
    return bytes;
}

static uint64_t read_number(FILE *file, unsigned bytes) {
    uint8_t *at = read_bytes(file, bytes);
    uint64_t number = wc_number(at, bytes);
    free(at);
    return number;
}

static void read_expected(FILE *file, wc_expected *expected) {
    uint64_t *shape;
    unsigned i;
    expected->name_len = (size_t)read_number(file, 4);
    expected->dtype = (int)read_number(file, 4);
    expected->ndim = (unsigned)read_number(file, 4);
    shape = (uint64_t *)allocate(8 * (uint64_t)expected->ndim);
    for (i = 0; i < expected->ndim; i++) shape[i] = read_number(file, 8);
    expected->shape = shape;
    expected->name = (const char *)read_bytes(file, expected->name_len);
}

static void free_expected(wc_expected *tensors, uint32_t count) {
    uint32_t i;
    for (i = 0; i < count; i++) {
        free((void *)(uintptr_t)tensors[i].shape);
        free((void *)(uintptr_t)tensors[i].name);
    }
    free(tensors);
}

/* Answer one request. */
static void serve(FILE *file) {
    wc_limits limits;
    wc_schema schema;
    wc_expected *tensors = NULL;
    uint8_t *data;
    uint64_t size;
    uint32_t i, count;
    uint64_t expects;
    limits.max_bytes = read_number(file, 8);
    limits.max_entries = read_number(file, 8);
    limits.max_elements = read_number(file, 8);
    limits.max_dense = read_number(file, 8);
    limits.max_expansion = read_number(file, 8);
    limits.max_work = read_number(file, 8);
    expects = read_number(file, 4);
    count = expects ? (uint32_t)read_number(file, 4) : 0;
    if (count) tensors = (wc_expected *)allocate((uint64_t)count * sizeof *tensors);
    for (i = 0; i < count; i++) read_expected(file, &tensors[i]);
    schema.count = expects == 2 ? WC_ONE_TENSOR : count;
    schema.tensors = tensors;
    size = read_number(file, 8);
    data = read_bytes(file, size);
    answer(data, (size_t)size, &limits, expects ? &schema : NULL);
    free(data);
    free_expected(tensors, count);
}

/* Read a whole file; return NULL if that fails. */
static uint8_t *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long length;
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        *size = (size_t)length;
        bytes = read_bytes(file, (uint64_t)length);
    }
    fclose(file);
    return bytes;
}

int main(int argc, char **argv) {
    int i, refused = 0, next;
    for (i = 1; i < argc; i++) {
        size_t size = 0;
        uint8_t *data = read_file(argv[i], &size);
        if (!data) fail(argv[i]);
        refused |= answer(data, size, NULL, NULL);
        free(data);
    }
    if (argc > 1) return refused;
    while ((next = getchar()) != EOF) {
        ungetc(next, stdin);
        serve(stdin);
        fflush(stdout);
    }
    return 0;
}
