/* The connections that the thread reads, and the users that they belong to. The caller holds the reader's lock.
 *
 * A user may have MA_PACKETS_A_TURN unread packets in the ring. Connections that have more are parked, and read
 * in turns as Python takes the packets: so others wait for at most one turn of each user. */
#ifndef MOIETY_AGENT_CONNECTIONS_H
#define MOIETY_AGENT_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum connection_state {
    CONNECTION_FREE,    /* the entry is not in use */
    CONNECTION_POLLED,  /* it is read when it is ready */
    CONNECTION_PARKED,  /* its user has a turn's packets in the ring */
    CONNECTION_STOPPED, /* it is over, or waits for connections_resume */
};

struct connection {
    enum connection_state state;
    int fd;
    uint32_t generation;
    uint32_t user;     /* index into users */
    uint32_t in_a_row; /* packets since there were none last */
    uint32_t next;     /* parked: the next of its user; NO_ENTRY: none */
};

struct user {
    uint32_t account;
    uint32_t connections; /* 0: the entry is not in use, unless `unread` */
    uint32_t unread;      /* packets in the ring, with what their descriptors count */
    uint32_t first, last; /* parked connections */
};

struct connections {
    int epoll_fd;
    struct connection *entries;
    uint32_t count;
    struct user *users;
    uint32_t user_count;
};

#define NO_ENTRY 0xffffffffu
#define WAKE_KEY UINT64_MAX
#define TIMER_KEY (UINT64_MAX - 1)

uint64_t connections_add(struct connections *all, int fd, uint32_t account);
void connections_remove(struct connections *all, uint64_t key);
struct connection *connections_find(struct connections *all, uint64_t key);
void connections_resume(struct connections *all, uint64_t key);
void connections_stop(struct connections *all, struct connection *one);
bool connections_must_wait(struct connections *all, struct connection *one, uint64_t key);
void connections_read(struct connections *all, struct connection *one, uint32_t cost);
void connections_taken(struct connections *all, uint32_t user, uint32_t cost);
void connections_dispose(struct connections *all);

#endif
