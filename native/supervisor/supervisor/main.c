/* moiety-supervisor SPEC_FD STATE_DIR_FD [CGROUP_FD...]: runs one workload, and writes down what became of it.
 *
 * Ends with 0 when the exit record is on disk, with 75 if this attempt was started already, with 64 if it was
 * called wrongly, with 71 if it could do nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/base/cgroup.h"
#include "supervisor/base/descriptor.h"
#include "supervisor/base/exit_status.h"
#include "supervisor/base/record.h"
#include "supervisor/base/spec.h"
#include "supervisor/base/start_lock.h"
#include "supervisor/supervisor/workload.h"

#define FDS_MAX (2 + CGROUPS_MAX) /* in the call */
#define RETRY_S 1

static int complain(int status, const char *what, int error)
{
    (void)dprintf(STDERR_FILENO, "moiety-supervisor: %s: %s\n", what,
                  strerror(error < 0 ? -error : error));
    return status;
}

/* Nothing of ours goes to the program, and no signal of others ends us. */
static int prepare(const int *fds, size_t count)
{
    descriptor_keep_only(fds, count);
    descriptor_to_null(STDIN_FILENO);
    descriptor_to_null(STDOUT_FILENO);
    (void)setsid();
    (void)chdir("/");
    umask(0);
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) ? -errno : 0;
}

/* Lets the owner of the state folder, which is the user of the server, send signals to us, although we stay root. */
static int accept_signals_of_server(int folder)
{
    struct stat status;
    if (fstat(folder, &status)) {
        return -errno;
    }
    return geteuid() == 0 && setresuid(status.st_uid, 0, 0) ? -errno : 0;
}

/* Keeps the kernel from choosing us when memory is short; `before` has what the program is to get. */
static void lower_oom_score(char *before, size_t capacity)
{
    if (descriptor_read_text(AT_FDCWD, "/proc/self/oom_score_adj", before, capacity) <= 0) {
        (void)snprintf(before, capacity, "0\n");
    }
    (void)descriptor_write_text(AT_FDCWD, "/proc/self/oom_score_adj", "-900\n");
}

/* Writes the exit record, again and again while the disk is full: the lock stays ours until then. */
static int write_exit(int folder, const struct exit_record *record)
{
    sigset_t set;
    workload_signals(&set);
    for (;;) {
        int failed = record_write_exit(folder, record);
        if (!failed || !record_can_retry(failed)) {
            return failed;
        }
        struct timespec pause = {.tv_sec = RETRY_S};
        (void)sigtimedwait(&set, NULL, &pause);
    }
}

static int fail_to_start(int folder, struct exit_record *record, int error, const char *what)
{
    record->outcome = OUTCOME_FAILED_TO_START;
    record->value = error < 0 ? -error : error;
    record->begin_s = record->end_s = record_now_s();
    (void)snprintf(record->text, sizeof record->text, "%s: %s", what, strerror(record->value));
    return write_exit(folder, record) ? EXIT_CANNOT_WORK : EXIT_WROTE_RECORD;
}

/* Writes `started`, for a process that waits to be let go. */
static int write_started(int folder, const struct workload *workload, struct exit_record *record,
                         bool has_cgroup)
{
    struct process own, child;
    struct started_record started = {
        .attempt = record->attempt, .has_cgroup = has_cgroup, .limits = workload->cgroups.limits};
    int failed = identity_boot(started.boot_id);
    failed = failed ? failed : identity_read(getpid(), &own);
    failed = failed ? failed : identity_read(workload->program.pid, &child);
    if (failed) {
        return failed;
    }
    started.supervisor_pid = own.pid;
    started.supervisor_start = own.start_ticks;
    started.child_pid = child.pid;
    started.child_start = child.start_ticks;
    record->begin_s = started.begin_s = record_now_s();
    return record_write_started(folder, &started);
}

static void note_usage(struct exit_record *record)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    record->user_s = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
    record->system_s = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    record->max_rss_kib = (uint64_t)usage.ru_maxrss;
    record->end_s = record_now_s();
}

static void note_end(const struct workload *workload, struct exit_record *record)
{
    struct start_failure failure;
    int status = workload->status;
    record->reason = workload->reason;
    if (program_read_failure(&workload->program, &failure)) {
        record->outcome = OUTCOME_FAILED_TO_START;
        record->value = failure.error;
        memcpy(record->text, failure.text, sizeof record->text);
    } else if (WIFSIGNALED(status)) {
        record->outcome = OUTCOME_SIGNALED;
        record->value = WTERMSIG(status);
    } else {
        record->outcome = OUTCOME_EXITED;
        record->value = WEXITSTATUS(status);
    }
    note_usage(record);
}

/* Starts the program and stays until its exit record is on disk. */
static int run(int folder, int lock_fd, struct spec *spec, struct workload *workload)
{
    char oom_score_adj[16];
    struct exit_record record = {.attempt = spec->attempt};
    lower_oom_score(oom_score_adj, sizeof oom_score_adj);
    cgroups_make(&workload->cgroups);
    int failed = cgroups_limit(&workload->cgroups, spec->memory_bytes, spec->pids);
    if (failed) {
        cgroups_remove(&workload->cgroups);
        return fail_to_start(folder, &record, failed, "limits of the cgroup");
    }
    failed = program_fork(&workload->program, spec, oom_score_adj);
    if (failed) {
        cgroups_remove(&workload->cgroups);
        return fail_to_start(folder, &record, failed, "fork");
    }
    bool has_cgroup = cgroups_add(&workload->cgroups, workload->program.pid);
    failed = write_started(folder, workload, &record, has_cgroup);
    if (failed) { /* it ends by itself once it sees that the pipe is closed */
        close(workload->program.go_fd);
        (void)waitpid(workload->program.pid, NULL, 0);
        cgroups_remove(&workload->cgroups);
        return fail_to_start(folder, &record, failed, "record of the start");
    }
    workload_begin(workload, spec);
    (void)descriptor_write_all(workload->program.go_fd, "g", 1);
    close(workload->program.go_fd);
    spec_unmap(spec);
    descriptor_to_null(STDERR_FILENO);
    workload_wait(workload);
    note_end(workload, &record);
    failed = write_exit(folder, &record);
    close(lock_fd);
    workload_wait_for_children(workload);
    cgroups_remove(&workload->cgroups);
    return failed ? EXIT_CANNOT_WORK : EXIT_WROTE_RECORD;
}

int main(int argc, char **argv)
{
    int fds[FDS_MAX + 1];
    size_t count = (size_t)argc - 1;
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    if (argc < 3 || count > FDS_MAX) {
        return complain(EXIT_USAGE, "SPEC_FD STATE_DIR_FD [CGROUP_FD...]", EINVAL);
    }
    for (size_t i = 0; i < count; i++) {
        fds[i] = descriptor_number(argv[i + 1]);
        if (fds[i] <= STDERR_FILENO) {
            return complain(EXIT_USAGE, argv[i + 1], fds[i] < 0 ? fds[i] : EINVAL);
        }
    }
    int folder = fds[1];
    int failed = descriptor_fill_standard();
    if (failed) {
        return complain(EXIT_CANNOT_WORK, "standard descriptors", failed);
    }
    struct spec spec;
    const char *wrong = "spec";
    int unread = spec_map(fds[0], &spec);
    unread = unread ? unread : spec_read(&spec, &wrong);
    /* The lock comes before all else is closed: the server may know a beginning start by a lock that we inherit. */
    int lock_fd = start_lock_wait(folder, spec.attempt);
    if (lock_fd < 0) {
        return complain(lock_fd == -EWOULDBLOCK ? EXIT_ALREADY_STARTED : EXIT_CANNOT_WORK, "lock",
                        lock_fd);
    }
    fds[count] = lock_fd;
    failed = prepare(fds, count + 1);
    failed = failed ? failed : accept_signals_of_server(folder);
    if (failed) {
        return complain(EXIT_CANNOT_WORK, "start", failed);
    }
    if (record_was_started(folder, spec.attempt)) {
        return complain(EXIT_ALREADY_STARTED, "attempt", EEXIST);
    }
    if (unread) {
        struct exit_record record = {.attempt = spec.attempt};
        return fail_to_start(folder, &record, unread, wrong);
    }
    struct workload workload = {.reason = REASON_ENDED};
    cgroups_init(&workload.cgroups, fds + 2, count - 2, spec.id, spec.attempt);
    return run(folder, lock_fd, &spec, &workload);
}
