#include "supervisor/starter/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
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

static int become_supervisor(const struct spawn *spawn, const struct request *request)
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
    (void)descriptor_write_text(AT_FDCWD, "/proc/self/oom_score_adj", spawn->oom_score_adj);
    arguments[1] = passed(request->spec_fd, numbers[0]);
    arguments[2] = passed(request->folder, numbers[1]);
    for (size_t i = 0; i < spawn->cgroup_count; i++) {
        arguments[3 + i] = passed(spawn->cgroups[i], numbers[2 + i]);
    }
    (void)execve(spawn->path, arguments, environment);
    return refuse(request, -errno, spawn->path);
}

/* Forks a supervisor for a request; its pid, or a negative errno. What may wait, such as a look at the tables of
 * users, is done in the new process. */
pid_t spawn_supervisor(const struct spawn *spawn, const struct request *request)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(become_supervisor(spawn, request));
    }
    return pid < 0 ? -errno : pid;
}

/* Waits for the word, which comes with the spec; a negative errno if the starter or its server has gone. */
static int wait_for_word(int fd)
{
    char word;
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = &word, .iov_len = sizeof word};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t got;
    do {
        got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    int spec_fd = -EPIPE;
    if (header && header->cmsg_type == SCM_RIGHTS) {
        memcpy(&spec_fd, CMSG_DATA(header), sizeof spec_fd);
    }
    return spec_fd;
}

/* Is the process that waits. It keeps nothing by which the end of the starter or of its server could be missed. */
static int wait_and_become(const struct spawn *spawn, struct request *request, int lock_fd, int fd)
{
    int kept[3 + CGROUPS_MAX] = {request->folder, lock_fd, fd};
    memcpy(kept + 3, spawn->cgroups, spawn->cgroup_count * sizeof *kept);
    descriptor_keep_only(kept, 3 + spawn->cgroup_count);
    request->spec_fd = wait_for_word(fd);
    if (request->spec_fd < 0) {
        return EXIT_ALREADY_STARTED;
    }
    const char *wrong;
    if (spec_map(request->spec_fd, &request->spec) || spec_read(&request->spec, &wrong)) {
        return EXIT_CANNOT_WORK; /* the starter has read it before */
    }
    (void)fcntl(lock_fd, F_SETFD, 0); /* until the supervisor has its own lock */
    return become_supervisor(spawn, request);
}

/* Forks a process that becomes the supervisor once it is told; its pid, or a negative errno. */
pid_t spawn_held(const struct spawn *spawn, int folder, uid_t server, int *word_fd)
{
    int ends[2];
    CLOSING int lock_fd = start_lock_announce(folder);
    if (lock_fd < 0) {
        return lock_fd;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        return -errno;
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct request request = {.folder = folder, .spec_fd = -1, .server = server};
        _exit(wait_and_become(spawn, &request, lock_fd, ends[1]));
    }
    int failed = pid < 0 ? -errno : 0;
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        return failed;
    }
    *word_fd = ends[0];
    return pid;
}

/* Tells a process that waits to begin, with this spec. */
int spawn_tell(int word_fd, int spec_fd)
{
    char word = 'g';
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {.iov_base = &word, .iov_len = sizeof word};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &spec_fd, sizeof spec_fd);
    return sendmsg(word_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}
