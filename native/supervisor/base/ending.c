#include "supervisor/base/ending.h"

#include <signal.h>
#include <time.h>

#define FIRST_ROUND_MS 5u
#define LAST_ROUND_MS 1000u

/* A clock that cannot be set. */
uint64_t ending_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Asks all to end. Those that are stopped go on, so that they learn of it. */
void ending_begin(struct ending *ending, const struct ending_target *target, uint64_t grace_ms)
{
    if (ending->phase != ENDING_NOT) {
        return;
    }
    ending->phase = ENDING_GRACE;
    ending->kill_at_ms = ending_now_ms() + grace_ms;
    ending->round_ms = FIRST_ROUND_MS;
    if (grace_ms) {
        (void)target->signal(target->self, SIGTERM);
        (void)target->signal(target->self, SIGCONT);
    }
    ending_go_on(ending, target);
}

/* When there is something to do next; UINT64_MAX if nothing is being ended. */
uint64_t ending_next_ms(const struct ending *ending)
{
    switch (ending->phase) {
    case ENDING_GRACE:
        return ending->kill_at_ms;
    case ENDING_KILL:
        return ending->next_round_ms;
    case ENDING_NOT:
        break;
    }
    return UINT64_MAX;
}

/* Kills all that are left once the grace is over. A process that forks beside a round is caught by the next one,
 * because it is below us too. One in a call that cannot be interrupted takes its time. */
void ending_go_on(struct ending *ending, const struct ending_target *target)
{
    uint64_t now_ms = ending_now_ms();
    if (now_ms < ending_next_ms(ending)) {
        return;
    }
    ending->phase = ENDING_KILL;
    (void)target->signal(target->self, SIGSTOP); /* what is stopped does not fork */
    (void)target->signal(target->self, SIGKILL);
    ending->next_round_ms = now_ms + ending->round_ms;
    ending->round_ms = 2 * ending->round_ms > LAST_ROUND_MS ? LAST_ROUND_MS : 2 * ending->round_ms;
}
