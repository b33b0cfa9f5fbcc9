/* What pools have reserved, and how it is given back. struct pool is shared with pool.c alone. */
#ifndef MOIETY_SHIM_POOL_TRIM_H
#define MOIETY_SHIM_POOL_TRIM_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"
#include "shim/pool/decommit.h"
#include "shim/pool/heap.h"

struct pool {
    struct pool *next;
    CUmemoryPool handle; /* NULL: destroyed, and gone with its last allocation */
    CUdevice ordinal;
    uint64_t most;
    uint64_t threshold;
    uint64_t step; /* what it grows by */
    uint64_t reserved, reserved_high, used, used_high;
    struct segment *segments;
    struct heap heap;
};

/* Never held while the agent is asked, at the gate, or while something is being moved; taken before
 * extent_lock. */
extern struct lock pools_lock;
extern struct pool *pools;

/* What was taken out of pools with the lock held, to be given back without. Zero: nothing. */
struct taken {
    struct segment *segments;
    struct decommits decommits;
    bool counted; /* whoever needs memory waits for it */
};

/* Takes free segments until no more than `keep` bytes are reserved, then free parts of the others
 * until no more than `keep_parts` are; so much at a time as *taken can hold. No less is kept than
 * asked for. Whether there was anything. */
bool trim_take(struct pool *pool, uint64_t keep, uint64_t keep_parts, struct taken *taken);
/* All of it, free or not. */
void trim_take_all(struct pool *pool, struct taken *taken);
/* Forgets destroyed pools with nothing left. */
void trim_remove_empty(void);
/* Without the lock: what is on its way is waited for. Whether there was anything. */
bool trim_give_back(struct taken *taken);
/* If the pool has more than it should, whoever waits for the GPU next has a look. */
void trim_note(const struct pool *pool);

/* Gives back what is free, in whole chunks, until no more than so many bytes are reserved. */
void trim_pool(struct pool *pool, uint64_t keep_bytes);
/* The program has waited for the GPU, so pools give back what they have above their thresholds. The
 * flag tells whether any has. */
extern _Atomic bool trim_is_due;
void trim_all(void);
/* Something was freed in one of the driver's own. */
void trim_note_free(void);
/* Memory is needed on a device: gives back all that is free, and waits for other threads that do the
 * same. Whether there was any. */
bool trim_reclaim(const struct device *device);
void trim_after_fork(void);

#endif
