/* Split the stream of the standard input and print its parts.
 *
 *     split [-m | -s] [PIECE] [JSON]
 *
 * This is a program as formats/vectors/README.md, "Testing a splitter of streams", requires. JSON is its argument; without it, units
 * are returned and the limits are the defaults. Parts are read in pieces of PIECE bytes. With -m, the stream is read into memory first. With
 * -s, the source gives at most 3 bytes at a time, as a socket may.
 */

#include "wirecodec_stream.h"

#include <inttypes.h>
#include <stdlib.h>

/* Bytes that grow as more arrive, so that memory follows what is there, not what is stated. */
typedef struct buffer {
    uint8_t *at;
    size_t size, room;
} buffer;

/* Return room for n more bytes. */
static uint8_t *extend(buffer *b, size_t n) {
    if (b->room - b->size < n) {
        b->room = 2 * b->room + n;
        b->at = (uint8_t *)realloc(b->at, b->room);
        if (!b->at) {
            fputs("split: out of memory\n", stderr);
            exit(2);
        }
    }
    return b->at + b->size;
}

/* Read a part to its end; keep its bytes if it is a unit. */
static wc_status read_part(wc_splitter *splitter, const wc_part *part, size_t piece, buffer *body) {
    wc_status status;
    size_t count;
    body->size = 0;
    do {
        status = wc_read_part(splitter, extend(body, piece), piece, &count);
        if (part->kind == WC_UNIT) body->size += count;
    } while (status.kind == WC_OK && count);
    if (count) abort(); /* an error gives no bytes */
    return status;
}

static void print_part(const wc_part *part, const buffer *body) {
    size_t i;
    if (part->kind == WC_CONTAINER_PART) {
        printf("{\"container\": %" PRIu64 "}", part->size);
        return;
    }
    printf("{\"application\": %" PRIu32 ", \"body\": \"", part->application);
    for (i = 0; i < body->size; i++) printf("%02x", body->at[i]);
    fputs("\"}", stdout);
}

/* Print the parts and the result. Units are skipped if `units` is 0. */
static void split(wc_splitter *splitter, int units, size_t piece) {
    wc_status status;
    wc_part part;
    buffer body = {NULL, 0, 0};
    const char *before = "";
    fputs("{\"parts\": [", stdout);
    while ((status = wc_next_part(splitter, &part)).kind == WC_OK && part.kind != WC_END) {
        if (part.kind == WC_UNIT && !units) continue;
        status = read_part(splitter, &part, piece, &body);
        if (status.kind != WC_OK) break;
        fputs(before, stdout);
        print_part(&part, &body);
        before = ", ";
    }
    free(body.at);
    if (status.kind != WC_OK) status = wc_next_part(splitter, &part); /* the same error: it is final */
    if (status.kind == WC_OK) {
        puts("], \"result\": \"ok\"}");
    } else {
        printf("], \"result\": \"%s\", \"code\": \"%s\"}\n", wc_kind_name(status.kind), status.code);
    }
}

/* A source that gives fewer bytes than are asked for, though more will come. */
static size_t short_source(void *context, uint8_t *out, size_t n) {
    return wc_file_source(context, out, n < 3 ? n : 3);
}

/* Return the limits in the JSON argument, whose only number after "max_bytes" is that limit. */
static wc_limits limits_in(const char *json) {
    wc_limits limits = wc_default_limits();
    const char *at = strstr(json, "\"max_bytes\"");
    if (at) limits.max_bytes = strtoull(at + strcspn(at, "0123456789"), NULL, 10);
    return limits;
}

int main(int argc, char **argv) {
    const char *json = argc > 1 && argv[argc - 1][0] == '{' ? argv[argc - 1] : "{}";
    wc_limits limits = limits_in(json);
    int memory = argc > 1 && strcmp(argv[1], "-m") == 0, is_short = argc > 1 && strcmp(argv[1], "-s") == 0;
    int first = 1 + (memory || is_short);
    size_t piece = argc > first ? (size_t)strtoull(argv[first], NULL, 10) : 0, n;
    buffer input = {NULL, 0, 0};
    wc_bytes bytes;
    wc_splitter splitter = wc_split(is_short ? short_source : wc_file_source, stdin, &limits);
    if (memory) {
        while ((n = fread(extend(&input, 4096), 1, 4096, stdin)) > 0) input.size += n;
        bytes.at = input.at;
        bytes.size = input.size;
        splitter = wc_split(wc_memory_source, &bytes, &limits);
    }
    split(&splitter, strstr(json, "\"containers\"") == NULL, piece ? piece : 4096);
    free(input.at);
    return ferror(stdin) ? 2 : 0;
}
