/* What is on its way between one device and host memory: orders, room, and a few chunks. Touched by
 * the control thread alone; chunks and extents under extent_lock, as always. */
#ifndef MOIETY_SHIM_SWAP_TRANSFER_H
#define MOIETY_SHIM_SWAP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/swap/copy_streams.h"
#include "shim/swap/swap.h"
#include "shim/swap/victim.h"

#define ORDERS_MAX 64u
#define POLL_AGAIN_NS 50000ull /* at a copy that takes longer than it should */
#define NO_ROOM_NS 2000000ull  /* the driver may still be freeing others' memory */

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
    swap_report *report;
    bool restoring; /* has room, and has not said that all is back */
    struct direction out, in;
    struct victim scans[ZERO_SCAN_AT_ONCE];
    uint32_t scan_count;
    uint32_t failures; /* of coming, in a row */
    uint64_t retry_ns; /* nothing comes before that */
};

extern struct swap_moved transfer_totals;

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
/* A chunk's memory goes. */
void transfer_unmap(struct transfer *transfer, struct extent *extent, uint32_t index);

/* ---- out (evict.c), all under extent_lock ---- */

/* Begins what can be begun of the oldest order, and ends it when nothing of it is left to do. May
 * drop the lock for a while. */
void evict_begin(struct transfer *transfer);
void evict_end(struct transfer *transfer, bool succeeded);
void evict_end_scan(struct transfer *transfer, bool succeeded);
/* The oldest order is carried out as far as it can be, with `bytes` gone since the last report. */
void evict_end_order(struct transfer *transfer, uint64_t bytes);

/* ---- in (restore.c), all under extent_lock ---- */

/* Nothing can be begun for this reason. True: nothing will ever be. */
bool restore_is_hopeless(struct transfer *transfer, CUresult why);
/* Begins what there is room for. True: all is there, or will never be. */
bool restore_begin(struct transfer *transfer);
void restore_end(struct transfer *transfer, CUresult result);

#endif
