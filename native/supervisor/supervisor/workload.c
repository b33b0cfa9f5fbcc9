#include "supervisor/supervisor/workload.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the supervisor listens to; all other signals stay blocked. SIGRTMIN + n passes n on; SIGRTMIN itself
 * carries another time limit. */
void workload_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGTERM);
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        sigaddset(set, number);
    }
}

/* Signals all processes of the workload, or those that missed the signal: those in its cgroup, and those below us. */
static size_t signal_all(void *self, int number, uint64_t missed_at_ticks)
{
    struct workload *workload = self;
    PROCESS_TABLE(table);
    if (number == SIGKILL) {
        (void)cgroups_kill(&workload->cgroups);
    } else if (number == SIGCONT) {
        (void)cgroups_freeze(&workload->cgroups, false);
    }
    (void)process_table_read(&table);
    process_table_choose_below(&table, getpid());
    cgroups_choose(&workload->cgroups, &table);
    if (missed_at_ticks) {
        process_table_keep_missed(&table, number, missed_at_ticks);
    }
    return process_table_signal(&table, number);
}

static struct ending_target all_of(struct workload *workload)
{
    return (struct ending_target){.signal = signal_all, .self = workload};
}

/* The time limit counts from here. */
void workload_begin(struct workload *workload, const struct spec *spec)
{
    workload->keeps_children = spec->keeps_children;
    workload->grace_ms = spec->grace_ms;
    workload->limit_ms = spec->time_limit_ms;
    workload->ran_ms = 0;
    workload->running_since_ms = ending_now_ms();
    workload->warn_signal = (int)spec->warn_signal;
    workload->warn_before_ms = spec->warn_ms;
    workload->warned_ms = 0;
    workload->warns_first = spec->warns_first;
}

static void end_all(struct workload *workload)
{
    struct ending_target all = all_of(workload);
    ending_begin(&workload->ending, &all, workload->grace_ms);
    workload->is_frozen = false;
}

static void end_for(struct workload *workload, enum end_reason reason)
{
    if (workload->ending.phase == ENDING_NOT) {
        workload->reason = workload->has_main_ended ? workload->reason : reason;
        workload->was_rest_asked = workload->has_main_ended;
        end_all(workload);
    }
}

/* What was left of the time limit when it began to run, or went on. */
static uint64_t left_ms(const struct workload *workload)
{
    return workload->limit_ms > workload->ran_ms ? workload->limit_ms - workload->ran_ms : 0;
}

static uint64_t limit_at_ms(const struct workload *workload)
{
    bool counts = workload->limit_ms && !workload->is_frozen && !workload->has_main_ended &&
                  workload->ending.phase == ENDING_NOT;
    return counts ? workload->running_since_ms + left_ms(workload) : UINT64_MAX;
}

/* When the warning is due: some time before the limit, and at once where less is left. */
static uint64_t warn_at_ms(const struct workload *workload)
{
    uint64_t limit = limit_at_ms(workload);
    if (!workload->warn_signal || limit == UINT64_MAX ||
        workload->limit_ms <= workload->warned_ms) {
        return UINT64_MAX;
    }
    uint64_t left = left_ms(workload);
    uint64_t before = workload->warn_before_ms < left ? workload->warn_before_ms : left;
    return limit - before;
}

/* Sends the warning, once before each time limit. The main process has its number until it is
 * reaped, which is not so yet. */
static void warn(struct workload *workload)
{
    workload->warned_ms = workload->limit_ms;
    if (workload->warns_first) {
        (void)kill(workload->program.pid, workload->warn_signal);
    } else {
        (void)signal_all(workload, workload->warn_signal, 0);
    }
}

/* Stops all processes at once, where there is a cgroup for it; the time limit stands still meanwhile. */
static void freeze(struct workload *workload)
{
    if (workload->is_frozen || workload->ending.phase != ENDING_NOT) {
        return;
    }
    workload->ran_ms += ending_now_ms() - workload->running_since_ms;
    if (!cgroups_freeze(&workload->cgroups, true)) {
        (void)signal_all(workload, SIGSTOP, 0);
    }
    workload->is_frozen = true;
}

static void thaw(struct workload *workload)
{
    (void)signal_all(workload, SIGCONT, 0);
    if (workload->is_frozen) {
        workload->is_frozen = false;
        workload->running_since_ms = ending_now_ms();
    }
}

static void pass_on(struct workload *workload, int number)
{
    if (number == SIGSTOP) {
        freeze(workload);
    } else if (number == SIGCONT) {
        thaw(workload);
    } else if (number > 0 && number < SIGRTMIN) {
        (void)signal_all(workload, number, 0);
    }
}

/* Reaps what has ended; whether anything below us is left. */
static bool reap(struct workload *workload)
{
    int status;
    for (;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid <= 0) {
            return pid == 0 || errno != ECHILD;
        }
        if (pid == workload->program.pid && !workload->has_main_ended) {
            workload->has_main_ended = true;
            workload->status = status;
        }
    }
}

static void wait_once(struct workload *workload, uint64_t until_ms)
{
    sigset_t set;
    workload_signals(&set);
    uint64_t now_ms = ending_now_ms();
    uint64_t for_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    struct timespec timeout = {.tv_sec = (time_t)(for_ms / 1000u),
                               .tv_nsec = (long)(for_ms % 1000u) * 1000000};
    siginfo_t info;
    int number = sigtimedwait(&set, &info, until_ms == UINT64_MAX ? NULL : &timeout);
    if (number == SIGRTMIN && info.si_code == SI_QUEUE) { /* the new time limit in ms */
        workload->limit_ms = (uint64_t)(uintptr_t)info.si_value.sival_ptr;
    } else if (number == SIGTERM) {
        (void)reap(workload); /* what ended before was not cancelled */
        end_for(workload, REASON_CANCELLED);
    } else if (number >= SIGRTMIN) {
        pass_on(workload, number - SIGRTMIN);
    }
    if (warn_at_ms(workload) <= ending_now_ms()) {
        warn(workload);
    }
    if (limit_at_ms(workload) <= ending_now_ms()) {
        end_for(workload, REASON_TIME_LIMIT);
    }
    struct ending_target all = all_of(workload);
    ending_go_on(&workload->ending, &all);
}

static uint64_t earlier(uint64_t one, uint64_t other) { return one < other ? one : other; }

/* Asks once more when the main process has ended: it may have started some of these since. */
static void ask_rest(struct workload *workload)
{
    if (workload->ending.phase == ENDING_GRACE && !workload->was_rest_asked) {
        workload->was_rest_asked = true;
        struct ending_target all = all_of(workload);
        ending_ask_rest(&workload->ending, &all);
    }
}

/* Waits until the main process has ended, and what it has left behind, unless that is to be kept. */
void workload_wait(struct workload *workload)
{
    for (;;) {
        bool has_children = reap(workload);
        if (workload->has_main_ended) {
            if (!has_children && cgroups_are_empty(&workload->cgroups)) {
                return;
            }
            if (workload->keeps_children && workload->ending.phase == ENDING_NOT) {
                return;
            }
            end_for(workload, workload->reason);
            ask_rest(workload);
        }
        uint64_t until_ms = earlier(limit_at_ms(workload), ending_next_ms(&workload->ending));
        until_ms = earlier(until_ms, warn_at_ms(workload));
        if (!has_children) { /* others in the cgroup end without a signal to us */
            until_ms = earlier(until_ms, ending_now_ms() + 100);
        }
        wait_once(workload, until_ms);
    }
}

/* Waits for what was kept; SIGTERM ends it. */
void workload_wait_for_children(struct workload *workload)
{
    while (reap(workload)) {
        wait_once(workload, ending_next_ms(&workload->ending));
    }
}
