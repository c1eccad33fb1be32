/* Allocator with a guard page behind each block, to be loaded with LD_PRELOAD.
 *
 * guard_on(1) makes malloc, calloc, realloc, posix_memalign and aligned_alloc place each block at the end of its
 * last page. The next page cannot be read or written. The at most 15 bytes between a block's end and that page,
 * and the rest of the first page, hold a pattern that free() compares. So do new blocks of at most 1 MiB: a result
 * that depends on memory which was never written differs from one without the guard. A freed block cannot be used.
 *
 * NumPy keeps freed blocks of less than 1 KiB for later arrays. guard_handler takes that from it: a handler for
 * PyDataMem_SetHandler, which calls the functions here each time.
 *
 * A block is one page with its size, its pages, and the guard page, in one region that is used once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define REGION ((size_t)64 << 30)
#define PATTERN 0xCB

struct header {
    unsigned char *block;
    size_t size;
    size_t pages;
};

static unsigned char *region;
static size_t used;
static size_t blocks;
static volatile int on;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static void *(*real_aligned_alloc)(size_t, size_t);
static void (*real_free)(void *);

/* dlsym may call calloc before there is one. */
static unsigned char early[1 << 14];
static size_t early_used;

static void *early_block(size_t size)
{
    void *found = early + early_used;
    early_used += (size + 15) & ~(size_t)15;
    return early_used <= sizeof early ? found : NULL;
}

static int is_early(const void *p)
{
    return (const unsigned char *)p >= early && (const unsigned char *)p < early + sizeof early;
}

static int is_guarded(const void *p)
{
    return region != NULL && (const unsigned char *)p >= region && (const unsigned char *)p < region + REGION;
}

__attribute__((constructor)) static void find_functions(void)
{
    real_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    real_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    real_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    real_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    real_aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    real_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

static void die(const char *message)
{
    ssize_t written = write(2, message, strlen(message));
    (void)written;
    abort();
}

/* Switch guarding on or off; die if there is no room for the region. */
void guard_on(int value)
{
    if (region == NULL) {
        void *found = mmap(NULL, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found == MAP_FAILED)
            die("guard: no address space for 64 GiB\n");
        region = found;
    }
    on = value;
}

/* Return how many blocks were guarded so far. */
size_t guard_count(void)
{
    return blocks;
}

static void *guarded(size_t size, size_t alignment)
{
    if (size == 0)
        size = 1;
    size_t pages = (size + PAGE - 1) / PAGE;
    size_t whole = (pages + 2) * PAGE;
    size_t start = __atomic_fetch_add(&used, whole, __ATOMIC_SEQ_CST);
    if (start + whole > REGION)
        die("guard: the region is used up\n");
    if (mprotect(region + start, (pages + 1) * PAGE, PROT_READ | PROT_WRITE) != 0)
        die("guard: mprotect failed\n");
    __atomic_fetch_add(&blocks, 1, __ATOMIC_SEQ_CST);
    unsigned char *first = region + start + PAGE;
    unsigned char *end = first + pages * PAGE;
    if (alignment < 16)
        alignment = 16;
    unsigned char *block = (unsigned char *)((uintptr_t)(end - size) & ~(uintptr_t)(alignment - 1));
    if (pages <= 256) {
        memset(first, PATTERN, pages * PAGE);
    } else {
        memset(first, PATTERN, (size_t)(block - first));
        memset(block + size, PATTERN, (size_t)(end - block - size));
    }
    *(struct header *)(void *)(region + start) = (struct header){block, size, pages};
    return block;
}

static struct header *header_of(void *p)
{
    struct header *found = (struct header *)(((uintptr_t)p & ~(uintptr_t)(PAGE - 1)) - PAGE);
    if (found->block != p)
        die("guard: a pointer was freed that is no block\n");
    return found;
}

static void release(void *p)
{
    struct header *header = header_of(p);
    unsigned char *first = (unsigned char *)header + PAGE;
    unsigned char *end = first + header->pages * PAGE;
    for (unsigned char *at = first; at < header->block; at++)
        if (*at != PATTERN)
            die("guard: a byte before a block was written\n");
    for (unsigned char *at = header->block + header->size; at < end; at++)
        if (*at != PATTERN)
            die("guard: a byte behind a block was written\n");
    size_t length = (size_t)(end - (unsigned char *)header);
    if (madvise(header, length, MADV_DONTNEED) != 0 || mprotect(header, length, PROT_NONE) != 0)
        die("guard: mprotect failed\n");
}

void *malloc(size_t size)
{
    if (real_malloc == NULL)
        return early_block(size);
    return on ? guarded(size, 16) : real_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    if (real_calloc == NULL)
        return early_block(count * size);
    if (!on)
        return real_calloc(count, size);
    return memset(guarded(count * size, 16), 0, count * size);
}

void *realloc(void *p, size_t size)
{
    if (p == NULL)
        return malloc(size);
    if (!is_guarded(p) && !is_early(p))
        return real_realloc(p, size);
    size_t before = is_early(p) ? (size_t)(early + sizeof early - (unsigned char *)p) : header_of(p)->size;
    void *found = malloc(size);
    if (found != NULL)
        memcpy(found, p, before < size ? before : size);
    free(p);
    return found;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!on || alignment > PAGE)
        return real_posix_memalign(out, alignment, size);
    *out = guarded(size, alignment);
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return on && alignment <= PAGE ? guarded(size, alignment) : real_aligned_alloc(alignment, size);
}

size_t malloc_usable_size(void *p)
{
    static size_t (*real)(void *);
    if (is_guarded(p))
        return header_of(p)->size;
    if (real == NULL)
        real = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return real(p);
}

void free(void *p)
{
    if (p == NULL || is_early(p))
        return;
    if (is_guarded(p))
        release(p);
    else
        real_free(p);
}

static void *data_malloc(void *context, size_t size)
{
    (void)context;
    return malloc(size);
}

static void *data_calloc(void *context, size_t count, size_t size)
{
    (void)context;
    return calloc(count, size);
}

static void *data_realloc(void *context, void *p, size_t size)
{
    (void)context;
    return realloc(p, size);
}

static void data_free(void *context, void *p, size_t size)
{
    (void)context;
    (void)size;
    free(p);
}

/* PyDataMem_Handler of numpy/ndarraytypes.h. */
struct {
    char name[127];
    uint8_t version;
    void *context;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *, size_t);
} guard_handler = {"guard", 1, NULL, data_malloc, data_calloc, data_realloc, data_free};
