/* A small lock on one futex word.
 *
 * The shim links libc and libdl only; before glibc 2.34 parts of pthread live elsewhere,
 * and our lock must work before the program has loaded them.
 */
#ifndef MOIETY_SHIM_BASE_LOCK_H
#define MOIETY_SHIM_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The order in which a thread takes locks: each has a lower rank than those that it holds already. A debug
 * build (MOIETY_DEBUG) ends at a lock that is taken out of order. */
enum lock_rank {
    LOCK_UNRANKED, /* not checked */
    LOCK_LOAD,     /* the driver's library */
    LOCK_SOCKET,   /* the connection to the agent */
    LOCK_PINS,     /* that nothing of this process leaves */
    LOCK_UNKNOWN_CALLS,
    LOCK_SLOTS, /* of threads, at the gate */
    LOCK_QUEUE_MARKERS,
    LOCK_HOST_ARENA,
    LOCK_HOST_SEGMENTS,
    LOCK_IMPORTS, /* the lists of imports */
    LOCK_DEVICES,
    LOCK_EXTENTS, /* extents, chunks and the balances of devices */
    LOCK_POOLS,
    LOCK_GRAPH_MEMORY,
    LOCK_UNEVICTABLE,
    LOCK_ATTACH, /* one thread asks for a device */
    LOCK_STREAMS,
    LOCK_CONTEXTS,    /* contexts stay */
    LOCK_IMPORT_OPEN, /* one thread opens or closes an import */
    LOCK_HEARING,     /* one thread hears the agent */
    LOCK_BEGIN,       /* the connection is being made */
    LOCK_OWN_GPUS,    /* one thread asks which GPUs the workload has */
    LOCK_VISIBLE,     /* one thread starts the driver */
};

struct lock {
    _Atomic uint32_t word; /* 0: free, 1: taken, 2: taken, and a thread waits */
#ifdef MOIETY_DEBUG
    enum lock_rank rank;
#endif
};

#ifdef MOIETY_DEBUG
#    define LOCK_INIT(its_rank) {.rank = (its_rank)}
#else
#    define LOCK_INIT(its_rank) {0}
#endif

void lock_take(struct lock *lock);
void lock_drop(struct lock *lock);
/* Takes the lock if it is free. */
bool lock_try(struct lock *lock);
/* In a forked child: frees the lock, whichever thread of the parent had it. */
void lock_after_fork(struct lock *lock);
/* True if a thread waits for a lock that the caller holds. */
static inline bool lock_is_wanted(struct lock *lock) { return atomic_load(&lock->word) == 2; }

/* Sleeps while *word is still `seen`; timeout_ms < 0 waits for ever. Spurious returns happen. */
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int timeout_ms);
void futex_wake_all(_Atomic uint32_t *word);
/* The same for a word in a page that other processes map as well; mapped for reading is enough.
 * futex_wait_shared gives 0, or a negative errno (-EAGAIN: it was not `seen`). */
int futex_wait_shared(const volatile uint32_t *word, uint32_t seen, int timeout_ms);
void futex_wake_shared(const volatile uint32_t *word);

static inline void lock_release_cleanup(struct lock **lock) { lock_drop(*lock); }

#define LOCK_JOIN_(a, b) a##b
#define LOCK_JOIN(a, b) LOCK_JOIN_(a, b)
/* Holds a lock until the end of the block. */
#define LOCK_SCOPE(which)                                                                     \
    struct lock *LOCK_JOIN(scope_, __LINE__) __attribute__((cleanup(lock_release_cleanup))) = \
        (lock_take(which), (which))

#endif
