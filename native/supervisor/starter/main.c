/* moiety-starter SOCKET_FD POOL_DIR_FD [CGROUP_FD...]: starts workloads by their ids, one packet each.
 *
 * `ID` starts a workload, or settles one whose supervisor has died. `+ID` makes the process that will be its
 * supervisor and holds it until `ID` comes; the answer has the number 0 and the process, pid and start time. `~ID`
 * ends that process. `!` is the last packet: no more is started.
 *
 * The spec of a workload is POOL_DIR/ID/spec, its state folder is POOL_DIR/ID. If something is wrong, a packet comes
 * back: the id, a number (an errno, or above 1000 the exit status of a supervisor that wrote no record), and a text.
 *
 * SOCKET_FD is connected to the server, or a socket with a name that servers connect to, one after the other. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "supervisor/starter/connection.h"
#include "supervisor/starter/request.h"
#include "supervisor/starter/settle.h"
#include "supervisor/starter/spawn.h"
#include "supervisor/starter/supervisors.h"

#define FDS_MAX (2 + CGROUPS_MAX)
#define PACKET_BYTES \
    (SPEC_ID_MAX + 3) /* a sign and an id, and what shows that a packet is longer */
#define OF_A_SUPERVISOR 1000

struct starter {
    struct connection connection;
    int pool;
    int signals;
    uid_t server;
    struct spawn spawn;
    struct supervisors supervisors;
    struct settlings settlings;
};

static int complain(int status, const char *what, int error)
{
    (void)dprintf(STDERR_FILENO, "moiety-starter: %s: %s\n", what, strerror(-error));
    return status;
}

static struct start start_of(const struct request *request, pid_t pid)
{
    struct start start = {.pid = pid,
                          .word_fd = -1,
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

static int settle(struct starter *starter, struct request *request)
{
    struct start start = start_of(request, 0);
    int failed = settle_begin(&starter->settlings, &start, starter->spawn.cgroups,
                              starter->spawn.cgroup_count, false);
    request->folder = failed ? request->folder : -1;
    return failed;
}

/* Lets a supervisor begin that was held. */
static int begin_held(struct start *held, const struct request *request)
{
    int failed = spawn_tell(held->word_fd, request->spec_fd);
    descriptor_close(&held->word_fd);
    held->word_fd = -1;
    held->is_held = failed != 0;
    held->attempt = request->spec.attempt;
    held->grace_ms = request->spec.grace_ms;
    return failed;
}

/* Starts the workload, or settles it. */
static int act(struct starter *starter, struct request *request)
{
    struct start *held = supervisors_held(&starter->supervisors, request->spec.id);
    if (is_unsettled(request)) {
        return settle(starter, request);
    }
    if (held) {
        return begin_held(held, request);
    }
    pid_t pid = spawn_supervisor(&starter->spawn, request);
    if (pid < 0) {
        return pid;
    }
    struct start start = start_of(request, pid);
    request->folder = -1;
    return supervisors_add(&starter->supervisors, &start);
}

/* Ends a process that is held. */
static int give_up(const struct starter *starter, const char *id)
{
    struct start *held = supervisors_held(&starter->supervisors, id);
    if (!held) {
        return -ESRCH;
    }
    descriptor_close(&held->word_fd);
    held->word_fd = -1;
    return 0;
}

static int begin(struct starter *starter, const char *id)
{
    struct request request;
    int failed = request_open(&request, starter->pool, starter->server, id);
    if (!failed) {
        failed = act(starter, &request);
        request_close(&request);
    }
    if (failed) {
        (void)give_up(starter, id);
    }
    return failed;
}

/* Makes the process of a supervisor, and says which it is. */
static int hold(struct starter *starter, const char *id)
{
    struct start start = {.is_held = true};
    struct process process;
    char text[48];
    if (supervisors_held(&starter->supervisors, id)) {
        return -EEXIST;
    }
    start.folder = request_open_folder(starter->pool, starter->server, id);
    if (start.folder < 0) {
        return start.folder;
    }
    memcpy(start.id, id, strlen(id) + 1);
    start.pid = spawn_held(&starter->spawn, start.folder, starter->server, &start.word_fd);
    int failed = start.pid < 0 ? start.pid : identity_read(start.pid, &process);
    failed = failed ? failed : supervisors_add(&starter->supervisors, &start);
    if (failed) {
        close(start.folder);
        if (start.pid > 0) {
            close(start.word_fd);
        }
        return failed;
    }
    (void)snprintf(text, sizeof text, "%d %" PRIu64, (int)process.pid, process.start_ticks);
    connection_tell(&starter->connection, id, 0, text);
    return 0;
}

static void on_packet(struct starter *starter, const char *packet)
{
    bool has_sign = *packet == '+' || *packet == '~';
    const char *id = packet + (has_sign ? 1 : 0);
    if (!strcmp(packet, "!")) {
        connection_close(&starter->connection);
        return;
    }
    if (!spec_is_id(id)) {
        connection_tell(&starter->connection, "-", EINVAL, "not an id of a workload");
        return;
    }
    int failed = !has_sign        ? begin(starter, id)
                 : *packet == '+' ? hold(starter, id)
                                  : give_up(starter, id);
    if (failed == -EALREADY) {
        connection_tell(&starter->connection, id, OF_A_SUPERVISOR + EXIT_ALREADY_STARTED,
                        "it runs already");
    } else if (failed) {
        connection_tell(&starter->connection, id, -failed, strerror(-failed));
    }
}

/* Reads one packet; whether there may be more. */
static bool read_packet(struct starter *starter, short events)
{
    char packet[PACKET_BYTES];
    ssize_t got = connection_read(&starter->connection, events, packet, sizeof packet);
    if (got == -EPIPE) {
        connection_hang_up(&starter->connection);
    } else if (got >= 0) {
        bool fits = got < (ssize_t)sizeof packet;
        on_packet(starter, fits && strlen(packet) == (size_t)got ? packet : "");
    }
    if (starter->connection.socket < 0) {
        supervisors_give_up(&starter->supervisors);
    }
    return got >= 0 && starter->connection.socket >= 0;
}

/* Takes the next server. What the one before it has asked for is done first, and what it held is given up. */
static void take_server(struct starter *starter)
{
    int socket = connection_accept(&starter->connection, starter->server);
    if (socket < 0) {
        return;
    }
    while (starter->connection.socket >= 0 && read_packet(starter, POLLHUP)) {
    }
    if (!connection_is_open(&starter->connection)) { /* its last word was to end */
        close(socket);
        return;
    }
    connection_hang_up(&starter->connection);
    supervisors_give_up(&starter->supervisors);
    starter->connection.socket = socket;
}

/* A supervisor has ended. One that was killed leaves its workload to us. */
static void on_end(struct starter *starter, const struct start *start, int status)
{
    char text[64];
    int failed = 0;
    if (start->is_held) {
        descriptor_close(&start->word_fd);
        close(start->folder);
        return;
    }
    if (WIFSIGNALED(status)) {
        failed = settle_begin(&starter->settlings, start, starter->spawn.cgroups,
                              starter->spawn.cgroup_count, true);
    } else if (WEXITSTATUS(status) != EXIT_WROTE_RECORD) {
        (void)snprintf(text, sizeof text, "its supervisor ended with %d", WEXITSTATUS(status));
        connection_tell(&starter->connection, start->id, OF_A_SUPERVISOR + WEXITSTATUS(status),
                        text);
    }
    if (failed) {
        connection_tell(&starter->connection, start->id, -failed, strerror(-failed));
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
        if (info.ssi_signo == SIGTERM) {
            connection_close(&starter->connection);
            supervisors_give_up(&starter->supervisors);
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
    while (connection_is_open(&starter->connection) || starter->supervisors.count ||
           starter->settlings.first) {
        struct pollfd polled[] = {
            {.fd = starter->signals, .events = POLLIN},
            {.fd = starter->connection.socket, .events = POLLIN | POLLRDHUP},
            {.fd = starter->connection.listener, .events = POLLIN},
        };
        if (poll(polled, 3, timeout_ms(starter)) < 0 && errno != EINTR) {
            return;
        }
        read_signals(starter);
        reap(starter);
        if (starter->connection.socket >= 0 && polled[1].revents) {
            (void)read_packet(starter, polled[1].revents);
        }
        if (starter->connection.listener >= 0 && polled[2].revents) {
            take_server(starter);
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
    char *oom_score_adj = starter->spawn.oom_score_adj;
    if (descriptor_read_text(AT_FDCWD, "/proc/self/oom_score_adj", oom_score_adj,
                             sizeof starter->spawn.oom_score_adj) <= 0) {
        memcpy(oom_score_adj, "0\n", 3);
    }
    (void)descriptor_write_text(AT_FDCWD, "/proc/self/oom_score_adj", "-900\n");
    failed = listen_to_signals(starter);
    failed = failed ? failed : request_check_pool(starter->pool, &starter->server);
    failed = failed ? failed : spawn_find_supervisor(starter->spawn.path);
    return failed ? failed : connection_init(&starter->connection, fds[0]);
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
    starter.pool = fds[1];
    starter.spawn.cgroup_count = count - 2;
    memcpy(starter.spawn.cgroups, fds + 2, starter.spawn.cgroup_count * sizeof *fds);
    starter.settlings.supervisors = &starter.supervisors;
    int failed = prepare(&starter, fds, count);
    if (failed) {
        return complain(EXIT_CANNOT_WORK, "start", failed);
    }
    serve(&starter);
    return 0;
}
