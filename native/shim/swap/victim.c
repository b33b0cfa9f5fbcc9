/* Order of choice: chunks of zeros, then those that are not more than is wanted before those that are, clean
 * ones first; of the former the largest, of the latter the smallest; of two equal ones the youngest. */
#include "shim/swap/victim.h"

#include <string.h>

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

typedef bool is_better(const struct extent *one, const struct chunk *chunk,
                       const struct victim *other, uint64_t bytes);

/* Adds a chunk in its place, if it is one of the best. */
static void keep_in_order(struct victims *ahead, struct extent *extent, uint32_t index,
                          uint64_t bytes, is_better *better)
{
    const struct chunk *chunk = &extent->chunks[index];
    uint32_t low = 0;
    uint32_t at = ahead->count;
    if (at == VICTIMS_AHEAD && !better(extent, chunk, &ahead->items[at - 1], bytes)) {
        return;
    }
    while (low < at) {
        uint32_t middle = (low + at) / 2;
        if (better(extent, chunk, &ahead->items[middle], bytes)) {
            at = middle;
        } else {
            low = middle + 1;
        }
    }
    ahead->count += ahead->count < VICTIMS_AHEAD;
    memmove(&ahead->items[at + 1], &ahead->items[at],
            (ahead->count - 1 - at) * sizeof(ahead->items[0]));
    ahead->items[at] = (struct victim){extent, index, false};
}

/* Begins to look at all chunks. */
static void begin(struct victims *ahead)
{
    ahead->count = 0;
    ahead->version = atomic_load_explicit(&extents_version, memory_order_acquire);
}

/* The extents that were found are still there. */
static bool is_current(const struct victims *ahead)
{
    return ahead->count &&
           ahead->version == atomic_load_explicit(&extents_version, memory_order_acquire);
}

static bool may_leave(const struct device *device, const struct victim *victim, bool can_scan)
{
    const struct extent *extent = victim->extent;
    const struct chunk *chunk = &extent->chunks[victim->index];
    return chunk->state == CHUNK_RESIDENT && !chunk->busy && !extent->move_locks && !extent->pins &&
           (!can_scan || chunk->scanned_turn == device->lease_count);
}

static void find_victims(struct victims *ahead, const struct device *device, uint64_t bytes,
                         bool can_scan)
{
    begin(ahead);
    ahead->unscanned = false;
    for (size_t b = extent_table_count(); b-- > 0;) { /* the youngest are last, as a rule */
        struct extent *extent = extent_table_get(b);
        for (uint32_t i = 0; extent->device == device && !extent->retiring && !extent->pins &&
                             i < extent->chunk_count;
             i++) {
            struct chunk *chunk = &extent->chunks[i];
            bool seen = chunk->scanned_turn == device->lease_count;
            ahead->unscanned =
                ahead->unscanned || (chunk_has_memory(chunk) && (!seen || extent->move_locks));
            if (may_leave(device, &(struct victim){extent, i, false}, can_scan)) {
                chunk->content = seen ? chunk->content : CHUNK_DATA;
                keep_in_order(ahead, extent, i, bytes, is_better_victim);
            }
        }
    }
}

struct victim victim_choose(struct victims *ahead, const struct device *device, uint64_t bytes,
                            bool can_scan)
{
    struct victim best = {0};
    for (uint32_t i = 0; is_current(ahead) && i < ahead->count && !best.extent; i++) {
        if (may_leave(device, &ahead->items[i], can_scan)) {
            best = ahead->items[i];
        }
    }
    if (!best.extent || best.extent->chunks[best.index].bytes > bytes) {
        find_victims(ahead, device, bytes, can_scan);
        best = ahead->count ? ahead->items[0] : (struct victim){0};
    }
    /* A chunk larger than `bytes` is evicted only when no unscanned chunk is left that could
     * fit. */
    if (best.extent && ahead->unscanned && can_scan &&
        best.extent->chunks[best.index].bytes > bytes) {
        best.extent = NULL;
    }
    best.unscanned = ahead->unscanned;
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

static bool is_larger(const struct extent *one, const struct chunk *chunk,
                      const struct victim *other, uint64_t bytes)
{
    (void)one;
    (void)bytes;
    return chunk->bytes > other->extent->chunks[other->index].bytes;
}

/* The first that fits in what was found. *missing: one of them lacks memory. */
static struct victim first_to_restore(const struct victims *ahead, uint64_t room, bool *missing)
{
    struct victim none = {0};
    *missing = false;
    for (uint32_t i = 0; i < ahead->count; i++) {
        const struct extent *extent = ahead->items[i].extent;
        const struct chunk *chunk = &extent->chunks[ahead->items[i].index];
        bool lacks = chunk_lacks_memory(chunk);
        *missing = *missing || lacks;
        if (lacks && chunk->bytes <= room && !extent->move_locks) {
            return ahead->items[i];
        }
    }
    return none;
}

/* The largest of at most `most` bytes. */
static void find_to_restore(struct victims *ahead, const struct device *device, uint64_t most)
{
    begin(ahead);
    for (size_t b = 0; b < extent_table_count(); b++) {
        struct extent *extent = extent_table_get(b);
        for (uint32_t i = 0;
             extent->device == device && !extent->retiring && i < extent->chunk_count; i++) {
            const struct chunk *chunk = &extent->chunks[i];
            if (chunk_lacks_memory(chunk) && chunk->bytes <= most) {
                keep_in_order(ahead, extent, i, most, is_larger);
            }
        }
    }
}

struct victim victim_choose_to_restore(struct victims *ahead, const struct device *device,
                                       uint64_t room, bool *missing)
{
    struct victim found = {0};
    *missing = false;
    if (is_current(ahead)) {
        found = first_to_restore(ahead, room, missing);
    }
    if (found.extent || (*missing && !room)) {
        return found;
    }
    find_to_restore(ahead, device, UINT64_MAX);
    found = first_to_restore(ahead, room, missing);
    if (!found.extent && *missing && room) { /* many are larger */
        bool small;
        find_to_restore(ahead, device, room);
        found = first_to_restore(ahead, room, &small);
    }
    return found;
}
