#include "simgpu/shared/clock.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#define PAY_AT_ONCE_NS (200 * SG_US)

uint64_t sg_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SG_S + (uint64_t)now.tv_nsec;
}

void sg_sleep_until(uint64_t when_ns)
{
    struct timespec when = {.tv_sec = (time_t)(when_ns / SG_S), .tv_nsec = (long)(when_ns % SG_S)};
    if (when_ns <= sg_now_ns()) {
        return;
    }
    int cancelled;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelled);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) != 0)
        ;
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
