#include "shim/base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(_Atomic uint32_t *word, uint32_t seen, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000L};
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, timeout_ms < 0 ? NULL : &limit, NULL, 0);
    errno = kept;
}

void futex_wake_all(_Atomic uint32_t *word)
{
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    errno = kept;
}

int futex_wait_shared(const volatile uint32_t *word, uint32_t seen, int timeout_ms)
{
    struct timespec limit = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000L};
    int kept = errno;
    int result = syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0) ? -errno : 0;
    errno = kept;
    return result;
}

void futex_wake_shared(const volatile uint32_t *word)
{
    int kept = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    errno = kept;
}

#ifdef MOIETY_DEBUG
#    define HELD_MAX 16

static __thread const struct lock *held[HELD_MAX];
static __thread uint32_t held_count;

static void fail(const char *what)
{
    ssize_t written = write(STDERR_FILENO, what, strlen(what));
    (void)written;
    abort();
}

/* Before the thread waits, so that a wrong order shows without a deadlock. */
static void check_order(const struct lock *lock)
{
    for (uint32_t i = 0; lock->rank && i < held_count; i++) {
        if (held[i]->rank && held[i]->rank <= lock->rank) {
            fail("moiety: locks were taken out of order\n");
        }
    }
}

static void note_taken(const struct lock *lock)
{
    if (held_count == HELD_MAX) {
        fail("moiety: a thread holds too many locks\n");
    }
    held[held_count++] = lock;
}

static void note_dropped(const struct lock *lock)
{
    uint32_t i = held_count;
    while (i > 0 && held[i - 1] != lock) {
        i--;
    }
    if (i == 0) {
        fail("moiety: a thread drops a lock that it does not hold\n");
    }
    for (; i < held_count; i++) {
        held[i - 1] = held[i];
    }
    held_count--;
}
#else
static void check_order(const struct lock *lock) { (void)lock; }
static void note_taken(const struct lock *lock) { (void)lock; }
static void note_dropped(const struct lock *lock) { (void)lock; }
#endif

void lock_take(struct lock *lock)
{
    uint32_t seen = 0;
    check_order(lock);
    if (!atomic_compare_exchange_strong(&lock->word, &seen, 1)) {
        while (atomic_exchange(&lock->word, 2) != 0) {
            futex_wait(&lock->word, 2, -1);
        }
    }
    note_taken(lock);
}

bool lock_try(struct lock *lock)
{
    uint32_t seen = 0;
    bool taken = atomic_compare_exchange_strong(&lock->word, &seen, 1);
    if (taken) {
        note_taken(lock); /* in any order: it does not wait */
    }
    return taken;
}

void lock_drop(struct lock *lock)
{
    note_dropped(lock);
    if (atomic_exchange(&lock->word, 0) == 2) {
        futex_wake_all(&lock->word);
    }
}

void lock_after_fork(struct lock *lock) { atomic_store(&lock->word, 0); }
