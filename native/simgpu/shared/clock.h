/* Time in simgpu: nanoseconds of CLOCK_MONOTONIC, the same in every process. On a machine with `charged` it stands still
 * while the processor computes what the card would compute faster (clock_hold.h). */
#ifndef SIMGPU_CLOCK_H
#define SIMGPU_CLOCK_H

#include <stdint.h>

#define SG_US 1000ull
#define SG_MS 1000000ull
#define SG_S 1000000000ull
#define SG_WORTH_SLEEPING_NS (20 * SG_US) /* a shorter sleep costs more than it takes */

uint64_t sg_now_ns(void);

/* CLOCK_MONOTONIC itself. */
uint64_t sg_monotonic_now_ns(void);

/* A moment of this clock on CLOCK_MONOTONIC, as far as it can be told now: the clock may stand still until then, so a
 * sleep may end too early. */
uint64_t sg_monotonic_ns(uint64_t when_ns);

/* Returns at once when the moment has passed. The thread cannot be cancelled meanwhile. */
void sg_sleep_until(uint64_t when_ns);

/* Makes the calling thread's sleeps exact; by default they end up to 50 us late. */
void sg_precise_sleeps(void);

/* Makes the calling thread spend the time of a short call. Sleeping is too coarse for a few microseconds,
 * so the thread saves them up and sleeps once: a thousand calls take the right time, a single one may take
 * none. */
void sg_pay(uint64_t cost_ns);

/* The time that `bytes` take at a rate. */
uint64_t sg_duration_ns(uint64_t bytes, uint64_t bytes_per_s);

#endif
