#include "shim/mem/free_cache.h"

#include <string.h>

#include "shim/mem/extent.h"

#define FREE_CACHE_MAX 128 /* all are looked at for each allocation */

static struct extent *cached[FREE_CACHE_MAX]; /* the oldest first */
static uint32_t count;

static struct extent *take_out(uint32_t at)
{
    struct extent *taken = cached[at];
    count--;
    memmove(cached + at, cached + at + 1, (count - at) * sizeof(cached[0]));
    return taken;
}

static bool can_be_kept(const struct extent *extent)
{
    if (extent->ops->kind != EXTENT_PLACED || extent->pins || extent->decommitted_bytes) {
        return false;
    }
    for (uint32_t i = 0; i < extent->chunk_count; i++) {
        if (extent->chunks[i].state != CHUNK_RESIDENT) {
            return false; /* some of it is in host memory: it is not on the GPU to be used again */
        }
    }
    return true;
}

bool free_cache_put(struct extent *extent)
{
    if (count == FREE_CACHE_MAX || !can_be_kept(extent)) {
        return false;
    }
    extent_unmap(extent);
    extent->use = EXTENT_OF_ONE;
    cached[count++] = extent;
    extents_changed();
    return true;
}

struct extent *free_cache_take(const struct device *device, uint64_t span, uint32_t chunks)
{
    for (uint32_t i = count; i > 0; i--) {
        const struct extent *each = cached[i - 1];
        if (each->device == device && each->span == span && each->chunk_count == chunks) {
            return take_out(i - 1);
        }
    }
    return NULL;
}

uint64_t free_cache_shrink(const struct device *device, uint64_t most)
{
    uint64_t all = 0;
    uint64_t gone = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += cached[i]->device == device ? cached[i]->span : 0;
    }
    for (uint32_t i = 0; i < count && all - gone > most;) {
        if (cached[i]->device == device) {
            struct extent *oldest = take_out(i);
            gone += oldest->span;
            extent_destroy(oldest);
        } else {
            i++;
        }
    }
    return gone;
}

bool free_cache_has(CUdeviceptr address)
{
    for (uint32_t i = 0; i < count; i++) {
        if (address >= cached[i]->base && address - cached[i]->base < cached[i]->span) {
            return true;
        }
    }
    return false;
}

void free_cache_after_fork(void) { count = 0; }
