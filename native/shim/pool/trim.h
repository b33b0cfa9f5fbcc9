/* What pools have reserved, and how it is given back. Only the files of this folder use struct pool. */
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
    CUmemoryPool handle; /* NULL: it is destroyed, and goes with its last allocation */
    CUdevice ordinal;
    uint64_t most;
    uint64_t threshold;
    uint64_t step; /* what it grows by */
    uint64_t reserved, reserved_high, used, used_high;
    struct segment *segments;
    struct heap heap;
};

extern struct pool *pools;

/* Memory that was taken out of pools under the lock, to be given back without it. */
struct taken {
    struct segment *segments;
    struct decommits decommits;
    bool counted; /* threads that need memory wait for it */
};

/* Takes free segments until no more than `keep` bytes are reserved, then free parts of the others until no more
 * than `keep_parts` are, as far as *taken can hold them. True: there were some. Under pools_lock. */
bool trim_take(struct pool *pool, uint64_t keep, uint64_t keep_parts, struct taken *taken);
/* Takes all segments, free or not. Under pools_lock. */
void trim_take_all(struct pool *pool, struct taken *taken);
/* Forgets destroyed pools without segments. Under pools_lock. */
void trim_remove_empty(void);
/* Gives back what was taken, and waits for moves. True: there was some. No lock is held. */
bool trim_give_back(struct taken *taken);
/* Sets trim_is_due if the pool has more than its threshold. */
void trim_note(const struct pool *pool);

/* Gives back free memory, in whole chunks, until no more than `keep_bytes` are reserved. */
void trim_pool(struct pool *pool, uint64_t keep_bytes);
/* True if a pool has more than its threshold. The program has waited for the GPU: pools give back what is
 * above. */
extern _Atomic bool trim_is_due;
void trim_all(void);
/* Memory was freed in a pool of the driver's own. */
void trim_note_free(void);
/* Memory is needed on a device: gives back all that is free, and waits for other threads that do the same.
 * True: there was some. */
bool trim_reclaim(const struct device *device);
void trim_after_fork(void);

#endif
