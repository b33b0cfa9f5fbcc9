/* What is on its way between one device and host memory: orders, room, and a few chunks. Touched by
 * the control thread alone; chunks and extents under extent_lock, as always. */
#ifndef MOIETY_SHIM_SWAP_TRANSFER_H
#define MOIETY_SHIM_SWAP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/copy_streams.h"
#include "shim/swap/victim.h"

#define ORDERS_MAX 64u
#define POLL_AGAIN_NS 50000ull /* at a copy that takes longer than it should */
#define NO_ROOM_NS 2000000ull  /* the driver may still be freeing others' memory */

/* Called for each step out, under extent_lock: `bytes` are no longer on the GPU. */
typedef void transfer_report(struct device *device, uint64_t bytes, bool last, bool failed);

/* A chunk on its way. */
struct move {
    struct extent *extent;
    uint32_t index;
    void *host;  /* leaving: where to */
    bool copied; /* coming: from the arena, not set to zeros */
    uint64_t began_ns;
};

struct direction {
    struct move moves[COPY_DEPTH];
    uint32_t first, count;
    /* Bytes a second, the best that was seen lately: whoever waited by an average of what includes
     * its own waiting would wait ever longer. */
    double rate;
    uint64_t window_bytes, window_ns;
    uint64_t began_ns;
    uint64_t ended_ns; /* the last one */
};

struct transfer {
    struct device *device;
    struct copy_streams copy_streams;
    uint64_t orders[ORDERS_MAX]; /* what is still to leave, oldest first */
    uint32_t order_count;
    bool failed; /* the oldest: no more of it leaves */
    bool spent;  /* nothing is left that could leave */
    transfer_report *report;
    bool restoring; /* has room, and has not said that all is back */
    struct direction out, in;
    struct victim scans[ZERO_SCAN_AT_ONCE];
    uint32_t scan_count;
    uint32_t failures; /* of coming, in a row */
    uint64_t retry_ns; /* nothing comes before that */
};

struct transfer_totals {
    uint64_t evicted_bytes, evicted_ns, restored_bytes, restored_ns;
    uint64_t zero_bytes; /* left without being copied */
};

extern struct transfer_totals transfer_totals;

static inline bool transfer_is_moving(const struct transfer *transfer)
{
    return transfer->out.count || transfer->in.count || transfer->scan_count;
}

/* Whether one more chunk may be on its way: two always, so that one is copied while the other is
 * mapped or unmapped; more of small ones, so that the link has a few milliseconds to do. */
bool transfer_has_place(const struct direction *way);
/* Takes a chunk into a direction that has a place free; *event is to be recorded behind its copy. */
struct move *transfer_begin(struct direction *way, CUevent done[], CUevent *event);
/* The oldest one's copy of so many bytes has ended: takes it off. */
struct move transfer_end(struct direction *way, uint64_t bytes, uint64_t *busy_ns);
/* In how many ns the oldest one should be done. */
uint64_t transfer_expected_ns(const struct direction *way);
/* Takes a chunk's memory away: it is evicted. Under extent_lock. */
void transfer_unmap(struct transfer *transfer, struct extent *extent, uint32_t index);

#endif
