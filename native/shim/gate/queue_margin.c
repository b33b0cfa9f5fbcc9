#include "shim/gate/queue_margin.h"

/* The part of a tight bound for a thread that is in time. */
#define PART_OF 5
#define PART 2
/* One late batch in LATE is no reason for the whole bound: on a busy machine every program is late
 * now and then. */
#define LATE 16u
#define TOO_LATE (4 * LATE)
#define MOST (8 * LATE)

uint64_t queue_margin_bound(const struct queue_margin *margin, uint64_t bound_ns)
{
    return margin->is_whole ? bound_ns : bound_ns * PART / PART_OF;
}

void queue_margin_learn(struct queue_margin *margin, bool is_late)
{
    if (!is_late) {
        margin->late -= margin->late > 0;
        margin->is_whole &= margin->late > 0;
        return;
    }
    margin->late = margin->late + LATE < MOST ? margin->late + LATE : MOST;
    margin->is_whole |= margin->late >= TOO_LATE;
}
