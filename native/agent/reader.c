/* The thread that reads the sockets of programs for the agent, without Python's lock.
 *
 * One lock serialises the thread with Python: each of the thread's steps (one packet, with the transition that it
 * fires) and each call of Python is whole. Nothing that is done under the lock waits for anything. */
#include "agent/reader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/connections.h"
#include "agent/ring.h"
#include "agent/shot.h"
#include "wire/wire.h"

#define READ_AT_ONCE 16
#define SHOTS_MAX 64u /* one for each GPU, and what follows it */
#define EVENTS 64
/* For so long Python leaves the processors to a program that got its lease. */
#define GRANTED_NS 100000u

struct ma_reader {
    pthread_mutex_t lock;
    pthread_cond_t room; /* Python took a record, or wants the thread to end */
    pthread_t thread;
    struct connections connections;
    struct ring ring;
    struct ma_shot shots[SHOTS_MAX];
    /* The armed ones: from, and up to. While there are any, the ring has nothing but what fired before them. */
    uint32_t armed_from, armed_to;
    uint32_t fired;   /* number of records in the ring that fired */
    bool holds;       /* Python does not know yet that the ring has records */
    uint64_t hold_ns; /* for so long, while the next one is armed */
    bool stops;
    int wake_fd;  /* ends the thread's wait */
    int timer_fd; /* ends the time in which Python does not know */
    int event_fd; /* readable while the ring has records, unless `holds` */
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void signal_fd(int fd)
{
    uint64_t one = 1;
    ssize_t done = write(fd, &one, sizeof one);
    (void)done; /* full: it is readable anyway */
}

static void clear_fd(int fd)
{
    eventfd_t count;
    (void)eventfd_read(fd, &count); /* empty: it is clear */
}

static bool is_armed(const struct ma_reader *reader)
{
    return reader->armed_from < reader->armed_to;
}

static void disarm(struct ma_reader *reader) { reader->armed_from = reader->armed_to = 0; }

/* Wakes Python after this time: its work would keep a processor from the programs that go on. */
static void wake_python(struct ma_reader *reader, uint64_t after_ns)
{
    struct itimerspec after = {.it_value = {.tv_sec = (time_t)(after_ns / 1000000000u),
                                            .tv_nsec = (long)(after_ns % 1000000000u)}};
    reader->holds = after_ns && !timerfd_settime(reader->timer_fd, 0, &after, NULL);
    if (!reader->holds) {
        signal_fd(reader->event_fd);
    }
}

/* Carries out what is armed for this packet. After that only its next one is armed, or none.
 * Returns for how long Python lets the programs go on before it has to know. */
static uint64_t fire(struct ma_reader *reader, struct ma_record *record, const void *packet)
{
    uint32_t i = reader->armed_from, end = reader->armed_to;
    disarm(reader);
    while (i < end && !shot_matches(&reader->shots[i], record, packet)) {
        i++;
    }
    if (i == end) {
        return 0;
    }
    const struct ma_shot *shot = &reader->shots[i];
    struct connection *to = connections_find(&reader->connections, shot->to);
    uint32_t flags = to ? shot_fire(shot, to->fd) : 0;
    record->flags |= flags;
    record->shot = i;
    reader->fired += flags ? 1 : 0;
    if (!(flags & MA_SENT)) {
        return 0;
    }
    if (shot->next) {
        reader->armed_from = shot->next;
        reader->armed_to = shot->next + 1;
        return reader->hold_ns;
    }
    uint64_t most_ns = reader->hold_ns < GRANTED_NS ? reader->hold_ns : GRANTED_NS;
    return shot->note == MW_GRANT ? most_ns : 0;
}

static uint32_t cost_of(const struct ma_record *record)
{
    return 1 + record->fds / MA_FDS_A_PACKET;
}

static void push(struct ma_reader *reader, struct connection *from, struct ma_record *record,
                 const void *packet, const int *fds)
{
    bool was_empty = ring_is_empty(&reader->ring);
    uint64_t sleep_ns = fire(reader, record, packet);
    record->user = from->user;
    connections_read(&reader->connections, from, cost_of(record));
    ring_push(&reader->ring, record, packet, fds);
    if (was_empty || reader->holds) {
        wake_python(reader, sleep_ns);
    }
}

static uint32_t descriptors(struct msghdr *message, int *fds)
{
    uint32_t count = 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR(message, each)) {
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
            uint32_t more = (uint32_t)((each->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            more = more > MA_FDS_MAX - count ? MA_FDS_MAX - count : more;
            memcpy(fds + count, CMSG_DATA(each), more * sizeof(int));
            count += more;
        }
    }
    return count;
}

/* Reads one packet of a connection that is ready; false: there is no more for now. */
static bool read_one(struct ma_reader *reader, uint64_t key)
{
    struct connections *all = &reader->connections;
    while (!ring_has_room(&reader->ring) && !reader->stops) {
        if (reader->holds) {
            wake_python(reader, 0);
        }
        pthread_cond_wait(&reader->room, &reader->lock);
    }
    struct connection *one = connections_find(all, key);
    if (reader->stops || !one || one->state != CONNECTION_POLLED ||
        connections_must_wait(all, one, key)) {
        return false;
    }
    char packet[MA_PACKET_BYTES];
    char control[CMSG_SPACE(MA_FDS_MAX * sizeof(int))] __attribute__((aligned(8)));
    int fds[MA_FDS_MAX];
    struct iovec part = {.iov_base = packet, .iov_len = sizeof packet};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(one->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        one->in_a_row = 0;
        return false;
    }
    if (got < 0 && errno == EINTR) {
        return true;
    }
    struct ma_record record = {.key = key, .at_ns = now_ns()};
    if (got < 0) {
        record.error = errno;
    } else {
        record.bytes = (uint32_t)got;
        record.fds = descriptors(&message, fds);
    }
    if (got <= 0) {
        record.kind = MA_END;
        connections_stop(all, one);
    } else if (++one->in_a_row >= MA_PACKETS_A_TURN) {
        one->in_a_row = 0;
        record.flags = MA_BURST;
        connections_stop(all, one);
    }
    push(reader, one, &record, packet, fds);
    return one->state == CONNECTION_POLLED;
}

/* The time is over in which Python does not know of what fired. */
static void end_hold(struct ma_reader *reader)
{
    uint64_t times;
    bool is_over = read(reader->timer_fd, &times, sizeof times) == (ssize_t)sizeof times;
    pthread_mutex_lock(&reader->lock);
    if (is_over && reader->holds) {
        wake_python(reader, 0);
    }
    pthread_mutex_unlock(&reader->lock);
}

static void read_some(struct ma_reader *reader, uint64_t key)
{
    bool more = true;
    for (int n = 0; more && n < READ_AT_ONCE; n++) {
        pthread_mutex_lock(&reader->lock);
        more = read_one(reader, key);
        pthread_mutex_unlock(&reader->lock);
    }
}

static void *run(void *argument)
{
    struct ma_reader *reader = argument;
    struct epoll_event events[EVENTS];
    bool stops = false;
    while (!stops) {
        int count = epoll_wait(reader->connections.epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            uint64_t key = events[i].data.u64;
            if (key == TIMER_KEY) {
                end_hold(reader);
            } else if (key != WAKE_KEY) {
                read_some(reader, key);
            }
        }
        pthread_mutex_lock(&reader->lock);
        stops = reader->stops;
        pthread_mutex_unlock(&reader->lock);
    }
    return NULL;
}

/* Makes the thread, without signals: they belong to Python's. */
static int begin(struct ma_reader *reader)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&reader->thread, NULL, run, reader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void dispose(struct ma_reader *reader)
{
    int fds[] = {reader->connections.epoll_fd, reader->wake_fd, reader->timer_fd, reader->event_fd};
    for (int i = 0; i < 4; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    connections_dispose(&reader->connections);
    ring_dispose(&reader->ring);
    free(reader);
}

static bool wakes_thread(const struct ma_reader *reader, int fd, uint64_t key)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = key}};
    return !epoll_ctl(reader->connections.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Starts a thread; NULL: errno says why not. `event_fd` is readable while there are records to take. If the
 * first half of a hand-off fired, it is so after `hold_ns`; if a lease was granted, after GRANTED_NS at most. */
struct ma_reader *moiety_agent_start(uint64_t ring_bytes, uint64_t hold_ns, int *event_fd)
{
    struct ma_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return NULL;
    }
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->room, NULL);
    reader->hold_ns = hold_ns;
    reader->connections.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    reader->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    reader->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    *event_fd = reader->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool has_all = ring_init(&reader->ring, ring_bytes) && *event_fd >= 0 &&
                   wakes_thread(reader, reader->wake_fd, WAKE_KEY) &&
                   wakes_thread(reader, reader->timer_fd, TIMER_KEY);
    int why = has_all ? begin(reader) : errno;
    if (why) {
        dispose(reader);
        errno = why;
        return NULL;
    }
    return reader;
}

/* Ends the thread. Descriptors of records that were not taken are the caller's: it takes them before. */
void moiety_agent_stop(struct ma_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    reader->stops = true;
    disarm(reader);
    pthread_cond_signal(&reader->room);
    signal_fd(reader->wake_fd);
    pthread_mutex_unlock(&reader->lock);
    pthread_join(reader->thread, NULL);
    dispose(reader);
}

/* Reads a socket from now on; returns its key, 0: it cannot. `account` is the user whose turn it takes. */
uint64_t moiety_agent_add(struct ma_reader *reader, int fd, uint32_t account)
{
    pthread_mutex_lock(&reader->lock);
    uint64_t key = connections_add(&reader->connections, fd, account);
    pthread_mutex_unlock(&reader->lock);
    return key;
}

/* Disarms, and does not touch the descriptor any more. */
void moiety_agent_remove(struct ma_reader *reader, uint64_t key)
{
    pthread_mutex_lock(&reader->lock);
    disarm(reader);
    connections_remove(&reader->connections, key);
    pthread_mutex_unlock(&reader->lock);
}

/* Reads on after MA_BURST. */
void moiety_agent_resume(struct ma_reader *reader, uint64_t key)
{
    pthread_mutex_lock(&reader->lock);
    connections_resume(&reader->connections, key);
    pthread_mutex_unlock(&reader->lock);
}

/* Disarms, and takes the oldest record with what follows it; 0: there is none. */
int moiety_agent_take(struct ma_reader *reader, struct ma_record *to)
{
    pthread_mutex_lock(&reader->lock);
    disarm(reader);
    bool has = ring_take(&reader->ring, to);
    if (has) {
        reader->fired -= to->flags & MA_FIRED ? 1 : 0;
        connections_taken(&reader->connections, to->user, cost_of(to));
        if (ring_has_room(&reader->ring)) {
            pthread_cond_signal(&reader->room);
        }
    }
    if (ring_is_empty(&reader->ring)) {
        reader->holds = false;
        clear_fd(reader->event_fd);
    }
    pthread_mutex_unlock(&reader->lock);
    return has;
}

/* Arms the first of these transitions, the `heads`, in place of others; the rest are their next ones.
 * 0: a message waits in the ring, so nothing is armed. */
int moiety_agent_arm(struct ma_reader *reader, const struct ma_shot *shots, uint32_t heads,
                     uint32_t count)
{
    pthread_mutex_lock(&reader->lock);
    bool can = ring_is_empty(&reader->ring) && heads <= count && count <= SHOTS_MAX;
    for (uint32_t i = 0; can && i < count; i++) {
        can = shots[i].next < count;
    }
    disarm(reader);
    if (can) {
        memcpy(reader->shots, shots, count * sizeof *shots);
        reader->armed_to = heads;
    }
    pthread_mutex_unlock(&reader->lock);
    return can;
}

/* Waits out a transition that is carried out now; returns enum ma_armed. */
int moiety_agent_disarm(struct ma_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    int fired = reader->fired > 1 ? MA_SHOTS : MA_SHOT;
    int was = reader->fired ? fired : is_armed(reader) ? MA_ARMED : MA_IDLE;
    disarm(reader);
    pthread_mutex_unlock(&reader->lock);
    return was;
}
