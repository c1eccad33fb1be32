/* List the tensors of a closed stream by its index.
 *
 *     index [-v] FILE      name, type, shape, and the container's offset and length; with -v, containers are compared with their digests
 *     index JSON           the stream of the standard input, as JSON
 *
 * The second form is a program as formats/vectors/README.md, "Closed streams", requires. JSON is its argument. The first one reads the end
 * and the index, and the containers only to compare them.
 */

#include "wirecodec_index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const dtypes[] = {
    "", "float32", "float16", "bfloat16", "float64", "", "", "", "", "", "", "", "", "", "", "",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "float8_e8m0fnu", "float4_e2m1fn_x2"};

static void fail(const char *message) {
    fprintf(stderr, "index: %s\n", message);
    exit(2);
}

/* Print a name, escaped as in JSON. */
static void print_name(const wc_indexed_tensor *listed) {
    size_t i;
    putchar('"');
    for (i = 0; i < listed->name_len; i++) {
        unsigned byte = (unsigned char)listed->name[i];
        if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F) printf("\\u%04x", byte);
        else putchar((int)byte);
    }
    putchar('"');
}

static void print_shape(const wc_indexed_tensor *listed) {
    unsigned i;
    putchar('[');
    for (i = 0; i < listed->ndim; i++) printf(i ? ", %" PRIu64 : "%" PRIu64, wc_indexed_dimension(listed, i));
    putchar(']');
}

static void print_json(const wc_stream_index *index) {
    wc_indexed_tensor listed;
    uint32_t i, j;
    int more;
    memset(&listed, 0, sizeof listed);
    more = wc_next_indexed(index, &listed);
    fputs("{\"result\": \"ok\", \"index\": [", stdout);
    for (i = 0; i < index->n_parts; i++) {
        wc_indexed_part part = wc_part_at(index, i);
        const char *before = "";
        printf("%s{\"offset\": %" PRIu64 ", \"length\": %" PRIu64 ", \"digest\": \"", i ? ", " : "", part.offset, part.size);
        for (j = 0; j < 32; j++) printf("%02x", part.digest[j]);
        fputs("\", \"tensors\": [", stdout);
        for (; more && listed.part == i; more = wc_next_indexed(index, &listed)) {
            printf("%s{\"name\": ", before);
            print_name(&listed);
            printf(", \"dtype\": \"%s\", \"shape\": ", dtypes[listed.dtype]);
            print_shape(&listed);
            putchar('}');
            before = ", ";
        }
        fputs("]}", stdout);
    }
    puts("]}");
}

/* Return n bytes of a file at an offset; exit if they are not there. */
static uint8_t *read_range(FILE *file, uint64_t offset, uint64_t n) {
    uint8_t *bytes = n > SIZE_MAX / 2 ? NULL : (uint8_t *)malloc((size_t)n + 1);
    if (!bytes || fseek(file, (long)offset, SEEK_SET) || fread(bytes, 1, (size_t)n, file) != n) fail("a range cannot be read");
    return bytes;
}

static wc_status check_containers(FILE *file, const wc_stream_index *index) {
    wc_status status = wc_ok();
    uint32_t i;
    for (i = 0; i < index->n_parts && status.kind == WC_OK; i++) {
        wc_indexed_part part = wc_part_at(index, i);
        uint8_t *bytes = read_range(file, part.offset, part.size);
        status = wc_check_part(&part, bytes, part.size);
        free(bytes);
    }
    return status;
}

static void print_lines(const wc_stream_index *index) {
    wc_indexed_tensor listed;
    memset(&listed, 0, sizeof listed);
    while (wc_next_indexed(index, &listed)) {
        wc_indexed_part part = wc_part_at(index, listed.part);
        print_name(&listed);
        printf(" %s ", dtypes[listed.dtype]);
        print_shape(&listed);
        printf(" %" PRIu64 " %" PRIu64 "\n", part.offset, part.size);
    }
}

static int list(const char *path, int verify) {
    FILE *file = fopen(path, "rb");
    uint8_t *last, *unit = NULL;
    uint64_t size, n;
    wc_end end;
    wc_stream_index index;
    wc_status status;
    long length;
    if (!file || fseek(file, 0, SEEK_END) || (length = ftell(file)) < 0) {
        fail(path);
        return 2;
    }
    size = (uint64_t)length;
    n = size < WC_END_SIZE ? size : WC_END_SIZE;
    last = read_range(file, size - n, n);
    status = wc_read_end(&end, last, n, size, NULL);
    if (status.kind == WC_OK) {
        unit = read_range(file, end.index_offset, end.index_size);
        status = wc_read_stream_index(&index, &end, unit, end.index_size);
    }
    if (status.kind == WC_OK && verify) status = check_containers(file, &index);
    if (status.kind == WC_OK) print_lines(&index);
    else printf("%s: %s\n", wc_kind_name(status.kind), status.code);
    free(unit);
    free(last);
    fclose(file);
    return status.kind != WC_OK;
}

/* Read all of the standard input, exactly as long as it is, so that sanitizers see a read beyond it. */
static uint8_t *read_input(size_t *size) {
    uint8_t *bytes = NULL, *exact;
    size_t room = 0, n;
    *size = 0;
    do {
        room = 2 * room + 4096;
        bytes = (uint8_t *)realloc(bytes, room);
        if (!bytes) fail("out of memory");
        *size += n = fread(bytes + *size, 1, room - *size, stdin);
    } while (n);
    exact = (uint8_t *)malloc(*size ? *size : 1);
    if (!exact) fail("out of memory");
    if (*size) memcpy(exact, bytes, *size);
    free(bytes);
    return exact;
}

/* Answer the contract; the only number after "max_bytes" in the argument is that limit. */
static int answer(const char *json) {
    wc_limits limits = wc_default_limits();
    const char *at = strstr(json, "\"max_bytes\"");
    size_t size;
    uint8_t *data = read_input(&size);
    wc_end end;
    wc_stream_index index;
    wc_status status;
    if (at) limits.max_bytes = strtoull(at + strcspn(at, "0123456789"), NULL, 10);
    status = wc_read_end(&end, data, size, size, &limits);
    if (status.kind == WC_OK) status = wc_read_stream_index(&index, &end, data + end.index_offset, end.index_size);
    if (status.kind == WC_OK) print_json(&index);
    else printf("{\"result\": \"%s\", \"code\": \"%s\"}\n", wc_kind_name(status.kind), status.code);
    free(data);
    return ferror(stdin) ? 2 : 0;
}

int main(int argc, char **argv) {
    int verify = argc > 1 && strcmp(argv[1], "-v") == 0;
    if (argc == 2 && argv[1][0] == '{') return answer(argv[1]);
    if (argc != 2 + verify) fail("usage: index [-v] FILE");
    return list(argv[1 + verify], verify);
}
