#include "supervisor/base/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "supervisor/base/cgroup.h"
#include "supervisor/base/descriptor.h"

#define FILE_BYTES_MAX 2048u

double record_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int write_file(int folder, const char *name, const char *text)
{
    CLOSING int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0) {
        return -errno;
    }
    int failed = descriptor_write_all(fd, text, strlen(text));
    failed = failed ? failed : descriptor_give_to_owner(folder, fd);
    return failed || !fsync(fd) ? failed : -errno;
}

static int write_record(int folder, const char *name, const char *text)
{
    char temporary[32];
    (void)snprintf(temporary, sizeof temporary, ".%s.new", name);
    if (unlinkat(folder, temporary, 0) && errno != ENOENT) {
        return -errno;
    }
    int failed = write_file(folder, temporary, text);
    if (!failed && renameat(folder, temporary, folder, name)) {
        failed = -errno;
    }
    if (failed) {
        (void)unlinkat(folder, temporary, 0);
        return failed;
    }
    return fsync(folder) ? -errno : 0;
}

int record_write_started(int folder, const struct started_record *record)
{
    static const char *const limits[] = {"none", "memory", "pids", "memory,pids"};
    char text[FILE_BYTES_MAX];
    (void)snprintf(text, sizeof text,
                   "attempt %" PRIu64 "\nboot_id %s\nsupervisor %d %" PRIu64 "\nchild %d %" PRIu64
                   "\nprocesses %s\nlimits %s\nbegin %.6f\n",
                   record->attempt, record->boot_id, (int)record->supervisor_pid,
                   record->supervisor_start, (int)record->child_pid, record->child_start,
                   record->has_cgroup ? "cgroup" : "session",
                   limits[record->limits & CGROUP_LIMITS_ALL], record->begin_s);
    return write_record(folder, "started", text);
}

/* -ENOENT if there is none, -EBADMSG if it is damaged. */
int record_read_started(int folder, struct started_record *record)
{
    char text[FILE_BYTES_MAX], processes[16], limits[16];
    int supervisor_pid, child_pid, end = 0;
    ssize_t got = descriptor_read_text(folder, "started", text, sizeof text);
    if (got < 0) {
        return (int)got;
    }
    *record = (struct started_record){0};
    int count =
        sscanf(text,
               "attempt %" SCNu64 "\nboot_id %39s\nsupervisor %d %" SCNu64 "\nchild %d %" SCNu64
               "\nprocesses %15s\nlimits %15s\nbegin %lf%n",
               &record->attempt, record->boot_id, &supervisor_pid, &record->supervisor_start,
               &child_pid, &record->child_start, processes, limits, &record->begin_s, &end);
    if (count != 9 || strcmp(text + end, "\n") != 0) {
        return -EBADMSG;
    }
    record->supervisor_pid = supervisor_pid;
    record->child_pid = child_pid;
    record->has_cgroup = !strcmp(processes, "cgroup");
    return 0;
}

/* Makes a text fit for one line. */
static void to_one_line(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            *text = '?';
        }
    }
}

static void say_outcome(const struct exit_record *record, char *text, size_t capacity)
{
    char why[RECORD_TEXT_MAX];
    memcpy(why, record->text, sizeof why);
    why[sizeof why - 1] = '\0';
    to_one_line(why);
    switch (record->outcome) {
    case OUTCOME_EXITED:
        (void)snprintf(text, capacity, "exited %d", record->value);
        break;
    case OUTCOME_SIGNALED:
        (void)snprintf(text, capacity, "signaled %d", record->value);
        break;
    case OUTCOME_FAILED_TO_START:
        (void)snprintf(text, capacity, "failed_to_start %d %s", record->value, why);
        break;
    case OUTCOME_LOST:
        (void)snprintf(text, capacity, "lost exit status lost");
        break;
    }
}

int record_write_exit(int folder, const struct exit_record *record)
{
    static const char *const reasons[] = {"ended", "time_limit", "cancelled"};
    char text[FILE_BYTES_MAX], outcome[RECORD_TEXT_MAX + 64];
    say_outcome(record, outcome, sizeof outcome);
    (void)snprintf(text, sizeof text,
                   "attempt %" PRIu64 "\n%s\nreason %s\nbegin %.6f\nend %.6f\nuser %.6f\nsystem "
                   "%.6f\nmaxrss %" PRIu64 "\n",
                   record->attempt, outcome, reasons[record->reason], record->begin_s,
                   record->end_s, record->user_s, record->system_s, record->max_rss_kib);
    return write_record(folder, "exit", text);
}

/* The attempt that a record is about: -ENOENT if there is no record, -EBADMSG if it is damaged. */
int64_t record_attempt(int folder, const char *name)
{
    char text[FILE_BYTES_MAX];
    int64_t attempt;
    ssize_t got = descriptor_read_text(folder, name, text, sizeof text);
    if (got < 0) {
        return got;
    }
    return sscanf(text, "attempt %" SCNd64 "\n", &attempt) == 1 && attempt >= 0 ? attempt
                                                                                : -EBADMSG;
}

/* Whether this attempt, or a later one, has left a record here. A damaged one counts. */
bool record_was_started(int folder, uint64_t attempt)
{
    static const char *const names[] = {"started", "exit"};
    for (size_t i = 0; i < 2; i++) {
        int64_t found = record_attempt(folder, names[i]);
        if (found != -ENOENT && (found < 0 || (uint64_t)found >= attempt)) {
            return true;
        }
    }
    return false;
}

/* Whether writing may succeed later: it cannot once the folder is gone. */
bool record_can_retry(int error)
{
    return error != -ENOENT && error != -ESTALE && error != -ENOTDIR;
}
