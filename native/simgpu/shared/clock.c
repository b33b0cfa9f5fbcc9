#include "simgpu/shared/clock.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include "simgpu/shared/clock_hold.h"
#include "simgpu/shared/state_layout.h"

#define PAY_AT_ONCE_NS (200 * SG_US)
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

void sg_sleep_until(uint64_t when_ns)
{
    int cancelled;
    if (when_ns <= sg_now_ns()) {
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    do {
        uint64_t until = sg_monotonic_ns(when_ns);
        struct timespec at = {.tv_sec = (time_t)(until / SG_S), .tv_nsec = (long)(until % SG_S)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
            ;
        sg_clock_free_of_dead();
    } while (when_ns > sg_now_ns());
    pthread_setcancelstate(cancelled, NULL);
}

void sg_precise_sleeps(void) { prctl(PR_SET_TIMERSLACK, 1ul, 0, 0, 0); }

void sg_pay(uint64_t cost_ns)
{
    static __thread uint64_t owed_ns;
    owed_ns += cost_ns;
    if (owed_ns < PAY_AT_ONCE_NS) {
        return;
    }
    uint64_t now = sg_now_ns();
    sg_sleep_until(now + owed_ns);
    owed_ns = 0;
}

uint64_t sg_duration_ns(uint64_t bytes, uint64_t bytes_per_s)
{
    if (bytes_per_s == 0) {
        return 0;
    }
    return (uint64_t)((double)bytes * 1e9 / (double)bytes_per_s);
}
