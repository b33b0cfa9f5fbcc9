/* Which chunk moves next. Under extent_lock. */
#ifndef MOIETY_SHIM_SWAP_VICTIM_H
#define MOIETY_SHIM_SWAP_VICTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/extent.h"

struct victim {
    struct extent *extent; /* NULL: none */
    uint32_t index;
    bool unscanned; /* leaving: there are chunks that nobody looked at in this turn */
};

/* The chunk to leave when `bytes` are still to go. Whoever gets the lease next gets back all it has
 * anyway, so it makes no difference when one was used last; what makes one is what the move costs.
 * Zeros first, then the largest that is not more than what is to go, of these the youngest: it is
 * the likeliest to be freed before it would come back. If all are larger, the smallest.
 * `can_look`: chunks that were not looked at wait until they were, unless the choice is clear. */
struct victim victim_choose(const struct device *device, uint64_t bytes, bool can_look);
/* Up to `count` chunks to look at next, in that order; how many there are. */
uint32_t victim_choose_to_scan(const struct device *device, struct victim *victims, uint32_t count);
/* The chunk to come back next: the largest that there is room for, so that the last to come is a
 * small one. *missing: there is one that is not present, whether or not there is room for it. */
struct victim victim_choose_to_restore(const struct device *device, uint64_t room, bool *missing);

#endif
