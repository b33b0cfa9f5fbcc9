#include "simgpu/shared/sleep.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include "simgpu/shared/clock.h"
#include "simgpu/shared/clock_hold.h"

#define PAY_AT_ONCE_NS (200 * SG_US)

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
