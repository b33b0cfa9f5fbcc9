#include "supervisor/starter/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/base/cgroup.h"
#include "supervisor/base/descriptor.h"
#include "supervisor/base/exit_status.h"
#include "supervisor/base/record.h"
#include "supervisor/base/start_lock.h"
#include "supervisor/starter/account.h"

#define SUPERVISOR "moiety-supervisor"
#define NUMBER_BYTES 12u

/* The supervisor lies beside this program. */
int spawn_find_supervisor(char path[SPAWN_PATH_BYTES])
{
    char own[SPAWN_PATH_BYTES - sizeof SUPERVISOR]; /* "/" and the name fit behind it */
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0 || length >= (ssize_t)sizeof own) {
        return length < 0 ? -errno : -ENAMETOOLONG;
    }
    own[length] = '\0';
    char *slash = strrchr(own, '/');
    if (!slash) {
        return -ENOENT;
    }
    *slash = '\0';
    (void)snprintf(path, SPAWN_PATH_BYTES, "%s/%s", own, SUPERVISOR);
    return access(path, X_OK) ? -errno : 0;
}

/* Writes down that this workload may not run so, if it has not been started before. */
static int refuse(const struct request *request, int error, const char *wrong)
{
    CLOSING int lock_fd = start_lock_take(request->folder);
    if (lock_fd < 0 || record_was_started(request->folder, request->spec.attempt)) {
        return EXIT_ALREADY_STARTED;
    }
    struct exit_record record = {.attempt = request->spec.attempt,
                                 .outcome = OUTCOME_FAILED_TO_START,
                                 .value = -error,
                                 .begin_s = record_now_s(),
                                 .end_s = record_now_s()};
    (void)snprintf(record.text, sizeof record.text, "%s: %s", wrong, strerror(-error));
    return record_write_exit(request->folder, &record) ? EXIT_CANNOT_WORK : EXIT_WROTE_RECORD;
}

static char *passed(int fd, char text[NUMBER_BYTES])
{
    (void)fcntl(fd, F_SETFD, 0);
    (void)snprintf(text, NUMBER_BYTES, "%d", fd);
    return text;
}

static int become_supervisor(const struct request *request, const char *path, const int *cgroups,
                             size_t count, const char *oom_score_adj)
{
    char numbers[2 + CGROUPS_MAX][NUMBER_BYTES];
    char *arguments[3 + CGROUPS_MAX + 1] = {SUPERVISOR};
    char *environment[] = {NULL};
    const char *wrong = "spec";
    int failed = geteuid() == 0 ? account_check(&request->spec, request->server, &wrong) : 0;
    if (failed) {
        return refuse(request, failed, wrong);
    }
    /* The program is to have the value that was before ours, and the supervisor passes it on. */
    (void)descriptor_write_text(AT_FDCWD, "/proc/self/oom_score_adj", oom_score_adj);
    arguments[1] = passed(request->spec_fd, numbers[0]);
    arguments[2] = passed(request->folder, numbers[1]);
    for (size_t i = 0; i < count && i < CGROUPS_MAX; i++) {
        arguments[3 + i] = passed(cgroups[i], numbers[2 + i]);
    }
    (void)execve(path, arguments, environment);
    return refuse(request, -errno, path);
}

/* Forks a supervisor for a request; its pid, or a negative errno. What may wait, such as a look at the tables of
 * users, is done in the new process. */
pid_t spawn_supervisor(const struct request *request, const char *path, const int *cgroups,
                       size_t count, const char *oom_score_adj)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(become_supervisor(request, path, cgroups, count, oom_score_adj));
    }
    return pid < 0 ? -errno : pid;
}
