/* How much of a tight bound a thread needs.
 *
 * A bound on unfinished work has two reasons to be long: the thread that submits may be late, and
 * then the GPU has nothing to do. A thread that is hardly ever late needs less of a tight bound,
 * and its GPU is free sooner when another program asks for it. So a thread has a part of the bound,
 * until its GPU has run dry too often while it did nothing but submit; then it has the whole until
 * it was in time for a while.
 */
#ifndef MOIETY_SHIM_GATE_QUEUE_MARGIN_H
#define MOIETY_SHIM_GATE_QUEUE_MARGIN_H

#include <stdbool.h>
#include <stdint.h>

/* What was learned of what one thread submits to one stream. All zeros: nothing. */
struct queue_margin {
    uint32_t late; /* grows when it was late, and shrinks when it was in time */
    bool is_whole;
};

/* What of the tight bound `bound_ns` holds now. */
uint64_t queue_margin_bound(const struct queue_margin *margin, uint64_t bound_ns);
/* A batch was in time, or late: the GPU had run out of work. */
void queue_margin_learn(struct queue_margin *margin, bool is_late);

#endif
