/* How much of a tight bound a thread needs.
 *
 * A bound on unfinished work has two reasons to be long: the thread that submits may be late, and
 * then the GPU has nothing to do. A thread that is never late needs less of a tight bound, and its
 * GPU is free sooner when another program asks for it. So a thread gets a part of the bound until
 * its GPU has run dry while it did nothing but submit; then it gets the whole for a while.
 */
#ifndef MOIETY_SHIM_GATE_QUEUE_MARGIN_H
#define MOIETY_SHIM_GATE_QUEUE_MARGIN_H

#include <stdint.h>

/* What was learned of what one thread submits to one stream. All zeros: nothing. */
struct queue_margin {
    uint64_t whole_until_ns; /* it gets the whole bound until then */
    uint64_t whole_for_ns;   /* for so long, the last time */
};

/* What of the tight bound `bound_ns` holds now. */
uint64_t queue_margin_bound(const struct queue_margin *margin, uint64_t bound_ns, uint64_t now_ns);
/* The GPU has run out of work, and the thread did nothing but submit. */
void queue_margin_ran_dry(struct queue_margin *margin, uint64_t now_ns);

#endif
