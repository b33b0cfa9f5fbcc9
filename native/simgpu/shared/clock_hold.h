/* Holds the clock of a machine with `charged` while the processor copies, or computes a kernel whose time is given by its
 * charge.
 *
 * Then time is what cards, links and calls are charged: a processor that is slower than a card or its link changes no
 * figure. Several threads and processes may hold the clock; it goes on when none does. A process that is stopped
 * while it holds the clock stops it for all.
 */
#ifndef SIMGPU_CLOCK_HOLD_H
#define SIMGPU_CLOCK_HOLD_H

/* Between these two calls the clock stands still. Without `charged` they do nothing. No lock of the state is held. */
void sg_clock_hold(void);
void sg_clock_release(void);

/* For a thread that waits for the clock: releases it, now and then, for processes that ended while they held it. */
void sg_clock_free_of_dead(void);
/* The process of this slot has ended. */
void sg_clock_forget(unsigned slot);

#endif
