#include "supervisor/base/ending.h"

#include <signal.h>
#include <time.h>

#include "supervisor/base/identity.h"

#define FIRST_ASK_MS ((uint64_t)50)
#define FIRST_ROUND_MS 5u
#define LAST_ROUND_MS 1000u

/* A clock that cannot be set. */
uint64_t ending_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

static void ask(struct ending *ending, const struct ending_target *target, uint64_t asked_ticks)
{
    ending->asked_ticks = asked_ticks;
    ending->next_round_ms = ending_now_ms() + FIRST_ASK_MS;
    ending->round_ms = 2 * FIRST_ASK_MS;
    (void)target->signal(target->self, SIGTERM, 0);
    (void)target->signal(target->self, SIGCONT, 0);
}

/* Asks all to end. Those that are stopped go on, so that they learn of it. What a handler starts at once, in the same
 * tick, is not among those that are asked again. */
void ending_begin(struct ending *ending, const struct ending_target *target, uint64_t grace_ms)
{
    if (ending->phase != ENDING_NOT) {
        return;
    }
    ending->phase = ENDING_GRACE;
    ending->kill_at_ms = ending_now_ms() + grace_ms;
    if (grace_ms) {
        ask(ending, target, identity_now_ticks() - 1);
    }
    ending_go_on(ending, target);
}

/* Asks those that are left once more. */
void ending_ask_rest(struct ending *ending, const struct ending_target *target)
{
    if (ending->phase == ENDING_GRACE) {
        ask(ending, target, identity_now_ticks());
    }
}

/* When there is something to do next; UINT64_MAX if nothing is being ended. */
uint64_t ending_next_ms(const struct ending *ending)
{
    switch (ending->phase) {
    case ENDING_GRACE:
        return ending->kill_at_ms < ending->next_round_ms ? ending->kill_at_ms
                                                          : ending->next_round_ms;
    case ENDING_KILL:
        return ending->next_round_ms;
    case ENDING_NOT:
        break;
    }
    return UINT64_MAX;
}

static void end_round(struct ending *ending, uint64_t now_ms)
{
    ending->next_round_ms = now_ms + ending->round_ms;
    ending->round_ms = 2 * ending->round_ms > LAST_ROUND_MS ? LAST_ROUND_MS : 2 * ending->round_ms;
}

/* Asks those again that missed SIGTERM: a shell's child loses it between fork() and exec(), where it still has the
 * shell's handler. Once the grace is over, kills all that are left. A process that forks beside a round is caught by
 * the next one, because it is below us too. One in a call that cannot be interrupted takes its time. */
void ending_go_on(struct ending *ending, const struct ending_target *target)
{
    uint64_t now_ms = ending_now_ms();
    if (now_ms < ending_next_ms(ending)) {
        return;
    }
    if (now_ms < ending->kill_at_ms) {
        (void)target->signal(target->self, SIGTERM, ending->asked_ticks);
        end_round(ending, now_ms);
        return;
    }
    if (ending->phase == ENDING_GRACE) {
        ending->phase = ENDING_KILL;
        ending->round_ms = FIRST_ROUND_MS;
    }
    (void)target->signal(target->self, SIGSTOP, 0); /* what is stopped does not fork */
    (void)target->signal(target->self, SIGKILL, 0);
    end_round(ending, now_ms);
}
