#include "shim/choice.h"

/* Whether `one` leaves rather than `other` (both present, neither on its way). */
static bool leaves_before(const struct block *one, const struct chunk *chunk,
                          const struct choice *other, uint64_t bytes)
{
    const struct chunk *best = &other->block->chunks[other->index];
    bool fits = chunk->bytes <= bytes;
    bool best_fits = best->bytes <= bytes;
    if (chunk->zeros != best->zeros) {
        return chunk->zeros;
    }
    if (fits != best_fits) {
        return fits;
    }
    if (chunk->bytes != best->bytes) {
        return fits ? chunk->bytes > best->bytes : chunk->bytes < best->bytes;
    }
    return one->born > other->block->born;
}

struct choice choose_leaving(const struct device *device, uint64_t bytes, bool can_look)
{
    struct choice best = {0};
    bool unseen = false;
    for (size_t b = 0; b < blocks_count(); b++) {
        struct block *block = blocks_get(b);
        for (uint32_t i = 0; block->device == device && !block->leaves && i < block->chunk_count;
             i++) {
            struct chunk *chunk = &block->chunks[i];
            bool seen = chunk->looked == device->turn;
            if (block->stays) {
                continue;
            }
            unseen = unseen || (chunk->present && (!seen || block->holds));
            if (!chunk->present || chunk->busy || block->holds || (can_look && !seen)) {
                continue;
            }
            chunk->zeros = chunk->zeros && seen;
            if (!best.block || leaves_before(block, chunk, &best, bytes)) {
                best.block = block;
                best.index = i;
            }
        }
    }
    /* More than is to go leaves only when nobody can be left who fits. */
    if (best.block && unseen && can_look && best.block->chunks[best.index].bytes > bytes) {
        best.block = NULL;
    }
    best.unseen = unseen;
    return best;
}

uint32_t choose_unseen(const struct device *device, struct choice *choices, uint32_t count)
{
    uint32_t found = 0;
    for (size_t b = blocks_count(); b-- > 0 && found < count;) {
        struct block *block = blocks_get(b);
        for (uint32_t i = 0;
             block->device == device && !block->leaves && i < block->chunk_count && found < count;
             i++) {
            struct chunk *chunk = &block->chunks[i];
            if (chunk->present && !chunk->busy && !block->stays && !block->holds &&
                chunk->looked != device->turn) {
                choices[found].block = block;
                choices[found++].index = i;
            }
        }
    }
    return found;
}

struct choice choose_coming(const struct device *device, uint64_t room, bool *missing)
{
    struct choice best = {0};
    uint64_t best_bytes = 0;
    *missing = false;
    for (size_t b = 0; b < blocks_count(); b++) {
        struct block *block = blocks_get(b);
        for (uint32_t i = 0; block->device == device && !block->leaves && i < block->chunk_count;
             i++) {
            const struct chunk *chunk = &block->chunks[i];
            if (chunk->present || chunk->hollow) {
                continue;
            }
            *missing = true;
            if (chunk->bytes <= room && chunk->bytes > best_bytes && !block->holds) {
                best.block = block;
                best.index = i;
                best_bytes = chunk->bytes;
            }
        }
    }
    return best;
}
