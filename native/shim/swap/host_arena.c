#include "shim/swap/host_arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/lock.h"

#define UNIT (2ull << 20)

/* Registered with one call: no copy may reach over its end. */
struct piece {
    struct piece *next;
    unsigned char *base;
    uint64_t segment; /* 0: the shim's own memory */
    uint64_t units;
    uint64_t free_units;
    unsigned char taken[]; /* one for each unit */
};

static struct lock lock = LOCK_INIT(LOCK_HOST_ARENA); /* a leaf: nothing is called with it held */
static struct piece *pieces;
static uint64_t total;

int host_arena_add(void *base, uint64_t bytes, uint64_t segment)
{
    struct piece *made = calloc(1, sizeof(*made) + bytes / UNIT);
    if (!made) {
        return -ENOMEM;
    }
    *made = (struct piece){NULL, base, segment, bytes / UNIT, bytes / UNIT};
    LOCK_SCOPE(&lock);
    struct piece **end = &pieces;
    while (*end) {
        end = &(*end)->next;
    }
    *end = made; /* what came first is used first, so that later segments stay empty */
    total += bytes;
    return 0;
}

static bool is_in_use(uint64_t segment)
{
    for (const struct piece *p = pieces; p; p = p->next) {
        if (p->segment == segment && p->free_units < p->units) {
            return true;
        }
    }
    return false;
}

bool host_arena_uses(uint64_t segment)
{
    LOCK_SCOPE(&lock);
    return is_in_use(segment);
}

bool host_arena_remove(uint64_t segment)
{
    LOCK_SCOPE(&lock);
    if (is_in_use(segment)) {
        return false;
    }
    for (struct piece **at = &pieces; *at;) {
        struct piece *piece = *at;
        if (piece->segment == segment) {
            *at = piece->next;
            total -= piece->units * UNIT;
            free(piece);
        } else {
            at = &piece->next;
        }
    }
    return true;
}

static void *take_from(struct piece *piece, uint64_t units)
{
    uint64_t run = 0;
    if (piece->free_units < units) {
        return NULL;
    }
    for (uint64_t i = 0; i < piece->units; i++) {
        run = piece->taken[i] ? 0 : run + 1;
        if (run == units) {
            uint64_t first = i + 1 - units;
            memset(piece->taken + first, 1, units);
            piece->free_units -= units;
            return piece->base + first * UNIT;
        }
    }
    return NULL;
}

void *host_arena_take(uint64_t bytes)
{
    uint64_t units = (bytes + UNIT - 1) / UNIT;
    LOCK_SCOPE(&lock);
    for (struct piece *p = pieces; p; p = p->next) {
        void *at = take_from(p, units);
        if (at) {
            return at;
        }
    }
    return NULL;
}

void host_arena_give_back(void *at, uint64_t bytes)
{
    uint64_t units = (bytes + UNIT - 1) / UNIT;
    LOCK_SCOPE(&lock);
    for (struct piece *p = pieces; p; p = p->next) {
        uint64_t offset = (uint64_t)((unsigned char *)at - p->base);
        if ((unsigned char *)at >= p->base && offset < p->units * UNIT) {
            memset(p->taken + offset / UNIT, 0, units);
            p->free_units += units;
            return;
        }
    }
}

uint64_t host_arena_bytes(void) { return total; }

void host_arena_after_fork(void)
{
    pieces = NULL; /* MADV_DONTFORK: nothing of it is mapped here */
    total = 0;
    lock_after_fork(&lock);
}
