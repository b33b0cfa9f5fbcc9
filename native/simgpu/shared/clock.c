#include "simgpu/shared/clock.h"

#include <time.h>

#include "simgpu/shared/state_layout.h"

#define LOOK_AGAIN_NS (100 * SG_US) /* at a clock that stands still */

uint64_t sg_monotonic_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SG_S + (uint64_t)now.tv_nsec;
}

uint64_t sg_now_ns(void)
{
    uint64_t now = sg_monotonic_now_ns();
    uint64_t word = sg_state ? __atomic_load_n(&sg_state->clock.word, __ATOMIC_ACQUIRE) : 0;
    return word & 1 ? word >> 1 : now - (word >> 1);
}

uint64_t sg_monotonic_ns(uint64_t when_ns)
{
    uint64_t word = sg_state ? __atomic_load_n(&sg_state->clock.word, __ATOMIC_ACQUIRE) : 0;
    if (!(word & 1)) {
        return when_ns + (word >> 1);
    }
    uint64_t left = when_ns > word >> 1 ? when_ns - (word >> 1) : 0;
    return sg_monotonic_now_ns() + (left < LOOK_AGAIN_NS ? LOOK_AGAIN_NS : left);
}

uint64_t sg_duration_ns(uint64_t bytes, uint64_t bytes_per_s)
{
    if (bytes_per_s == 0) {
        return 0;
    }
    return (uint64_t)((double)bytes * 1e9 / (double)bytes_per_s);
}
