#include "shim/mem/slab.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define UNIT 512u /* the driver aligns allocations to at least this */
#define UNITS ((uint32_t)(GRANULE / UNIT))

struct slab {
    struct slab *next;
    struct extent *extent;
    uint32_t used;
    uint16_t run[UNITS];  /* at the start of an allocation: its units; else 0 */
    uint8_t taken[UNITS]; /* 1: part of an allocation */
    uint32_t bytes[UNITS];
    uint64_t number[UNITS];
};

static struct slab *slabs;

static bool take_from(struct slab *slab, uint32_t units, size_t bytes, CUdeviceptr *pointer)
{
    uint32_t run = 0;
    if (UNITS - slab->used < units) {
        return false;
    }
    for (uint32_t i = 0; i < UNITS; i++) {
        run = slab->taken[i] ? 0 : run + 1;
        if (run < units) {
            continue;
        }
        uint32_t first = i + 1 - units;
        for (uint32_t u = first; u <= i; u++) {
            slab->taken[u] = 1;
        }
        slab->run[first] = (uint16_t)units;
        slab->bytes[first] = (uint32_t)bytes;
        slab->number[first] = extent_next_sequence();
        slab->used += units;
        *pointer = slab->extent->base + (uint64_t)first * UNIT;
        return true;
    }
    return false;
}

bool slab_take(const struct device *device, CUcontext context, bool managed, size_t bytes,
               CUdeviceptr *pointer)
{
    uint32_t units = (uint32_t)((bytes + UNIT - 1) / UNIT);
    for (struct slab *s = slabs; s; s = s->next) {
        if (s->extent->device == device && s->extent->context == context &&
            !s->extent->decommitted_bytes && extent_is_managed(s->extent) == managed &&
            take_from(s, units, bytes, pointer)) {
            return true;
        }
    }
    return false;
}

int slab_adopt(struct extent *extent)
{
    struct slab *made = calloc(1, sizeof(*made));
    if (!made) {
        return -ENOMEM;
    }
    made->extent = extent;
    made->next = slabs;
    extent->use = EXTENT_OF_SLAB;
    extent->slab = made;
    slabs = made;
    return 0;
}

bool slab_give_back(struct extent *extent, CUdeviceptr pointer, bool *empty)
{
    struct slab *slab = extent->slab;
    uint64_t offset = pointer - extent->base;
    uint32_t first = (uint32_t)(offset / UNIT);
    if (offset % UNIT || !slab->run[first]) {
        return false;
    }
    for (uint32_t u = first; u < first + slab->run[first]; u++) {
        slab->taken[u] = 0;
    }
    slab->used -= slab->run[first];
    slab->run[first] = 0;
    *empty = slab->used == 0;
    return true;
}

bool slab_range(const struct extent *extent, CUdeviceptr pointer, CUdeviceptr *base, size_t *bytes,
                uint64_t *number)
{
    const struct slab *slab = extent->slab;
    uint32_t at = (uint32_t)((pointer - extent->base) / UNIT);
    if (!slab->taken[at]) {
        return false;
    }
    while (!slab->run[at]) {
        at--;
    }
    *base = extent->base + (uint64_t)at * UNIT;
    *bytes = slab->bytes[at];
    *number = slab->number[at];
    return pointer < *base + *bytes;
}

void slab_drop(struct extent *extent)
{
    for (struct slab **at = &slabs; *at; at = &(*at)->next) {
        if (*at == extent->slab) {
            struct slab *gone = *at;
            *at = gone->next;
            free(gone);
            extent->use = EXTENT_OF_ONE;
            extent->slab = NULL;
            return;
        }
    }
}

void slab_after_fork(void) { slabs = NULL; }
