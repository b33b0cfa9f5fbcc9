/* Waiting for moments of simgpu's time (clock.h). */
#ifndef SIMGPU_SLEEP_H
#define SIMGPU_SLEEP_H

#include <stdint.h>

/* Returns at once when the moment has passed. The thread cannot be cancelled meanwhile. */
void sg_sleep_until(uint64_t when_ns);

/* Makes the calling thread's sleeps exact; by default they end up to 50 us late. */
void sg_precise_sleeps(void);

/* Makes the calling thread spend the time of a short call. Sleeping is too coarse for a few microseconds,
 * so the thread saves them up and sleeps once: a thousand calls take the right time, a single one may take
 * none. */
void sg_pay(uint64_t cost_ns);

#endif
