/* Order of choice: chunks of zeros, then those that are not more than is wanted before those that are, clean
 * ones first; of the former the largest, of the latter the smallest; of two equal ones the youngest. */
#include "shim/swap/victim.h"

#include "shim/mem/extent_table.h"
#include "shim/swap/clean.h"

/* True if `one` is evicted rather than `other`; both are resident, and neither is being moved. */
static bool is_better_victim(const struct extent *one, const struct chunk *chunk,
                             const struct victim *other, uint64_t bytes)
{
    const struct chunk *best = &other->extent->chunks[other->index];
    bool fits = chunk->bytes <= bytes;
    bool best_fits = best->bytes <= bytes;
    if ((chunk->content == CHUNK_ZERO) != (best->content == CHUNK_ZERO)) {
        return chunk->content == CHUNK_ZERO;
    }
    if (fits != best_fits) {
        return fits;
    }
    if (clean_costs_nothing(chunk) != clean_costs_nothing(best)) {
        return clean_costs_nothing(chunk);
    }
    if (chunk->bytes != best->bytes) {
        return fits ? chunk->bytes > best->bytes : chunk->bytes < best->bytes;
    }
    return one->sequence > other->extent->sequence;
}

struct victim victim_choose(const struct device *device, uint64_t bytes, bool can_scan)
{
    struct victim best = {0};
    bool unscanned = false;
    for (size_t b = 0; b < extent_table_count(); b++) {
        struct extent *extent = extent_table_get(b);
        for (uint32_t i = 0;
             extent->device == device && !extent->retiring && i < extent->chunk_count; i++) {
            struct chunk *chunk = &extent->chunks[i];
            bool seen = chunk->scanned_turn == device->lease_count;
            if (extent->pins) {
                continue;
            }
            unscanned = unscanned || (chunk_has_memory(chunk) && (!seen || extent->move_locks));
            if (chunk->state != CHUNK_RESIDENT || chunk->busy || extent->move_locks ||
                (can_scan && !seen)) {
                continue;
            }
            chunk->content = seen ? chunk->content : CHUNK_DATA;
            if (!best.extent || is_better_victim(extent, chunk, &best, bytes)) {
                best.extent = extent;
                best.index = i;
            }
        }
    }
    /* A chunk larger than `bytes` is evicted only when no unscanned chunk is left that could
     * fit. */
    if (best.extent && unscanned && can_scan && best.extent->chunks[best.index].bytes > bytes) {
        best.extent = NULL;
    }
    best.unscanned = unscanned;
    return best;
}

uint32_t victim_choose_to_scan(const struct device *device, struct victim *victims, uint32_t count)
{
    uint32_t found = 0;
    for (size_t b = extent_table_count(); b-- > 0 && found < count;) {
        struct extent *extent = extent_table_get(b);
        for (uint32_t i = 0; extent->device == device && !extent->retiring &&
                             i < extent->chunk_count && found < count;
             i++) {
            struct chunk *chunk = &extent->chunks[i];
            if (chunk->state == CHUNK_RESIDENT && !chunk->busy && !extent->pins &&
                !extent->move_locks && chunk->scanned_turn != device->lease_count) {
                victims[found].extent = extent;
                victims[found++].index = i;
            }
        }
    }
    return found;
}

struct victim victim_choose_to_restore(const struct device *device, uint64_t room, bool *missing)
{
    struct victim best = {0};
    uint64_t best_bytes = 0;
    *missing = false;
    for (size_t b = 0; b < extent_table_count(); b++) {
        struct extent *extent = extent_table_get(b);
        for (uint32_t i = 0;
             extent->device == device && !extent->retiring && i < extent->chunk_count; i++) {
            const struct chunk *chunk = &extent->chunks[i];
            if (!chunk_lacks_memory(chunk)) {
                continue;
            }
            *missing = true;
            if (chunk->bytes <= room && chunk->bytes > best_bytes && !extent->move_locks) {
                best.extent = extent;
                best.index = i;
                best_bytes = chunk->bytes;
            }
        }
    }
    return best;
}
