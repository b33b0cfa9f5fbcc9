#include "agent/connections.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "agent/agent_abi.h"

static uint64_t key_of(const struct connections *all, const struct connection *one)
{
    return (uint64_t)one->generation << 32 | (uint32_t)(one - all->entries);
}

struct connection *connections_find(struct connections *all, uint64_t key)
{
    uint32_t index = (uint32_t)key;
    if (index >= all->count) {
        return NULL;
    }
    struct connection *one = &all->entries[index];
    bool is_it = one->state != CONNECTION_FREE && one->generation == (uint32_t)(key >> 32);
    return is_it ? one : NULL;
}

static bool watch(struct connections *all, struct connection *one, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data = {.u64 = key_of(all, one)}};
    return epoll_ctl(all->epoll_fd, operation, one->fd, &event) == 0;
}

static void poll(struct connections *all, struct connection *one)
{
    one->state = CONNECTION_POLLED;
    watch(all, one, EPOLL_CTL_MOD, EPOLLIN);
}

/* It stays registered, so that it can be polled again for certain; a hang-up is reported once. */
static void do_not_poll(struct connections *all, struct connection *one)
{
    watch(all, one, EPOLL_CTL_MOD, EPOLLET);
}

static void *grown(void *from, uint32_t count, size_t each)
{
    void *more = realloc(from, (count ? 2 * (size_t)count : 16) * each);
    if (more != NULL) {
        memset((char *)more + count * each, 0, (count ? count : 16) * each);
    }
    return more;
}

static uint32_t user_of(struct connections *all, uint32_t account)
{
    uint32_t found = NO_ENTRY;
    for (uint32_t i = 0; i < all->user_count; i++) {
        const struct user *user = &all->users[i];
        bool in_use = user->connections || user->unread;
        if (in_use && user->account == account) {
            return i;
        }
        if (!in_use && found == NO_ENTRY) {
            found = i;
        }
    }
    if (found == NO_ENTRY) {
        struct user *more = grown(all->users, all->user_count, sizeof *more);
        if (more == NULL) {
            return NO_ENTRY;
        }
        found = all->user_count;
        all->users = more;
        all->user_count = found ? 2 * found : 16;
    }
    all->users[found] = (struct user){.account = account, .first = NO_ENTRY, .last = NO_ENTRY};
    return found;
}

/* Reads a socket from now on; returns its key, which no other connection ever has, or 0 without memory. */
uint64_t connections_add(struct connections *all, int fd, uint32_t account)
{
    uint32_t at = 0;
    while (at < all->count && all->entries[at].state != CONNECTION_FREE) {
        at++;
    }
    if (at == all->count) {
        struct connection *more = grown(all->entries, all->count, sizeof *more);
        if (more == NULL) {
            return 0;
        }
        all->entries = more;
        all->count = at ? 2 * at : 16;
    }
    uint32_t user = user_of(all, account);
    if (user == NO_ENTRY) {
        return 0;
    }
    struct connection *one = &all->entries[at];
    *one = (struct connection){
        .fd = fd, .generation = one->generation + 1, .user = user, .next = NO_ENTRY};
    if (!watch(all, one, EPOLL_CTL_ADD, EPOLLIN)) {
        return 0;
    }
    one->state = CONNECTION_POLLED;
    all->users[user].connections++;
    return key_of(all, one);
}

/* Reads the parked connection of a user that waited longest. */
static void unpark(struct connections *all, struct user *user)
{
    if (user->first == NO_ENTRY) {
        return;
    }
    struct connection *one = &all->entries[user->first];
    user->first = one->next;
    if (user->first == NO_ENTRY) {
        user->last = NO_ENTRY;
    }
    one->next = NO_ENTRY;
    poll(all, one);
}

static void leave_queue(struct connections *all, struct connection *one)
{
    struct user *user = &all->users[one->user];
    uint32_t index = (uint32_t)(one - all->entries), before = NO_ENTRY;
    for (uint32_t at = user->first; at != index; at = all->entries[at].next) {
        before = at;
    }
    if (before == NO_ENTRY) {
        user->first = one->next;
    } else {
        all->entries[before].next = one->next;
    }
    if (user->last == index) {
        user->last = before;
    }
}

/* Whether its user has a turn's packets in the ring: then it is parked. */
bool connections_must_wait(struct connections *all, struct connection *one, uint64_t key)
{
    struct user *user = &all->users[one->user];
    if (user->unread < MA_PACKETS_A_TURN) {
        return false;
    }
    do_not_poll(all, one);
    one->state = CONNECTION_PARKED;
    if (user->last == NO_ENTRY) {
        user->first = (uint32_t)key;
    } else {
        all->entries[user->last].next = (uint32_t)key;
    }
    user->last = (uint32_t)key;
    return true;
}

/* Counts a packet that goes into the ring. */
void connections_read(struct connections *all, struct connection *one, uint32_t cost)
{
    all->users[one->user].unread += cost;
}

/* Counts a packet that was taken from the ring; the user's next connection has its turn. After the last packet, no
 * connection stays parked: one that had a turn may have had nothing to read. */
void connections_taken(struct connections *all, uint32_t user, uint32_t cost)
{
    struct user *taken = &all->users[user];
    taken->unread -= cost;
    if (taken->unread < MA_PACKETS_A_TURN) {
        unpark(all, taken);
    }
    while (!taken->unread && taken->first != NO_ENTRY) {
        unpark(all, taken);
    }
}

/* Does not read it any more. */
void connections_stop(struct connections *all, struct connection *one)
{
    if (one->state == CONNECTION_POLLED) {
        do_not_poll(all, one);
    }
    one->state = CONNECTION_STOPPED;
}

void connections_resume(struct connections *all, uint64_t key)
{
    struct connection *one = connections_find(all, key);
    if (one && one->state == CONNECTION_STOPPED) {
        poll(all, one);
    }
}

/* Forgets a connection: its descriptor is not touched any more. */
void connections_remove(struct connections *all, uint64_t key)
{
    struct connection *one = connections_find(all, key);
    if (one == NULL) {
        return;
    }
    if (one->state == CONNECTION_PARKED) {
        leave_queue(all, one);
    } else {
        unpark(all, &all->users[one->user]); /* it may have been this one's turn */
    }
    watch(all, one, EPOLL_CTL_DEL, 0);
    one->state = CONNECTION_FREE;
    all->users[one->user].connections--;
}

void connections_dispose(struct connections *all)
{
    free(all->entries);
    free(all->users);
}
