#include "simgpu/mem/interval_set.h"

#include <string.h>

#include "simgpu/base/resize.h"

static void insert(struct sg_interval_set *set, size_t at, uint64_t base, uint64_t end)
{
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? set->capacity * 2 : 64;
        set->at = sg_resize(set->at, set->capacity * sizeof *set->at);
    }
    memmove(&set->at[at + 1], &set->at[at], (set->count - at) * sizeof *set->at);
    set->at[at] = (struct sg_interval){base, end};
    set->count++;
}

static void erase(struct sg_interval_set *set, size_t at)
{
    set->count--;
    memmove(&set->at[at], &set->at[at + 1], (set->count - at) * sizeof *set->at);
}

void sg_interval_set_add(struct sg_interval_set *set, uint64_t base, uint64_t bytes)
{
    uint64_t end = base + bytes;
    size_t i = 0;
    while (i < set->count && set->at[i].end < base) {
        i++;
    }
    if (i < set->count && set->at[i].end == base) {
        set->at[i].end = end;
    } else {
        insert(set, i, base, end);
    }
    if (i + 1 < set->count && set->at[i].end == set->at[i + 1].base) {
        set->at[i].end = set->at[i + 1].end;
        erase(set, i + 1);
    }
}

static uint64_t take_from(struct sg_interval_set *set, size_t i, uint64_t base, uint64_t bytes)
{
    struct sg_interval interval = set->at[i];
    erase(set, i);
    if (base + bytes < interval.end) {
        insert(set, i, base + bytes, interval.end);
    }
    if (interval.base < base) {
        insert(set, i, interval.base, base);
    }
    return base;
}

uint64_t sg_interval_set_take(struct sg_interval_set *set, uint64_t bytes, uint64_t alignment)
{
    for (size_t i = 0; i < set->count; i++) {
        uint64_t base = (set->at[i].base + alignment - 1) / alignment * alignment;
        if (base < set->at[i].end && bytes <= set->at[i].end - base) {
            return take_from(set, i, base, bytes);
        }
    }
    return SG_NO_INTERVAL;
}

uint64_t sg_interval_set_take_best_fit(struct sg_interval_set *set, uint64_t bytes)
{
    uint64_t least = UINT64_MAX;
    size_t best = 0;
    for (size_t i = 0; i < set->count && least != bytes; i++) {
        uint64_t has = set->at[i].end - set->at[i].base;
        if (has >= bytes && has < least) {
            least = has;
            best = i;
        }
    }
    return least == UINT64_MAX ? SG_NO_INTERVAL : take_from(set, best, set->at[best].base, bytes);
}

int sg_interval_set_take_at(struct sg_interval_set *set, uint64_t base, uint64_t bytes)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->at[i].base <= base && bytes <= set->at[i].end && base <= set->at[i].end - bytes) {
            take_from(set, i, base, bytes);
            return 1;
        }
    }
    return 0;
}
