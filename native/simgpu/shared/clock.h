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

/* The time that `bytes` take at a rate. */
uint64_t sg_duration_ns(uint64_t bytes, uint64_t bytes_per_s);

#endif
