#include "shim/spares.h"

#include <string.h>

#include "shim/blocks.h"

#define SPARES_MAX 128 /* all are looked at for each allocation */

static struct block *spares[SPARES_MAX]; /* the oldest first */
static uint32_t count;

static struct block *take_out(uint32_t at)
{
    struct block *taken = spares[at];
    count--;
    memmove(spares + at, spares + at + 1, (count - at) * sizeof(spares[0]));
    return taken;
}

static bool can_be_kept(const struct block *block)
{
    if (block->managed || block->stays || block->allocation || block->hollow_bytes) {
        return false;
    }
    for (uint32_t i = 0; i < block->chunk_count; i++) {
        if (!block->chunks[i].present || block->chunks[i].host) {
            return false; /* some of it is in host memory: it is not on the GPU to be used again */
        }
    }
    return true;
}

bool spares_keep(struct block *block)
{
    if (count == SPARES_MAX || !can_be_kept(block)) {
        return false;
    }
    block_unmap(block);
    block->segment = NULL;
    spares[count++] = block;
    return true;
}

struct block *spares_take(const struct device *device, uint64_t span, uint32_t chunks)
{
    for (uint32_t i = count; i > 0; i--) {
        const struct block *spare = spares[i - 1];
        if (spare->device == device && spare->span == span && spare->chunk_count == chunks) {
            return take_out(i - 1);
        }
    }
    return NULL;
}

uint64_t spares_shrink(const struct device *device, uint64_t most)
{
    uint64_t all = 0;
    uint64_t gone = 0;
    for (uint32_t i = 0; i < count; i++) {
        all += spares[i]->device == device ? spares[i]->span : 0;
    }
    for (uint32_t i = 0; i < count && all - gone > most;) {
        if (spares[i]->device == device) {
            struct block *oldest = take_out(i);
            gone += oldest->span;
            block_destroy(oldest);
        } else {
            i++;
        }
    }
    return gone;
}

bool spares_have(CUdeviceptr address)
{
    for (uint32_t i = 0; i < count; i++) {
        if (address >= spares[i]->base && address - spares[i]->base < spares[i]->span) {
            return true;
        }
    }
    return false;
}

void spares_after_fork(void) { count = 0; }
