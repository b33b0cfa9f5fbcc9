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
#include <time.h>
#include <unistd.h>

#include "agent/armed.h"
#include "agent/connections.h"
#include "agent/hold.h"
#include "agent/packet.h"
#include "agent/ring.h"

#define READ_AT_ONCE 16
#define EVENTS 64

struct ma_reader {
    pthread_mutex_t lock;
    pthread_cond_t room; /* Python took a record, or wants the thread to end */
    pthread_t thread;
    struct connections connections;
    struct ring ring;
    struct armed armed;
    struct hold hold;
    bool stops;
    int wake_fd; /* ends the thread's wait */
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

/* Wakes Python. If a note is left to it, nothing fires before it has sent that. */
static void end_hold(struct ma_reader *reader)
{
    if (!hold_end(&reader->hold, &reader->connections, &reader->ring)) {
        armed_clear(&reader->armed);
    }
}

static uint32_t cost_of(const struct ma_record *record)
{
    return 1 + record->fds / MA_FDS_A_PACKET;
}

static void push(struct ma_reader *reader, struct connection *from, struct ma_record *record,
                 const void *packet, const int *fds)
{
    bool was_empty = ring_is_empty(&reader->ring);
    uint64_t hold_ns = armed_fire(&reader->armed, record, packet);
    record->user = from->user;
    connections_read(&reader->connections, from, cost_of(record));
    ring_push(&reader->ring, record, packet, fds);
    bool sleeps =
        was_empty || reader->hold.is_on; /* Python was not woken for what is in the ring */
    if (sleeps && !(hold_ns && hold_begin(&reader->hold, record->at_ns, hold_ns))) {
        end_hold(reader);
    }
}

/* Reads one packet of a connection that is ready; false: there is no more for now. */
static bool read_one(struct ma_reader *reader, uint64_t key)
{
    struct connections *all = &reader->connections;
    while (!ring_has_room(&reader->ring) && !reader->stops) {
        if (reader->hold.is_on) {
            end_hold(reader);
        }
        pthread_cond_wait(&reader->room, &reader->lock);
    }
    struct connection *one = connections_find(all, key);
    if (reader->stops || !one || one->state != CONNECTION_POLLED ||
        connections_must_wait(all, one, key)) {
        return false;
    }
    char packet[MA_PACKET_BYTES];
    int fds[MA_FDS_MAX];
    uint32_t count = 0;
    ssize_t got = packet_receive(one->fd, packet, fds, &count);
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
        record.fds = count;
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
    if (record.flags & (MA_FIRED | MA_ASKED)) {
        one->in_a_row = 0; /* its next one is rarely there already, so there is no try */
        return false;
    }
    return one->state == CONNECTION_POLLED;
}

/* A note is due, or the time is over in which Python does not know of what fired. */
static void look_at_time(struct ma_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    if (!hold_time(&reader->hold, now_ns(), &reader->connections, &reader->ring)) {
        armed_clear(&reader->armed);
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
                look_at_time(reader);
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
    int fds[] = {reader->connections.epoll_fd, reader->wake_fd};
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    hold_dispose(&reader->hold);
    connections_dispose(&reader->connections);
    ring_dispose(&reader->ring);
    free(reader);
}

static bool wakes_thread(const struct ma_reader *reader, int fd, uint64_t key)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = key}};
    return !epoll_ctl(reader->connections.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* Starts a thread; NULL: errno says why not. `event_fd` is readable while there are records to take. If something
 * fired, it is so after a time (armed.c), which is `hold_ns` at most for a drain; 0: at once. */
struct ma_reader *moiety_agent_start(uint64_t ring_bytes, uint64_t hold_ns, int *event_fd)
{
    struct ma_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return NULL;
    }
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->room, NULL);
    reader->armed.hold_ns = hold_ns;
    reader->armed.connections = &reader->connections;
    reader->armed.ring = &reader->ring;
    reader->armed.hold = &reader->hold;
    reader->connections.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    reader->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool has_all = hold_init(&reader->hold) && ring_init(&reader->ring, ring_bytes) &&
                   wakes_thread(reader, reader->wake_fd, WAKE_KEY) &&
                   wakes_thread(reader, reader->hold.timer_fd, TIMER_KEY);
    *event_fd = reader->hold.event_fd;
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
    armed_clear(&reader->armed);
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
    armed_clear(&reader->armed);
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
    armed_clear(&reader->armed);
    size_t at = reader->ring.head;
    bool has = ring_take(&reader->ring, to);
    if (has) {
        armed_taken(&reader->armed, to);
        hold_taken(&reader->hold, at);
        connections_taken(&reader->connections, to->user, cost_of(to));
        if (ring_has_room(&reader->ring)) {
            pthread_cond_signal(&reader->room);
        }
    }
    if (ring_is_empty(&reader->ring)) {
        hold_clear(&reader->hold);
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
    bool can = armed_set(&reader->armed, shots, heads, count);
    pthread_mutex_unlock(&reader->lock);
    return can;
}

/* Waits out a transition that is carried out now; returns enum ma_armed. */
int moiety_agent_disarm(struct ma_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    int was = armed_state(&reader->armed);
    armed_clear(&reader->armed);
    pthread_mutex_unlock(&reader->lock);
    return was;
}

/* Tells what became of messages so far. */
void moiety_agent_counts(struct ma_reader *reader, struct ma_counts *to)
{
    pthread_mutex_lock(&reader->lock);
    *to = reader->armed.counts;
    pthread_mutex_unlock(&reader->lock);
}
