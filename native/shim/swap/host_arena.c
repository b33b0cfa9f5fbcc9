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
    bool is_lost; /* its registration with the driver has gone with a context, as far as we know */
    unsigned char taken[]; /* one enum unit for each unit */
};

enum unit {
    UNIT_FREE,
    UNIT_NEEDED,
    UNIT_SPARE, /* taken, and can be given back at any time */
};

static struct lock lock = LOCK_INIT(LOCK_HOST_ARENA); /* a leaf: nothing is called with it held */
static struct piece *pieces;
static uint64_t total;
static uint64_t needed;     /* bytes of units that are UNIT_NEEDED */
static uint64_t *published; /* where others read it; NULL: nowhere */

/* With the lock: the units become `to`, and `needed` says so. */
static void set_units(unsigned char *units, uint64_t count, enum unit to)
{
    needed += to == UNIT_NEEDED ? count * UNIT : 0;
    needed -= *units == UNIT_NEEDED ? count * UNIT : 0;
    memset(units, to, count);
    if (published) {
        __atomic_store_n(published, needed, __ATOMIC_RELAXED);
    }
}

void host_arena_publish(uint64_t *at)
{
    LOCK_SCOPE(&lock);
    published = at;
    __atomic_store_n(published, needed, __ATOMIC_RELAXED);
}

int host_arena_add(void *base, uint64_t bytes, uint64_t segment)
{
    struct piece *made = calloc(1, sizeof(*made) + bytes / UNIT);
    if (!made) {
        return -ENOMEM;
    }
    *made = (struct piece){NULL, base, segment, bytes / UNIT, bytes / UNIT, false};
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

/* The first of a run of units that all are free, or (with `spare`) free or spare; NULL: there is none. */
static unsigned char *find_run(struct piece *piece, uint64_t units, bool spare)
{
    uint64_t run = 0;
    for (uint64_t i = 0; i < piece->units; i++) {
        unsigned char unit = piece->taken[i];
        run = unit == UNIT_FREE || (spare && unit == UNIT_SPARE) ? run + 1 : 0;
        if (run == units) {
            return piece->taken + i + 1 - units;
        }
    }
    return NULL;
}

static void *take_from(struct piece *piece, uint64_t units)
{
    unsigned char *run = piece->free_units < units ? NULL : find_run(piece, units, false);
    if (!run) {
        return NULL;
    }
    set_units(run, units, UNIT_NEEDED);
    piece->free_units -= units;
    return piece->base + (uint64_t)(run - piece->taken) * UNIT;
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

/* The unit at an address, and its piece; NULL: it is in none. */
static unsigned char *unit_at(const void *at, struct piece **piece)
{
    const unsigned char *byte = at;
    for (struct piece *p = pieces; p; p = p->next) {
        if (byte >= p->base && (uint64_t)(byte - p->base) < p->units * UNIT) {
            *piece = p;
            return p->taken + (uint64_t)(byte - p->base) / UNIT;
        }
    }
    return NULL;
}

void host_arena_give_back(void *at, uint64_t bytes)
{
    uint64_t units = (bytes + UNIT - 1) / UNIT;
    struct piece *piece = NULL;
    LOCK_SCOPE(&lock);
    unsigned char *taken = unit_at(at, &piece);
    if (taken) {
        set_units(taken, units, UNIT_FREE);
        piece->free_units += units;
    }
}

void host_arena_set_spare(void *at, uint64_t bytes, bool spare)
{
    struct piece *piece = NULL;
    LOCK_SCOPE(&lock);
    unsigned char *taken = unit_at(at, &piece);
    if (taken) {
        set_units(taken, (bytes + UNIT - 1) / UNIT, spare ? UNIT_SPARE : UNIT_NEEDED);
    }
}

bool host_arena_is_spare(const void *at)
{
    struct piece *piece = NULL;
    LOCK_SCOPE(&lock);
    const unsigned char *taken = unit_at(at, &piece);
    return taken && *taken == UNIT_SPARE;
}

const unsigned char *host_arena_find_spare(uint64_t bytes)
{
    LOCK_SCOPE(&lock);
    for (struct piece *p = pieces; p; p = p->next) {
        const unsigned char *run = find_run(p, (bytes + UNIT - 1) / UNIT, true);
        if (run) {
            return p->base + (uint64_t)(run - p->taken) * UNIT;
        }
    }
    return NULL;
}

bool host_arena_is_all_spare(uint64_t segment)
{
    bool spare = false;
    LOCK_SCOPE(&lock);
    for (const struct piece *p = pieces; p; p = p->next) {
        for (uint64_t i = 0; p->segment == segment && i < p->units; i++) {
            if (p->taken[i] == UNIT_NEEDED) {
                return false;
            }
            spare = spare || p->taken[i] == UNIT_SPARE;
        }
    }
    return spare;
}

void host_arena_lose_registrations(void)
{
    LOCK_SCOPE(&lock);
    for (struct piece *p = pieces; p; p = p->next) {
        p->is_lost = true;
    }
}

void *host_arena_take_lost(const void *at, uint64_t *bytes)
{
    struct piece *piece = NULL;
    LOCK_SCOPE(&lock);
    if (!unit_at(at, &piece) || !piece->is_lost) {
        return NULL;
    }
    piece->is_lost = false;
    *bytes = piece->units * UNIT;
    return piece->base;
}

uint64_t host_arena_bytes(void) { return total; }

void host_arena_after_fork(void)
{
    pieces = NULL; /* MADV_DONTFORK: nothing of it is mapped here */
    total = needed = 0;
    published = NULL;
    lock_after_fork(&lock);
}
