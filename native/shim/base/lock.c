#include "shim/base/lock.h"

#include <errno.h>
#include <linux/futex.h>
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

void lock_take(struct lock *lock)
{
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(&lock->word, &seen, 1)) {
        return;
    }
    while (atomic_exchange(&lock->word, 2) != 0) {
        futex_wait(&lock->word, 2, -1);
    }
}

bool lock_try(struct lock *lock)
{
    uint32_t seen = 0;
    return atomic_compare_exchange_strong(&lock->word, &seen, 1);
}

void lock_drop(struct lock *lock)
{
    if (atomic_exchange(&lock->word, 0) == 2) {
        futex_wake_all(&lock->word);
    }
}
