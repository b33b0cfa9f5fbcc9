/* The two records of a start in its folder, `started` and `exit`: lines of a word and its values.
 *
 * Each is written to a temporary name, given to the folder's owner, and renamed when it is on disk: a reader finds a
 * whole one or none. */
#ifndef MOIETY_SUPERVISOR_RECORD_H
#define MOIETY_SUPERVISOR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "supervisor/base/identity.h"

#define RECORD_TEXT_MAX 400u

enum outcome { OUTCOME_EXITED, OUTCOME_SIGNALED, OUTCOME_FAILED_TO_START, OUTCOME_LOST };
enum end_reason { REASON_ENDED, REASON_TIME_LIMIT, REASON_CANCELLED };

struct started_record {
    uint64_t attempt;
    char boot_id[BOOT_ID_BYTES];
    pid_t supervisor_pid, child_pid;
    uint64_t supervisor_start, child_start;
    bool
        has_cgroup; /* its processes are those of a cgroup; else of a session, and below the supervisor */
    unsigned limits; /* that a cgroup holds: enum cgroup_limit */
    double begin_s;
};

struct exit_record {
    uint64_t attempt;
    enum outcome outcome;
    int value; /* exit code, signal, or errno */
    char text[RECORD_TEXT_MAX];
    enum end_reason reason;
    double begin_s, end_s, user_s, system_s;
    uint64_t max_rss_kib;
};

int record_write_started(int folder, const struct started_record *record);
int record_read_started(int folder, struct started_record *record);
int record_write_exit(int folder, const struct exit_record *record);
int64_t record_attempt(int folder, const char *name);
bool record_was_started(int folder, uint64_t attempt);
bool record_can_retry(int error);
double record_now_s(void);

#endif
