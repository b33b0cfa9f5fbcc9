#include "shim/agent/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/lock.h"

static struct lock lock = LOCK_INIT(LOCK_SOCKET);
static int fd = -1;
static uint32_t last_serial;
static struct agent_request *queue;

/* Messages that came while a message of another type was awaited. Only the control thread uses the
 * list, because only it receives. */
struct late {
    struct late *next;
    union agent_message message;
    int fds[MW_PIECES_MAX];
    uint32_t fd_count;
};
static struct late *late;
static int received_fds[MW_PIECES_MAX]; /* the first is the next to be taken */
static uint32_t received_count;
static __thread bool receives;

#define RETRY_NS 1000000L

void agent_close(void)
{
    LOCK_SCOPE(&lock);
    if (fd >= 0) {
        close(fd);
        fd = -1;
    }
    while (late) {
        struct late *next = late->next;
        for (uint32_t i = 0; i < late->fd_count; i++) {
            close(late->fds[i]);
        }
        free(late);
        late = next;
    }
}

int agent_fd(void) { return fd; }

bool agent_is_lost(void)
{
    struct pollfd agent = {.fd = fd};
    return fd < 0 || (poll(&agent, 1, 0) > 0 && agent.revents & (POLLHUP | POLLERR));
}

static void send_locked(void *message, size_t bytes)
{
    ssize_t n = -1;
    while (fd >= 0 && n < 0) {
        /* Not send(3): a thread that is cancelled in there would keep the lock. */
        n = syscall(SYS_sendto, fd, message, bytes, MSG_NOSIGNAL, NULL, 0);
        if (n < 0 && errno != EINTR) {
            shutdown(fd, SHUT_RDWR); /* so that the control thread sees it too, and starts over */
            return;
        }
    }
}

static void set_header(struct mw_header *header, size_t bytes, enum mw_type type)
{
    header->type = (uint16_t)type;
    header->bytes = (uint16_t)bytes;
}

void agent_begin(int socket, struct mw_attach *states, uint32_t count)
{
    LOCK_SCOPE(&lock);
    fd = socket;
    for (uint32_t i = 0; i < count; i++) {
        set_header(&states[i].header, sizeof(states[i]), MW_ATTACH);
        send_locked(&states[i], sizeof(states[i]));
    }
    for (struct agent_request *r = queue; r; r = r->next) {
        send_locked(&r->message, r->message.header.bytes);
    }
}

void agent_send(void *message, size_t bytes, enum mw_type type)
{
    set_header(message, bytes, type);
    int kept = errno;
    lock_take(&lock);
    send_locked(message, bytes);
    lock_drop(&lock);
    errno = kept;
}

/* The kernel limits how many descriptors of one user are in flight (ETOOMANYREFS): then the message
 * is sent a moment later. */
static bool send_fds_locked(struct msghdr *packet)
{
    struct timespec pause = {0, RETRY_NS};
    while (fd >= 0 && syscall(SYS_sendmsg, fd, packet, MSG_NOSIGNAL) < 0) {
        if (errno == ETOOMANYREFS) {
            nanosleep(&pause, NULL);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return fd >= 0;
}

bool agent_send_fds(void *message, size_t bytes, enum mw_type type, const int *fds, uint32_t count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MW_PIECES_MAX * sizeof(int))];
    } control = {0};
    struct iovec part = {message, bytes};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    set_header(message, bytes, type);
    LOCK_SCOPE(&lock);
    return send_fds_locked(&packet);
}

void agent_note(enum mw_type type, uint32_t epoch)
{
    struct mw_lease_note note = {.epoch = epoch};
    agent_send(&note, sizeof(note), type);
}

void agent_amount(enum mw_type type, uint32_t gpu, uint64_t bytes)
{
    struct mw_amount amount = {.gpu = gpu, .bytes = bytes};
    agent_send(&amount, sizeof(amount), type);
}

void agent_ask(struct agent_request *request, size_t bytes, enum mw_type type)
{
    struct mw_header *header = &request->message.header;
    int kept = errno;
    atomic_store(&request->answered, 0);
    lock_take(&lock);
    set_header(header, bytes, type);
    header->serial = ++last_serial ? last_serial : ++last_serial;
    request->next = queue;
    queue = request;
    send_locked(&request->message, bytes);
    lock_drop(&lock);
    while (!atomic_load(&request->answered)) {
        futex_wait(&request->answered, 0, -1);
    }
    errno = kept;
}

/* Keeps the descriptors that a message of this type may bring, and closes all others. */
static void take_fds(struct msghdr *packet, uint16_t type)
{
    uint32_t most = type == MW_ARENA ? 1 : type == MW_IMPORT ? MW_PIECES_MAX : 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c; c = CMSG_NXTHDR(packet, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (received_count < most) {
                received_fds[received_count++] = got;
            } else {
                close(got);
            }
        }
    }
}

int agent_take_fd(void)
{
    if (!received_count) {
        return -1;
    }
    int taken = received_fds[0];
    received_count--;
    memmove(received_fds, received_fds + 1, received_count * sizeof(int));
    return taken;
}

static void close_fds(void)
{
    for (int left = agent_take_fd(); left >= 0; left = agent_take_fd()) {
        close(left);
    }
}

static int receive(union agent_message *message, uint64_t timeout_ns)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    struct timespec limit = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    int n = ppoll(&ready, 1, timeout_ns == UINT64_MAX ? NULL : &limit, NULL);
    if (n <= 0) {
        return n < 0 && errno != EINTR ? -errno : 0;
    }
    memset(message, 0, sizeof(*message));
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MW_PIECES_MAX * sizeof(int))];
    } control;
    struct iovec part = {message, sizeof(*message)};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(ready.fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    take_fds(&packet, got < (ssize_t)sizeof(struct mw_header) ? 0 : message->header.type);
    if (got < (ssize_t)sizeof(struct mw_header) || message->header.bytes != got) {
        close_fds();
        return -ECONNRESET;
    }
    if (ready.revents & POLLHUP && message->header.type != MW_REFUSED) {
        close_fds(); /* a grant of an agent that is gone may be another tenant's by now */
        return 0;
    }
    return 1;
}

/* The message, with its descriptors, of one that is out of the list. */
static void take_late(struct late *taken, union agent_message *message)
{
    *message = taken->message;
    received_count = taken->fd_count;
    memcpy(received_fds, taken->fds, received_count * sizeof(int));
    free(taken);
}

int agent_receive(union agent_message *message, uint64_t timeout_ns)
{
    struct late *first = late;
    receives = true;
    close_fds();
    if (!first) {
        return receive(message, timeout_ns);
    }
    late = first->next;
    take_late(first, message);
    return 1;
}

/* Puts a message off until agent_receive; 0 or a negative errno. */
static int keep(const union agent_message *message)
{
    struct late *made = malloc(sizeof(*made));
    if (!made) {
        shutdown(fd, SHUT_RDWR); /* a new agent is told all that this message was about */
        return -ENOMEM;
    }
    *made = (struct late){.message = *message, .fd_count = received_count};
    memcpy(made->fds, received_fds, received_count * sizeof(int));
    received_count = 0;
    struct late **end = &late;
    while (*end) {
        end = &(*end)->next;
    }
    *end = made;
    return 0;
}

int agent_fetch(enum mw_type type, union agent_message *message, uint64_t timeout_ns)
{
    close_fds();
    int got = receive(message, timeout_ns);
    if (got <= 0 || message->header.type == type) {
        return got;
    }
    return keep(message);
}

int agent_sift(bool (*takes)(int type), union agent_message *message)
{
    close_fds();
    for (struct late **at = &late; *at; at = &(*at)->next) {
        struct late *found = *at;
        if (takes(found->message.header.type)) {
            *at = found->next;
            take_late(found, message);
            return 1;
        }
    }
    int got = receive(message, 0);
    while (got > 0 && !takes(message->header.type)) {
        got = keep(message);
        if (!got) {
            got = receive(message, 0);
        }
    }
    return got;
}

bool agent_is_heard_here(void) { return receives && fd >= 0; }

struct agent_request *agent_take(uint32_t serial)
{
    LOCK_SCOPE(&lock);
    for (struct agent_request **at = &queue; *at; at = &(*at)->next) {
        if ((*at)->message.header.serial == serial) {
            struct agent_request *found = *at;
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

void agent_answer(struct agent_request *request, const union agent_message *answer)
{
    request->message = *answer;
    atomic_store(&request->answered, 1);
    futex_wake_all(&request->answered);
}

void agent_after_fork(void)
{
    if (fd >= 0) {
        close(fd);
    }
    fd = -1;
    queue = NULL;
    late = NULL;
    close_fds();
    receives = false;
    lock_after_fork(&lock);
}
