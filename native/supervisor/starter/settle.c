#include "supervisor/starter/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"
#include "supervisor/base/process_table.h"
#include "supervisor/base/start_lock.h"

#define LOOK_MS 50u    /* at processes that end without a signal to us */
#define RETRY_MS 1000u /* while the disk is full */

/* One of the processes that a dead supervisor has left to us. */
static bool is_orphan(const struct settlings *all, const struct process *row)
{
    return row->parent == getpid() && !supervisors_have(all->supervisors, row->pid);
}

/* Whether a session is known to be another workload's that is being settled. */
static bool is_of_another(const struct settlings *all, const struct settling *own, pid_t session)
{
    for (const struct settling *other = all->first; other; other = other->next) {
        if (other != own && session && other->started.child_pid == session) {
            return true;
        }
    }
    return false;
}

struct aim {
    const struct settlings *all;
    struct settling *own;
};

/* Signals all processes of the workload, or those that missed the signal; how many there are. 0 only counts them. */
static size_t signal_all(void *self, int number, uint64_t missed_at_ticks)
{
    const struct aim *aim = self;
    struct settling *own = aim->own;
    PROCESS_TABLE(table);
    if (number == SIGKILL) {
        (void)cgroups_kill(&own->cgroups);
    } else if (number == SIGCONT) {
        (void)cgroups_freeze(&own->cgroups, false);
    }
    (void)process_table_read(&table);
    for (size_t i = 0; own->was_ours && i < table.count; i++) {
        struct process *row = &table.rows[i];
        row->is_chosen = is_orphan(aim->all, row) && !is_of_another(aim->all, own, row->session);
    }
    if (own->was_started) {
        process_table_choose_session(&table, own->started.child_pid, own->started.child_start);
    }
    process_table_spread(&table);
    cgroups_choose(&own->cgroups, &table);
    if (missed_at_ticks) {
        process_table_keep_missed(&table, number, missed_at_ticks);
    }
    return process_table_signal(&table, number);
}

/* Reads what there is of the start. After another boot there are no processes of it. */
static void read_start(struct settling *own)
{
    char boot_id[BOOT_ID_BYTES];
    bool is_whole =
        !record_read_started(own->folder, &own->started) && own->started.attempt == own->attempt;
    own->was_started =
        is_whole && !identity_boot(boot_id) && !strcmp(boot_id, own->started.boot_id);
    cgroups_open(&own->cgroups);
}

/* Whether the supervisor that the record names runs. */
static bool is_supervised(int folder, uint64_t attempt)
{
    char boot_id[BOOT_ID_BYTES];
    struct started_record started;
    return !record_read_started(folder, &started) && started.attempt == attempt &&
           !identity_boot(boot_id) && !strcmp(boot_id, started.boot_id) &&
           identity_holds(started.supervisor_pid, started.supervisor_start);
}

/* Begins to settle a start, whose folder is ours from here on; -EALREADY if its supervisor runs. A lock that is held
 * may be that of a process that the dead supervisor had just forked: it is taken later. */
int settle_begin(struct settlings *all, const struct start *start, const int *cgroups, size_t count,
                 bool was_ours)
{
    int lock_fd = start_lock_take(start->folder);
    if (lock_fd < 0 && lock_fd != -EWOULDBLOCK) {
        return lock_fd;
    }
    if (lock_fd < 0 && !was_ours && is_supervised(start->folder, start->attempt)) {
        return -EALREADY;
    }
    struct settling *own = calloc(1, sizeof *own);
    if (!own) {
        descriptor_close(&lock_fd);
        return -ENOMEM;
    }
    own->folder = start->folder;
    own->lock_fd = lock_fd;
    own->attempt = start->attempt;
    own->grace_ms = start->grace_ms;
    own->was_ours = was_ours;
    memcpy(own->id, start->id, sizeof own->id);
    cgroups_init(&own->cgroups, cgroups, count, own->id, own->attempt);
    own->next = all->first;
    all->first = own;
    return 0;
}

/* What is to be written. A supervisor that died before `started` was on disk has executed nothing. */
static int write_end(const struct settling *own)
{
    int64_t ended = record_attempt(own->folder, "exit");
    if (ended >= 0 && (uint64_t)ended >= own->attempt) {
        return 0; /* it died after it had written its own */
    }
    struct exit_record record = {.attempt = own->attempt, .end_s = record_now_s()};
    int64_t began = record_attempt(own->folder, "started");
    if (began == -ENOENT || (began >= 0 && (uint64_t)began < own->attempt)) {
        static const char why[] = "its supervisor was killed before the program began";
        record.outcome = OUTCOME_FAILED_TO_START;
        record.value = EINTR;
        record.begin_s = record.end_s;
        memcpy(record.text, why, sizeof why);
    } else {
        record.outcome = OUTCOME_LOST;
        record.begin_s = own->started.begin_s > 0 ? own->started.begin_s : record.end_s;
    }
    return record_write_exit(own->folder, &record);
}

/* Goes on with one; whether it is settled. */
static bool go_on(struct settlings *all, struct settling *own)
{
    struct aim aim = {.all = all, .own = own};
    struct ending_target target = {.signal = signal_all, .self = &aim};
    own->lock_fd = own->lock_fd < 0 ? start_lock_take(own->folder) : own->lock_fd;
    if (own->lock_fd < 0) {
        own->next_look_ms = ending_now_ms() + LOOK_MS;
        return false;
    }
    if (own->ending.phase == ENDING_NOT) {
        read_start(own);
        ending_begin(&own->ending, &target, own->grace_ms);
    }
    ending_go_on(&own->ending, &target);
    if (signal_all(&aim, 0, 0) || !cgroups_are_empty(&own->cgroups)) {
        own->next_look_ms = ending_now_ms() + LOOK_MS;
        return false;
    }
    int failed = write_end(own);
    if (failed && record_can_retry(failed)) {
        own->next_look_ms = ending_now_ms() + RETRY_MS;
        return false;
    }
    return true;
}

uint64_t settle_next_ms(const struct settlings *all)
{
    uint64_t next_ms = UINT64_MAX;
    for (const struct settling *own = all->first; own; own = own->next) {
        uint64_t ending_ms = ending_next_ms(&own->ending);
        uint64_t own_ms = ending_ms < own->next_look_ms ? ending_ms : own->next_look_ms;
        next_ms = own_ms < next_ms ? own_ms : next_ms;
    }
    return next_ms;
}

/* Goes on with all that there is. */
void settle_go_on(struct settlings *all)
{
    struct settling **link = &all->first;
    while (*link) {
        struct settling *own = *link;
        if (go_on(all, own)) {
            *link = own->next;
            cgroups_remove(&own->cgroups);
            close(own->folder);
            close(own->lock_fd);
            free(own);
        } else {
            link = &own->next;
        }
    }
}
