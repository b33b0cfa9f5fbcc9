#include "shim/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/real.h"

#define UNIT (2ull << 20)
#define SEGMENT_BYTES (256ull << 20)

struct segment {
    struct segment *next;
    unsigned char *base;
    uint64_t units;
    uint64_t free_units;
    unsigned char taken[]; /* one for each unit */
};

static struct segment *segments;
static uint64_t total;

static struct segment *add_segment(uint64_t bytes)
{
    uint64_t span = bytes > SEGMENT_BYTES ? bytes : SEGMENT_BYTES;
    void *base = MAP_FAILED;
    for (; base == MAP_FAILED && span >= bytes; span /= 2) {
        base = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base != MAP_FAILED) {
            break;
        }
    }
    if (base == MAP_FAILED) {
        return NULL;
    }
    struct segment *made = calloc(1, sizeof(*made) + span / UNIT);
    if (!made) {
        munmap(base, span);
        return NULL;
    }
    madvise(base, span, MADV_HUGEPAGE);
    madvise(base, span, MADV_DONTFORK);
    /* Not registered (a locked-memory limit, say) means slow copies, not wrong ones. */
    REAL(cuMemHostRegister_v2)(base, span, CU_MEMHOSTREGISTER_PORTABLE);
    *made = (struct segment){segments, base, span / UNIT, span / UNIT};
    segments = made;
    total += span;
    return made;
}

static void *take_from(struct segment *segment, uint64_t units)
{
    uint64_t run = 0;
    if (segment->free_units < units) {
        return NULL;
    }
    for (uint64_t i = 0; i < segment->units; i++) {
        run = segment->taken[i] ? 0 : run + 1;
        if (run == units) {
            uint64_t first = i + 1 - units;
            memset(segment->taken + first, 1, units);
            segment->free_units -= units;
            return segment->base + first * UNIT;
        }
    }
    return NULL;
}

void *arena_take(uint64_t bytes)
{
    uint64_t units = (bytes + UNIT - 1) / UNIT;
    for (struct segment *s = segments; s; s = s->next) {
        void *at = take_from(s, units);
        if (at) {
            return at;
        }
    }
    struct segment *made = add_segment(units * UNIT);
    return made ? take_from(made, units) : NULL;
}

void arena_give_back(void *at, uint64_t bytes)
{
    uint64_t units = (bytes + UNIT - 1) / UNIT;
    for (struct segment *s = segments; s; s = s->next) {
        uint64_t offset = (uint64_t)((unsigned char *)at - s->base);
        if ((unsigned char *)at >= s->base && offset < s->units * UNIT) {
            memset(s->taken + offset / UNIT, 0, units);
            s->free_units += units;
            return;
        }
    }
}

uint64_t arena_bytes(void) { return total; }

void arena_after_fork(void)
{
    segments = NULL; /* MADV_DONTFORK: nothing of it is mapped here */
    total = 0;
}
