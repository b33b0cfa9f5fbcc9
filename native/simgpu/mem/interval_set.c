#include "simgpu/mem/interval_set.h"

#include <string.h>

#include "simgpu/base/resize.h"

static void insert(struct sg_interval_set *spans, size_t at, uint64_t base, uint64_t end)
{
    if (spans->count == spans->capacity) {
        spans->capacity = spans->capacity ? spans->capacity * 2 : 64;
        spans->at = sg_resize(spans->at, spans->capacity * sizeof *spans->at);
    }
    memmove(&spans->at[at + 1], &spans->at[at], (spans->count - at) * sizeof *spans->at);
    spans->at[at] = (struct sg_interval){base, end};
    spans->count++;
}

static void erase(struct sg_interval_set *spans, size_t at)
{
    spans->count--;
    memmove(&spans->at[at], &spans->at[at + 1], (spans->count - at) * sizeof *spans->at);
}

void sg_interval_set_add(struct sg_interval_set *spans, uint64_t base, uint64_t bytes)
{
    uint64_t end = base + bytes;
    size_t i = 0;
    while (i < spans->count && spans->at[i].end < base) {
        i++;
    }
    if (i < spans->count && spans->at[i].end == base) {
        spans->at[i].end = end;
    } else {
        insert(spans, i, base, end);
    }
    if (i + 1 < spans->count && spans->at[i].end == spans->at[i + 1].base) {
        spans->at[i].end = spans->at[i + 1].end;
        erase(spans, i + 1);
    }
}

static uint64_t take_from(struct sg_interval_set *spans, size_t i, uint64_t base, uint64_t bytes)
{
    struct sg_interval span = spans->at[i];
    erase(spans, i);
    if (base + bytes < span.end) {
        insert(spans, i, base + bytes, span.end);
    }
    if (span.base < base) {
        insert(spans, i, span.base, base);
    }
    return base;
}

uint64_t sg_interval_set_take(struct sg_interval_set *spans, uint64_t bytes, uint64_t alignment)
{
    for (size_t i = 0; i < spans->count; i++) {
        uint64_t base = (spans->at[i].base + alignment - 1) / alignment * alignment;
        if (base < spans->at[i].end && bytes <= spans->at[i].end - base) {
            return take_from(spans, i, base, bytes);
        }
    }
    return SG_NO_INTERVAL;
}

uint64_t sg_interval_set_take_best_fit(struct sg_interval_set *spans, uint64_t bytes)
{
    uint64_t least = UINT64_MAX;
    size_t best = 0;
    for (size_t i = 0; i < spans->count && least != bytes; i++) {
        uint64_t has = spans->at[i].end - spans->at[i].base;
        if (has >= bytes && has < least) {
            least = has;
            best = i;
        }
    }
    return least == UINT64_MAX ? SG_NO_INTERVAL
                               : take_from(spans, best, spans->at[best].base, bytes);
}

int sg_interval_set_take_at(struct sg_interval_set *spans, uint64_t base, uint64_t bytes)
{
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->at[i].base <= base && bytes <= spans->at[i].end &&
            base <= spans->at[i].end - bytes) {
            take_from(spans, i, base, bytes);
            return 1;
        }
    }
    return 0;
}
