/* Time as everything in simgpu counts it: nanoseconds of CLOCK_MONOTONIC, the same in every process. */
#ifndef SIMGPU_CLOCK_H
#define SIMGPU_CLOCK_H

#include <stdint.h>

#define SG_US 1000ull
#define SG_MS 1000000ull
#define SG_S 1000000000ull

uint64_t sg_now_ns(void);

/* Returns at once when the moment has passed. Nobody is cancelled in it. */
void sg_sleep_until(uint64_t when_ns);

/* The calling thread's sleeps end when they should, not up to 50 us later. */
void sg_precise_sleeps(void);

/* Makes the calling thread pay for a short call. Sleeping is too coarse for a few
 * microseconds, so they are saved up and slept together: a thousand calls take as long
 * as they should, one of them may look free. */
void sg_pay(uint64_t cost_ns);

/* How long so many bytes take at a rate. */
uint64_t sg_duration_ns(uint64_t bytes, uint64_t bytes_per_s);

#endif
