/* What is on its way between one device and host memory: orders, room, and a few chunks. Touched by
 * the control thread alone; chunks and blocks under blocks_lock, as always. */
#ifndef MOIETY_SHIM_MOVER_H
#define MOIETY_SHIM_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/choice.h"
#include "shim/lane.h"
#include "shim/swap.h"

#define ORDERS_MAX 64u
#define LOOK_AGAIN_NS 50000ull /* at a copy that takes longer than it should */
#define NO_ROOM_NS 2000000ull  /* the driver may still be freeing others' memory */

/* A chunk on its way. */
struct move {
    struct block *block;
    uint32_t index;
    void *host;  /* leaving: where to */
    bool copied; /* coming: from the arena, not set to zeros */
    uint64_t began_ns;
};

struct direction {
    struct move moves[LANE_DEPTH];
    uint32_t first, count;
    /* Bytes a second, the best that was seen lately: whoever waited by an average of what includes
     * its own waiting would wait ever longer. */
    double rate;
    uint64_t window_bytes, window_ns;
    uint64_t began_ns;
    uint64_t ended_ns; /* the last one */
};

struct mover {
    struct device *device;
    struct lane lane;
    uint64_t orders[ORDERS_MAX]; /* what is still to leave, oldest first */
    uint32_t order_count;
    bool failed; /* the oldest: no more of it leaves */
    bool spent;  /* nothing is left that could leave */
    swap_report *report;
    bool coming; /* has room, and has not said that all is back */
    struct direction out, in;
    struct choice looks[ZEROS_AT_ONCE];
    uint32_t look_count;
    uint32_t failures; /* of coming, in a row */
    uint64_t retry_ns; /* nothing comes before that */
};

extern struct swap_moved mover_moved;

static inline bool mover_is_moving(const struct mover *mover)
{
    return mover->out.count || mover->in.count || mover->look_count;
}

/* Whether one more chunk may be on its way: two always, so that one is copied while the other is
 * mapped or unmapped; more of small ones, so that the link has a few milliseconds to do. */
bool mover_has_place(const struct direction *way);
/* Takes a chunk into a direction that has a place free; *event is to be recorded behind its copy. */
struct move *mover_begin(struct direction *way, CUevent done[], CUevent *event);
/* The oldest one's copy of so many bytes has ended: takes it off. */
struct move mover_end(struct direction *way, uint64_t bytes, uint64_t *busy_ns);
/* In how many ns the oldest one should be done. */
uint64_t mover_expected_ns(const struct direction *way);
/* A chunk's memory goes. */
void mover_take_off(struct mover *mover, struct block *block, uint32_t index);

/* ---- out (leaving.c), all under blocks_lock ---- */

/* Begins what can be begun of the oldest order, and ends it when nothing of it is left to do. May
 * drop the lock for a while. */
void leaving_begin(struct mover *mover);
void leaving_end(struct mover *mover, bool succeeded);
void leaving_end_look(struct mover *mover, bool succeeded);
/* The oldest order is carried out as far as it can be, with `bytes` gone since the last report. */
void leaving_end_order(struct mover *mover, uint64_t bytes);

/* ---- in (coming.c), all under blocks_lock ---- */

/* Nothing can be begun for this reason. True: nothing will ever be. */
bool coming_is_hopeless(struct mover *mover, CUresult why);
/* Begins what there is room for. True: all is there, or will never be. */
bool coming_begin(struct mover *mover);
void coming_end(struct mover *mover, CUresult result);

#endif
