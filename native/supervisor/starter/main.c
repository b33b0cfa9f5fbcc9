/* moiety-starter SOCKET_FD POOL_DIR_FD [CGROUP_FD...]: starts workloads by their ids, one packet each.
 *
 * The spec of a workload is POOL_DIR/ID/spec, its state folder is POOL_DIR/ID. If something is wrong, a packet comes
 * back: the id, a number (an errno, or above 1000 the exit status of a supervisor that wrote no record), and a text. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/base/descriptor.h"
#include "supervisor/base/exit_status.h"
#include "supervisor/starter/request.h"
#include "supervisor/starter/settle.h"
#include "supervisor/starter/spawn.h"
#include "supervisor/starter/supervisors.h"

#define FDS_MAX (2 + CGROUPS_MAX)
#define REPLY_BYTES 256u
#define OF_A_SUPERVISOR 1000

struct starter {
    int socket; /* negative once the server has gone */
    int pool;
    int signals;
    int cgroups[CGROUPS_MAX];
    size_t cgroup_count;
    uid_t server;
    char path[SPAWN_PATH_BYTES]; /* of the supervisor */
    char oom_score_adj[16];      /* what we began with */
    struct supervisors supervisors;
    struct settlings settlings;
};

static int complain(int status, const char *what, int error)
{
    (void)dprintf(STDERR_FILENO, "moiety-starter: %s: %s\n", what, strerror(-error));
    return status;
}

/* Tells the server; a server that does not listen misses it. */
static void tell(const struct starter *starter, const char *id, int number, const char *text)
{
    char packet[REPLY_BYTES];
    int length = snprintf(packet, sizeof packet, "%s %d %s", id, number, text);
    size_t bytes = length < (int)sizeof packet ? (size_t)length : sizeof packet - 1;
    if (starter->socket >= 0) {
        (void)send(starter->socket, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static struct start start_of(const struct request *request, pid_t pid)
{
    struct start start = {.pid = pid,
                          .attempt = request->spec.attempt,
                          .grace_ms = request->spec.grace_ms,
                          .folder = request->folder};
    memcpy(start.id, request->spec.id, sizeof start.id);
    return start;
}

/* Whether this attempt has begun and nothing says how it ended: its supervisor runs, or died with its starter. */
static bool is_unsettled(const struct request *request)
{
    int64_t began = record_attempt(request->folder, "started");
    int64_t ended = record_attempt(request->folder, "exit");
    bool has_begun = began == -EBADMSG || (began >= 0 && (uint64_t)began == request->spec.attempt);
    return has_begun && !(ended >= 0 && (uint64_t)ended >= request->spec.attempt);
}

/* Starts the workload, or settles it. */
static int act(struct starter *starter, struct request *request)
{
    if (is_unsettled(request)) {
        struct start start = start_of(request, 0);
        int failed = settle_begin(&starter->settlings, &start, starter->cgroups,
                                  starter->cgroup_count, false);
        request->folder = failed ? request->folder : -1;
        return failed;
    }
    pid_t pid = spawn_supervisor(request, starter->path, starter->cgroups, starter->cgroup_count,
                                 starter->oom_score_adj);
    if (pid < 0) {
        return pid;
    }
    struct start start = start_of(request, pid);
    request->folder = -1;
    return supervisors_add(&starter->supervisors, &start);
}

static void on_packet(struct starter *starter, const char *id)
{
    struct request request;
    if (!spec_is_id(id)) {
        tell(starter, "-", EINVAL, "not an id of a workload");
        return;
    }
    int failed = request_open(&request, starter->pool, starter->server, id);
    if (!failed) {
        failed = act(starter, &request);
        request_close(&request);
    }
    if (failed == -EALREADY) {
        tell(starter, id, OF_A_SUPERVISOR + EXIT_ALREADY_STARTED, "it runs already");
    } else if (failed) {
        tell(starter, id, -failed, strerror(-failed));
    }
}

static void read_packets(struct starter *starter, short events)
{
    char packet[SPEC_ID_MAX + 2];
    ssize_t got = recv(starter->socket, packet, sizeof packet - 1, MSG_DONTWAIT | MSG_TRUNC);
    if (got == 0 && (events & (POLLHUP | POLLRDHUP))) {
        close(starter->socket);
        starter->socket = -1;
    } else if (got >= 0) {
        bool fits = got < (ssize_t)sizeof packet;
        packet[fits ? got : 0] = '\0';
        on_packet(starter, fits && strlen(packet) == (size_t)got ? packet : "");
    } /* else: interrupted, or a server that went without reading our packets; the end comes next */
}

/* A supervisor has ended. One that was killed leaves its workload to us. */
static void on_end(struct starter *starter, const struct start *start, int status)
{
    char text[64];
    int failed = 0;
    if (WIFSIGNALED(status)) {
        failed =
            settle_begin(&starter->settlings, start, starter->cgroups, starter->cgroup_count, true);
    } else if (WEXITSTATUS(status) != EXIT_WROTE_RECORD) {
        (void)snprintf(text, sizeof text, "its supervisor ended with %d", WEXITSTATUS(status));
        tell(starter, start->id, OF_A_SUPERVISOR + WEXITSTATUS(status), text);
    }
    if (failed) {
        tell(starter, start->id, -failed, strerror(-failed));
    }
    if (failed || !WIFSIGNALED(status)) {
        close(start->folder);
    }
}

/* Reaps all that have ended: supervisors, and what dead supervisors have left to us. */
static void reap(struct starter *starter)
{
    int status;
    struct start start;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        if (supervisors_take(&starter->supervisors, pid, &start)) {
            on_end(starter, &start, status);
        }
    }
}

static void read_signals(struct starter *starter)
{
    struct signalfd_siginfo info;
    while (read(starter->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTERM && starter->socket >= 0) {
            close(starter->socket);
            starter->socket = -1;
        }
    }
}

static int timeout_ms(const struct starter *starter)
{
    uint64_t next_ms = settle_next_ms(&starter->settlings);
    uint64_t now_ms = ending_now_ms();
    uint64_t for_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    return next_ms == UINT64_MAX ? -1 : (for_ms > 60000 ? 60000 : (int)for_ms);
}

/* Goes on until the server has gone and nothing that it had started runs. */
static void serve(struct starter *starter)
{
    while (starter->socket >= 0 || starter->supervisors.count || starter->settlings.first) {
        struct pollfd polled[] = {{.fd = starter->signals, .events = POLLIN},
                                  {.fd = starter->socket, .events = POLLIN | POLLRDHUP}};
        if (poll(polled, 2, timeout_ms(starter)) < 0 && errno != EINTR) {
            return;
        }
        read_signals(starter);
        reap(starter);
        if (starter->socket >= 0 && polled[1].revents) {
            read_packets(starter, polled[1].revents);
        }
        settle_go_on(&starter->settlings);
    }
}

static int listen_to_signals(struct starter *starter)
{
    sigset_t all, own;
    sigfillset(&all);
    sigemptyset(&own);
    sigaddset(&own, SIGCHLD);
    sigaddset(&own, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    starter->signals = signalfd(-1, &own, SFD_CLOEXEC | SFD_NONBLOCK);
    return starter->signals < 0 ? -errno : 0;
}

static int prepare(struct starter *starter, const int *fds, size_t count)
{
    int failed = descriptor_fill_standard();
    if (failed) {
        return failed;
    }
    descriptor_keep_only(fds, count);
    descriptor_to_null(STDIN_FILENO);
    descriptor_to_null(STDOUT_FILENO);
    (void)setsid();
    umask(0);
    if (chdir("/") || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) {
        return -errno;
    }
    if (descriptor_read_text(AT_FDCWD, "/proc/self/oom_score_adj", starter->oom_score_adj,
                             sizeof starter->oom_score_adj) <= 0) {
        memcpy(starter->oom_score_adj, "0\n", 3);
    }
    (void)descriptor_write_text(AT_FDCWD, "/proc/self/oom_score_adj", "-900\n");
    failed = listen_to_signals(starter);
    failed = failed ? failed : request_check_pool(starter->pool, &starter->server);
    return failed ? failed : spawn_find_supervisor(starter->path);
}

int main(int argc, char **argv)
{
    int fds[FDS_MAX];
    size_t count = (size_t)argc - 1;
    if (argc < 3 || count > FDS_MAX) {
        return complain(EXIT_USAGE, "SOCKET_FD POOL_DIR_FD [CGROUP_FD...]", -EINVAL);
    }
    for (size_t i = 0; i < count; i++) {
        fds[i] = descriptor_number(argv[i + 1]);
        if (fds[i] <= STDERR_FILENO) {
            return complain(EXIT_USAGE, argv[i + 1], fds[i] < 0 ? fds[i] : -EINVAL);
        }
    }
    static struct starter starter;
    starter.socket = fds[0];
    starter.pool = fds[1];
    starter.cgroup_count = count - 2;
    memcpy(starter.cgroups, fds + 2, starter.cgroup_count * sizeof *fds);
    starter.settlings.supervisors = &starter.supervisors;
    int failed = prepare(&starter, fds, count);
    if (failed) {
        return complain(EXIT_CANNOT_WORK, "start", failed);
    }
    serve(&starter);
    return 0;
}
