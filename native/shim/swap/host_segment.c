#include "shim/swap/host_segment.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/base/driver.h"

#define MAP_STEP_BYTES (2ull << 20)
#define PAGE_BYTES 4096u
#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static uint64_t next_piece_bytes(const struct segment *segment)
{
    uint64_t left = segment->bytes - segment->registered;
    return left < HOST_PIECE_BYTES ? left : HOST_PIECE_BYTES;
}

/* In steps, because no thread of this process can map memory during a step. The pages exist, but each would cost a
 * fault in the middle of a copy. */
void segment_prepare(struct segment *segment)
{
    uint64_t end = segment->registered + next_piece_bytes(segment);
    uint64_t at = segment->mapped;
    for (; at < end; at += MAP_STEP_BYTES) {
        uint64_t bytes = end - at < MAP_STEP_BYTES ? end - at : MAP_STEP_BYTES;
        if (madvise(segment->base + at, bytes, MADV_POPULATE_WRITE) != 0) {
            for (uint64_t page = at; page < at + bytes; page += PAGE_BYTES) {
                (void)*(volatile unsigned char *)(segment->base +
                                                  page); /* it may be in use by now */
            }
        }
    }
    segment->mapped = segment->mapped < at ? at : segment->mapped;
}

uint64_t segment_register(struct segment *segment)
{
    uint64_t bytes = next_piece_bytes(segment);
    segment_prepare(segment);
    /* Not registered (a locked-memory limit, say) means slow copies, not wrong ones. */
    DRIVER(cuMemHostRegister_v2)
    (segment->base + segment->registered, bytes, CU_MEMHOSTREGISTER_PORTABLE);
    return bytes;
}

void segment_unregister(struct segment *segment)
{
    uint64_t last = (segment->registered - 1) / HOST_PIECE_BYTES * HOST_PIECE_BYTES;
    DRIVER(cuMemHostUnregister)(segment->base + last);
    segment->registered = last;
}

struct segment *segment_map(const struct mw_arena *note, int fd)
{
    struct stat found;
    struct segment *made = calloc(1, sizeof(*made));
    if (!made || fstat(fd, &found) < 0 || (uint64_t)found.st_size < note->bytes) {
        free(made);
        return NULL;
    }
    void *base = mmap(NULL, note->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        free(made);
        return NULL;
    }
    madvise(base, note->bytes, MADV_HUGEPAGE);
    madvise(base, note->bytes, MADV_DONTFORK);
    *made = (struct segment){.number = note->segment, .bytes = note->bytes, .base = base};
    return made;
}

void segment_unmap(struct segment *segment)
{
    munmap(segment->base, segment->bytes);
    free(segment);
}
