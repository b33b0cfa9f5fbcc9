/* The moves between one device and host memory: orders, and the chunks that are being copied. Only the control
 * thread uses it; chunks and extents are under extent_lock. */
#ifndef MOIETY_SHIM_SWAP_TRANSFER_H
#define MOIETY_SHIM_SWAP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/copy_streams.h"
#include "shim/swap/victim.h"

#define ORDERS_MAX 64u
#define POLL_AGAIN_NS 50000ull /* at a copy that takes longer than it should */
#define NO_ROOM_NS 2000000ull  /* the driver may still be freeing others' memory */

/* Called for each step of an eviction, under extent_lock: `bytes` are no longer on the GPU. */
typedef void transfer_report(struct device *device, uint64_t bytes, bool last, bool failed);

/* A chunk that is being copied. */
struct move {
    struct extent *extent;
    uint32_t index;
    void *host;  /* evicted: where to */
    bool copied; /* restored: from its host copy, not set to zeros */
    bool hashed; /* restored: and its bytes are hashed on the GPU */
    uint64_t began_ns;
};

struct direction {
    struct move moves[COPY_DEPTH];
    uint32_t first, count;
    /* Bytes a second, the best of late. An average would include our own waiting, and waiting by it would
     * take ever longer. */
    double rate;
    uint64_t window_bytes, window_ns;
    uint64_t began_ns;
    uint64_t ended_ns; /* the last copy */
};

struct transfer {
    struct device *device;
    struct copy_streams copy_streams;
    uint64_t orders[ORDERS_MAX]; /* bytes still to evict, oldest order first */
    uint32_t order_count;
    bool failed; /* the oldest order: no more of it can be evicted */
    bool spent;  /* nothing is left that could be evicted */
    transfer_report *report;
    bool restoring; /* there was a budget, and not all is back yet */
    struct direction out, in;
    struct victims leaving, coming; /* chosen ahead */
    struct victim scans[ZERO_SCAN_AT_ONCE];
    uint32_t scan_count;
    uint32_t hash_count; /* how many of them are hashed: the first */
    uint32_t failures;   /* to restore, in a row */
    uint64_t retry_ns;   /* nothing is restored before that */
};

struct transfer_totals {
    uint64_t evicted_bytes, evicted_ns, restored_bytes, restored_ns;
    uint64_t zero_bytes; /* evicted without a copy: they were zeros, or unchanged */
    uint64_t verified_bytes, wrong_bytes; /* CLEAN_VERIFY */
    uint64_t damaged_bytes;               /* in host memory */
};

extern struct transfer_totals transfer_totals;

static inline bool transfer_is_moving(const struct transfer *transfer)
{
    return transfer->out.count || transfer->in.count || transfer->scan_count;
}

/* True if one more copy may begin. There are always two, so that one chunk is copied while the other is mapped
 * or unmapped, and more of small ones, so that the link is busy for a few milliseconds. */
bool transfer_has_place(const struct direction *way);
/* Begins a copy in a direction that has a place free; the caller records *event behind it. */
struct move *transfer_begin(struct direction *way, CUevent done[], CUevent *event);
/* Removes the oldest copy, which has ended and was of `bytes`. */
struct move transfer_end(struct direction *way, uint64_t bytes, uint64_t *busy_ns);
/* In how many ns the oldest copy should be done. */
uint64_t transfer_expected_ns(const struct direction *way);
/* The slot in the scan's page for a copy of a direction. */
static inline uint32_t transfer_slot(const struct direction *way, const struct move *move)
{
    return ZERO_SCAN_AT_ONCE + (uint32_t)(move - way->moves);
}
/* Takes a chunk's memory away: it is evicted. Under extent_lock. */
void transfer_unmap(struct transfer *transfer, struct extent *extent, uint32_t index);

#endif
