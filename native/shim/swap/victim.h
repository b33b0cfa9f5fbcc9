/* Chooses the chunk that is evicted, scanned or restored next. Under extent_lock. */
#ifndef MOIETY_SHIM_SWAP_VICTIM_H
#define MOIETY_SHIM_SWAP_VICTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/extent.h"

struct victim {
    struct extent *extent; /* NULL: none */
    uint32_t index;
    bool unscanned; /* there are chunks that were not scanned since the lease ended */
};

#define VICTIMS_AHEAD 64u

/* What one look at all chunks found for the choices to come, the best first: looking at all of them for each one
 * takes longer than the moves where there are many. */
struct victims {
    struct victim items[VICTIMS_AHEAD];
    uint32_t count;
    uint64_t version; /* extents_version when they were found */
    bool unscanned;
};

/* The chunk to evict when `bytes` are still to go. A program gets back all its memory with its next lease, so
 * it makes no difference when a chunk was used last; what a move costs does. Zeros are first, then
 * of the chunks of at most `bytes` the clean ones, then the largest, of several the youngest: it is the likeliest to be freed before it would
 * come back. If all are larger, it is the smallest. `can_scan`: chunks that were not scanned wait until they
 * were, unless the choice is clear. `ahead` is emptied (count 0) when better ones may be there, after a scan. */
struct victim victim_choose(struct victims *ahead, const struct device *device, uint64_t bytes,
                            bool can_scan);
/* Up to `count` chunks to scan next, in order; returns how many there are. */
uint32_t victim_choose_to_scan(const struct device *device, struct victim *victims, uint32_t count);
/* The chunk to restore next: the largest of at most `room` bytes, so that the last one is small. *missing: a
 * chunk lacks memory, whether or not there is room for it. */
struct victim victim_choose_to_restore(struct victims *ahead, const struct device *device,
                                       uint64_t room, bool *missing);

#endif
