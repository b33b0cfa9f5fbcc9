/* Ending what a workload has left of processes: SIGTERM, a time of grace, then SIGKILL until none is left. Those that
 * missed SIGTERM are asked again during the grace. */
#ifndef MOIETY_SUPERVISOR_ENDING_H
#define MOIETY_SUPERVISOR_ENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ending_phase { ENDING_NOT, ENDING_GRACE, ENDING_KILL };

struct ending {
    enum ending_phase phase;
    uint64_t kill_at_ms;    /* the end of the grace */
    uint64_t next_round_ms; /* of asking again, or of SIGKILL */
    uint64_t round_ms;      /* from one round to the next */
    uint64_t asked_ticks;   /* since the boot: who began by then was sent SIGTERM */
};

/* Signals all processes that are to end, or those that missed the signal at a moment (ticks since the boot, 0 is none);
 * how many there were. */
struct ending_target {
    size_t (*signal)(void *self, int signal_number, uint64_t missed_at_ticks);
    void *self;
};

uint64_t ending_now_ms(void);
void ending_begin(struct ending *ending, const struct ending_target *target, uint64_t grace_ms);
uint64_t ending_next_ms(const struct ending *ending);
void ending_ask_rest(struct ending *ending, const struct ending_target *target);
void ending_go_on(struct ending *ending, const struct ending_target *target);

#endif
