#include "shim/agent/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/agent/client_report.h"
#include "shim/agent/connect.h"
#include "shim/agent/socket.h"
#include "shim/agent/terminal_notice.h"
#include "shim/base/descriptors.h"
#include "shim/base/message.h"

#define RETRY_NS 20000000L
#define HASTY_NS 1000000000ull /* a conversation that ended sooner went wrong */
#define HASTY_DOUBLINGS 6u     /* of RETRY_NS: up to 1.3 s */
#define COMPLAIN_AFTER_NS 5000000000ull
#define RESTART_NS 30000000000ull /* an agent that was killed has a successor by then */

#ifndef F_ADD_SEALS
#    define F_ADD_SEALS 1033
#    define F_SEAL_SHRINK 2
#endif
#ifndef MFD_CLOEXEC
#    define MFD_CLOEXEC 1u
#    define MFD_ALLOW_SEALING 2u
#endif

static int make_counters(struct session *session)
{
    int made = (int)syscall(SYS_memfd_create, "moiety-counters", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int fd = made < 0 ? -errno : descriptors_move(made);
    if (fd < 0) {
        return fd;
    }
    void *at = MAP_FAILED;
    if (ftruncate(fd, sizeof(struct mw_counters)) == 0) {
        at = mmap(NULL, sizeof(struct mw_counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (at == MAP_FAILED) {
        int error = -errno;
        close(fd);
        return error;
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK); /* the agent reads it and must not find a hole */
    madvise(at, sizeof(struct mw_counters), MADV_DONTFORK);
    session->memfd = fd;
    session->counters = at;
    return 0;
}

/* The program may call cuInit again. */
static void forget_counters(struct session *session)
{
    if (session->counters) {
        munmap(session->counters, sizeof(struct mw_counters));
        close(session->memfd);
        session->counters = NULL;
    }
}

static struct mw_hello greeting(const struct session *session, uint16_t flags)
{
    struct mw_hello hello = {
        .header = {MW_HELLO, sizeof(hello), 0},
        .magic = MW_MAGIC,
        .version = MW_VERSION,
        .flags = (uint16_t)(flags | (terminal_notice_is_wanted() ? MW_HELLO_TALKS : 0)),
        .pid = (uint32_t)getpid(),
        .epoch = session->epoch,
    };
    snprintf(hello.program, sizeof(hello.program), "%s", program_invocation_short_name);
    return hello;
}

/* `consequence`: what becomes of the program; NULL for one that is about to start. */
static void explain(const char *path, int error, const union agent_message *answer,
                    const char *consequence)
{
    if (error == -EPROTO && answer->header.type == MW_REFUSED) {
        const char *hint = answer->refused.code == MW_REFUSAL_VERSION
                               ? "start the program again with the moiety that its agent came with"
                               : "moiety events tells more";
        message_print(hint, "%.*s", (int)MW_TEXT_BYTES, answer->refused.text);
    } else if (consequence) {
        message_print("moiety agent status",
                      "no agent answers at %s: %s; until one does, this program %s", path,
                      strerror(-error), consequence);
    } else {
        message_print("moiety agent status; start the program with moiety run",
                      "no agent answers at %s: %s", path, strerror(-error));
    }
}

static void pause_for(uint64_t ns)
{
    struct timespec pause = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&pause, NULL);
}

static void pause_before_retry(void) { pause_for(RETRY_NS); }

/* An agent that hangs up on us at once must not be flooded: it may do so until other programs end,
 * because it cannot count what this one has. Each time in a row the pause is twice as long. */
static void pause_if_hasty(struct session *session, uint64_t now)
{
    if (now - session->opened_ns >= HASTY_NS) {
        session->hasty = 0;
        return;
    }
    pause_for((uint64_t)RETRY_NS << session->hasty);
    session->hasty += session->hasty < HASTY_DOUBLINGS;
}

/* The command that started this program made sure that an agent runs, but the agent may have died
 * since: then the connection is tried again. A path at which there never was a socket is a mistake,
 * which waiting does not mend. */
static int open_first(const struct session *session, const struct mw_hello *hello,
                      union agent_message *reply, int *lease)
{
    uint64_t began = now_ns();
    bool was_there = false;
    bool complained = false;
    for (;;) {
        int socket = connect_agent(session->path, hello, session->memfd, reply, lease);
        bool is_gone = socket == -ENOENT;
        bool is_dead = socket == -ECONNREFUSED || socket == -ECONNRESET || socket == -EPIPE;
        if (!(is_dead || (is_gone && was_there)) || now_ns() - began > RESTART_NS) {
            return socket;
        }
        if (!complained && now_ns() - began > COMPLAIN_AFTER_NS) {
            complained = true;
            explain(session->path, socket, reply, "waits for it");
        }
        was_there = true;
        pause_before_retry();
    }
}

int handshake_open(struct session *session, const char *path)
{
    union agent_message reply = {0};
    int lease = -1;
    int socket = -1;
    int error = strlen(path) < sizeof(session->path) ? 0 : -ENAMETOOLONG;
    if (!error) {
        snprintf(session->path, sizeof(session->path), "%s", path);
        error = make_counters(session);
    }
    if (!error) {
        struct mw_hello hello = greeting(session, 0);
        socket = open_first(session, &hello, &reply, &lease);
        error = socket < 0 ? socket : 0;
    }
    if (error) {
        explain(path, error, &reply, NULL);
        forget_counters(session);
        return error;
    }
    session->epoch = reply.welcome.epoch;
    error = session->welcomed(session, &reply.welcome, lease);
    session->was_welcomed = !error;
    close(lease);
    agent_begin(socket, NULL, 0);
    return error;
}

void handshake_reopen(struct session *session, bool holding)
{
    uint64_t began = now_ns();
    bool complained = false;
    agent_close();
    pause_if_hasty(session, began);
    for (;;) {
        union agent_message reply;
        int lease = -1;
        uint16_t flags = MW_HELLO_RESUMED;
        flags |= holding ? MW_HELLO_HOLDING : 0;
        flags |= client_is_pinned() ? MW_HELLO_PINNED : 0;
        struct mw_hello hello = greeting(session, flags);
        int socket = connect_agent(session->path, &hello, session->memfd, &reply, &lease);
        if (socket >= 0) {
            session->epoch = reply.welcome.epoch;
            session->welcomed(session, &reply.welcome, lease);
            close(lease);
            session->tell_state(socket);
            session->opened_ns = now_ns();
            return;
        }
        if (!complained && now_ns() - began > COMPLAIN_AFTER_NS) {
            complained = true;
            explain(session->path, socket, &reply,
                    holding ? "keeps the GPU and runs on" : "waits as soon as it needs the GPU");
        }
        pause_before_retry();
    }
}

void handshake_after_fork(struct session *session)
{
    close(session->memfd);
    session->memfd = -1;
    session->counters = NULL;
}
